"""Connections of the driver and of executors, and patience with servers that are away for a while.

What it promises
  * `Link.attempt` repeats a question that changes nothing while the server does not answer, and gives up when nothing
    has worked for as long as the options say. What will not become better by waiting, such as a refused password, is
    raised at once, and its text names the options.
  * A worker process keeps the connection of its last task for the next one; a connection on which something went
    wrong is closed.

What it does not do: repeat publishes; those are not questions.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from tidelog.base.errors import (
    ApiError,
    ClientError,
    Disconnected,
    NoResponders,
    ServerError,
    TidelogError,
    Timeout,
    Untrusted,
)
from tidelog.client.connection import Connection, connect
from tidelog.client.jetstream.bulk import BulkGet
from tidelog.client.jetstream.columns import Columns
from tidelog.spark.option import ConnectOptions
from tidelog.wire.parser import Collector

T = TypeVar("T")

NAME = "tidelog-spark"
# For one answer, or one piece of a long one.
ANSWER_S = 10.0
# From the first to the longest pause between attempts.
PAUSE_S = 0.05
PAUSE_MOST_S = 2.0
# A server that has just started answers before its streams do, but not for longer than this.
NOT_READY_S = 15.0


class LinkError(TidelogError):
    """No way to the server, or none in: the text says which options to look at."""


def is_forbidden(error: ServerError) -> bool:
    """Whether it is only that this user may not ask that; the connection goes on."""
    return str(error).startswith("Permissions Violation")


class Link:
    """To one of the servers; opened when needed. `parser` makes what keeps some of the messages for itself."""

    def __init__(
        self, options: ConnectOptions, patience_s: float, *, parser: Callable[[], Collector] = Columns
    ) -> None:
        self._options = options
        self.patience_s = patience_s
        self._parser = parser
        self._connection: Connection | None = None
        self._bulk: BulkGet | None = None
        # Whether the server answers in blocks of Arrow; None until somebody wanted to know.
        self.blocks: bool | None = None

    def connection(self) -> Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def bulk(self) -> BulkGet:
        """Empty columns, and nothing on its way."""
        if self._bulk is None:
            self._bulk = BulkGet(self.connection())
        return self._bulk

    def attempt(self, question: Callable[[], T]) -> T:
        """Ask until there is an answer."""
        start = time.monotonic()
        pause_s = PAUSE_S
        while True:
            try:
                return question()
            except Untrusted as error:
                self.close()
                raise LinkError(
                    f"option 'tls.ca': {error}; name the file of the authority that has signed it"
                ) from error
            except (Disconnected, Timeout) as error:
                failure: ClientError = error
                limit_s = self.patience_s
            except NoResponders as error:
                failure, limit_s = error, min(NOT_READY_S, self.patience_s)
            except ApiError:
                self.close()
                raise
            except ServerError as error:
                self.close()
                raise self._refused(error) from error
            self.close()
            if time.monotonic() - start + pause_s > limit_s:
                raise LinkError(
                    f"option 'servers': {self._options.servers_shown} did not answer for {limit_s:g} s, last: {failure}"
                ) from failure
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_MOST_S)

    def close(self) -> None:
        self._bulk = None
        self.blocks = None
        if self._connection is not None:
            with contextlib.suppress(ClientError):
                self._connection.close()
            self._connection = None

    def _open(self) -> Connection:
        try:
            return self._connect()
        except (Disconnected, Timeout, ServerError):
            raise
        except ClientError as error:
            raise LinkError(
                f"{error}; look at the files of the options 'tls.ca', 'tls.cert', 'tls.key', 'nkey' and 'credentials'"
            ) from error

    def _connect(self) -> Connection:
        options = self._options
        return connect(
            options.servers,
            name=NAME,
            user=options.user,
            password=options.password,
            token=options.token,
            nkey_file=options.nkey,
            credentials_file=options.credentials,
            tls_ca=options.tls_ca,
            tls_cert=options.tls_cert,
            tls_key=options.tls_key,
            tls_first=options.tls_first,
            timeout_s=ANSWER_S,
            parser=self._parser,
        )

    def _refused(self, error: ServerError) -> LinkError:
        return LinkError(
            f"{self._options.servers_shown} refused: {error}; look at the options 'user' and 'password', 'token', "
            "'nkey' and 'credentials', and at the rights of that user"
        )


# Of this worker process: what its last task used, by what it was opened with.
_kept: dict[tuple[ConnectOptions, Callable[[], Collector]], Link] = {}


def headed_columns() -> Columns:
    return Columns(with_headers=True)


@contextlib.contextmanager
def lease(options: ConnectOptions, parser: Callable[[], Collector] = Columns) -> Iterator[Link]:
    """For one task. Kept for the next when the task ends well."""
    key = (options, parser)
    link = _kept.pop(key, None) or Link(options, options.task_patience_s, parser=parser)
    ended_well = False
    try:
        yield link
        ended_well = True
    finally:
        if ended_well and not _kept:
            _kept[key] = link
        else:
            link.close()
