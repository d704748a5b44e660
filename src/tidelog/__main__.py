"""`python -m tidelog`: the same as the `tidelog` command."""

import sys

from tidelog.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
