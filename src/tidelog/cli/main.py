"""Where the `tidelog` command begins: the server goes its own way, everything else goes to click.

Harnesses expect a server that listens soon after exec, so `tidelog serve`, and this program under the name
`nats-server`, come to `cli.serve` without anything else having been imported.
"""

import os
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. `argv` is without the program's name. The exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    named_as_peer = argv is None and os.path.basename(sys.argv[0]) == "nats-server"
    if named_as_peer or arguments[:1] == ["serve"]:
        from tidelog.cli import serve

        return serve.main(arguments if named_as_peer else arguments[1:])
    from tidelog.cli import command

    return command.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
