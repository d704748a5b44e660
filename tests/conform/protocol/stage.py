"""Keeps a server of one kind running for the scripts that share its configuration."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from conform.protocol.play import Transcript, configured, play
from conform.protocol.script import Script
from tidelog.testing.peer import ServerProcess

# The time any single wait may take. The original answers within milliseconds; a busy machine may not.
PATIENCE_S = 5.0


class Stage:
    """Plays scripts against the server that `argv` starts; at most one such server runs at a time."""

    def __init__(self, argv: Sequence[str], certificates: Path, patience_s: float = PATIENCE_S) -> None:
        self.argv = argv
        self.certificates = certificates
        self.patience_s = patience_s
        self._server: ServerProcess | None = None
        self._config: str | None = None

    def play(self, script: Script) -> Transcript:
        if script.alone:
            with self._new(script) as server:
                return play(script, server, self.certificates, self.patience_s)
        if self._server is None or not self._server.running or self._config != script.config:
            self.close()
            self._server = self._new(script).start()
            self._config = script.config
        return play(script, self._server, self.certificates, self.patience_s)

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _new(self, script: Script) -> ServerProcess:
        # Neither server takes a file without any value.
        config = configured(script.config, self.certificates) or "debug: false\n"
        return ServerProcess(self.argv, config=config, flags=script.flags)
