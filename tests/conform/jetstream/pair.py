"""Two servers with JetStream, to which every script is played at the same time."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from conform.jetstream.play import Transcript, play
from conform.jetstream.script import Script
from tidelog.testing.peer import ServerProcess, ServerProcessError

# What both are told: enough for every script, and the same whatever the machine has.
CONFIG = "jetstream { max_mem: 256M, max_file: 1G }\n"


class Pair:
    """`theirs` and `ours` are command lines; a server that has died is started again for the next script.

    `patience_s` is how long each of them is waited for before it is noted as in vain. What the `users` of the `config`
    leave behind is deleted after each script; their passwords are their names. Without any, there is nobody to tell.
    """

    def __init__(
        self,
        theirs: Sequence[str],
        ours: Sequence[str],
        directory: str,
        patience_s: tuple[float, float],
        config: str = CONFIG,
        users: Sequence[str] = (),
    ) -> None:
        self.config = config
        self.users = users
        self.argvs = [theirs, ours]
        self.stores = [Path(directory) / name for name in ("theirs", "ours")]
        self.patience_s = patience_s
        self.pool = ThreadPoolExecutor(2)
        self.stack = ExitStack()
        self.servers: list[ServerProcess] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for argv, store in zip(self.argvs, self.stores, strict=True):
                flags = ["-js", "-sd", str(store)]
                self.servers.append(stack.enter_context(ServerProcess(argv, config=self.config, flags=flags)))
            self.stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pool.shutdown()
        self.stack.close()

    def agree(self, script: Script, times: int = 3) -> tuple[Transcript, Transcript]:
        """Play until both say the same, or so many times, since the original is not always of one mind.

        It has threads, and some numbers depend on which of them was first. Ours has none.
        """
        for _ in range(times):
            theirs, ours = self.play(script)
            if theirs.text() == ours.text() and not theirs.late:
                break
        return theirs, ours

    def play(self, script: Script) -> tuple[Transcript, Transcript]:
        """What they said, and what we said."""
        theirs = self.pool.submit(play, script, self.servers[0].port, self.patience_s[0], self.users)
        ours = self.pool.submit(self.ours, script)
        return theirs.result(), ours.result()

    def ours(self, script: Script) -> Transcript:
        server = self.servers[1]
        if not server.running:
            server.stop()
            server.start()
        try:
            return play(script, server.port, self.patience_s[1], self.users)
        except (OSError, AssertionError, ServerProcessError) as error:
            return Transcript([f"no answer: {error!r}"])
