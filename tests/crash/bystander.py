"""A client that has nothing to do with what goes wrong, and must not notice it.

It sends itself numbered messages in a thread, two milliseconds apart, and knows how long each took. Leaving its
`with` block fails the test if one was lost, doubled, out of order, or slow, or if the connection broke.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Self

import tidelog.client
from tidelog.base.errors import ClientError
from tidelog.testing.peer import ServerProcess

# A busy machine takes its time; a server that is held up by somebody else takes longer than this.
DELAY_S = 2.0
PAUSE_S = 0.002


class Bystander:
    def __init__(self, server: ServerProcess, *, delay_s: float = DELAY_S, **options: Any) -> None:
        self.delay_s = delay_s
        self.longest_s = 0.0
        self.count = 0
        self.complaint = ""
        self._connection = tidelog.client.connect(server.url, **options)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        self.goes_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.goes_on()
        finally:
            self._done.set()
            self._thread.join()
            self._connection.close()
        if kind is None:
            assert not self.complaint, self.complaint

    def goes_on(self, count: int = 5) -> None:
        """Wait until `count` more messages have made their way."""
        until, deadline = self.count + count, time.monotonic() + 2 * self.delay_s
        while self.count < until:
            assert not self.complaint, self.complaint
            assert time.monotonic() < deadline, f"still at message {self.count}"
            time.sleep(PAUSE_S)

    def _run(self) -> None:
        try:
            subject = self._connection.new_inbox()
            subscription = self._connection.subscribe(subject)
            while not self._done.wait(PAUSE_S):
                start = time.monotonic()
                self._connection.publish(subject, b"%d" % self.count)
                said = subscription.next(self.delay_s).payload
                self.longest_s = max(self.longest_s, time.monotonic() - start)
                if said != b"%d" % self.count:
                    self.complaint = f"message {said!r} came instead of {self.count}"
                    return
                self.count += 1
        except ClientError as error:
            self.complaint = f"bystander: {error!r} after {self.count} messages"
