"""Who was asked may answer: the reply subjects a connection may publish to because of `allow_responses`.

`note` when a message with a reply subject goes to the connection, `allows` when the connection publishes
where its lists forbid it. A note gives `max_msgs` uses for `expires_ns`, and a new one for the same subject
starts afresh (the peer takes one use away for it, so that whoever gets a request twice cannot answer).

Bounded: notes are dropped when used up or expired, and the oldest ones beyond REPLIES_TRACKED and
REPLIES_TRACKED_SIZE.
"""

from tidelog.base.limits import REPLIES_TRACKED, REPLIES_TRACKED_SIZE
from tidelog.broker.settings import ResponseRights


class ReplyLedger:
    """One per connection whose rights have `responses`."""

    __slots__ = ("_expires_ns", "_max_msgs", "_notes", "_size")

    def __init__(self, rights: ResponseRights) -> None:
        self._max_msgs = rights.max_msgs
        self._expires_ns = rights.expires_ns
        # Reply subject to (when noted, uses so far), the oldest first.
        self._notes: dict[bytes, tuple[int, int]] = {}
        self._size = 0  # of the subjects

    def __len__(self) -> int:
        return len(self._notes)

    def note(self, reply: bytes, now_ns: int) -> None:
        """A message with this reply subject, to which the lists do not allow to publish, was delivered."""
        notes = self._notes
        if notes.pop(reply, None) is None:
            self._size += len(reply)
        notes[reply] = (now_ns, 0)
        while len(notes) > REPLIES_TRACKED or (self._size > REPLIES_TRACKED_SIZE and len(notes) > 1):
            self._forget(next(iter(notes)))
        # Two at most per call: that keeps up with the one that came, and catches up slowly after a burst.
        for _ in range(2):
            oldest = next(iter(notes))
            if not self._is_expired(notes[oldest][0], now_ns):
                break
            self._forget(oldest)

    def allows(self, subject: bytes, now_ns: int) -> bool:
        """Whether one more message may be published to `subject`; if so, it counts."""
        note = self._notes.get(subject)
        if note is None:
            return False
        noted_ns, uses = note
        if self._is_expired(noted_ns, now_ns):
            self._forget(subject)
            return False
        uses += 1
        if 0 < self._max_msgs <= uses:
            self._forget(subject)
        else:
            self._notes[subject] = (noted_ns, uses)
        return True

    def _forget(self, reply: bytes) -> None:
        del self._notes[reply]
        self._size -= len(reply)

    def _is_expired(self, noted_ns: int, now_ns: int) -> bool:
        return 0 < self._expires_ns < now_ns - noted_ns
