"""How a push consumer paces itself: flow control, heartbeats, a rate, and replay at the speed of the original.

Flow control is a window of bytes that may be on their way. When more than half of it is, the consumer asks with a
message that stands behind them in the stream of deliveries; the answer says that all in front has been read. The window
begins at a sixteenth of the most and doubles with every answer.

What it does not do: send anything, or look at a clock.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from tidelog.base import limits
from tidelog.stream.consumer_config import REPLAY_ORIGINAL

cdef int64_t WINDOW_MOST = limits.FLOW_WINDOW_SIZE
cdef int64_t SECOND_NS = 1_000_000_000
# Replay does not wait for less than that.
cdef int64_t REPLAY_LEAST_NS = 1_000_000


cdef class Pace:
    def __init__(self, config, uint64_t last_seq, int64_t burst, int64_t now_ns) -> None:
        """`last_seq`: what is stored by now; `burst`: the largest message."""
        self.window = WINDOW_MOST // 16 if config.flow_control else 0
        self.question = b""
        self.heartbeat_ns = config.idle_heartbeat
        self.beat_ns = now_ns + self.heartbeat_ns if self.heartbeat_ns else 0
        self.replaying = config.replay_policy == REPLAY_ORIGINAL
        self.replay_seq = last_seq
        self.set_rate(config.rate_limit_bps, burst, now_ns)

    def set_rate(self, uint64_t bits, int64_t burst, int64_t now_ns) -> None:
        self.rate = bits // 8
        self.burst = burst
        self.tokens = burst
        self.filled_ns = now_ns

    # ---- flow control ----

    cdef bint stalled(self) noexcept:
        return self.window > 0 and self.outstanding > self.window

    cdef bint must_ask(self, Py_ssize_t size, bint pressed) noexcept:
        """`size` bytes more are on their way: whether to ask now. `pressed`: nothing can be sent without an answer."""
        self.outstanding += size
        if not self.question:
            return self.outstanding > self.window // 2 or pressed
        if self.outstanding - self.asked >= self.window:
            self.asked += size
        return False

    def ask(self, bytes question not None) -> None:
        """An answer is awaited on the subject `question`."""
        self.question = question
        self.asked = self.outstanding

    cdef bint answer(self, const char* subject, Py_ssize_t size) noexcept:
        """All that was asked about has been read. False: nobody asked that."""
        if size != PyBytes_GET_SIZE(self.question) or memcmp(subject, PyBytes_AS_STRING(self.question), size) != 0:
            return False
        self.window = min(2 * self.window, WINDOW_MOST)
        self.outstanding = max(self.outstanding - self.asked, 0)
        self.question = b""
        self.asked = 0
        return True

    # ---- rate and replay ----

    cdef bint hold(self, Py_ssize_t size, uint64_t seq, int64_t ts_ns, int64_t now_ns) noexcept:
        """Whether a message has to wait; then `hold_ns` says until when."""
        cdef int64_t due_ns
        self.hold_ns = 0
        if self.replaying:
            if seq > self.replay_seq:
                self.replaying = False
            elif self.replayed_ns:
                due_ns = self.replayed_ns + ts_ns - self.replayed_ts_ns
                if due_ns - now_ns > REPLAY_LEAST_NS:
                    self.hold_ns = due_ns
                    return True
        if self.rate > 0:
            self.tokens = min(<double>self.burst, self.tokens + <double>self.rate * (now_ns - self.filled_ns) / SECOND_NS)
            self.filled_ns = now_ns
            if self.tokens < 0:
                self.hold_ns = now_ns + <int64_t>(-self.tokens * SECOND_NS / self.rate) + 1
                return True
        return False

    cdef int spend(self, Py_ssize_t size, int64_t ts_ns, int64_t now_ns) noexcept:
        """A message was delivered."""
        self.replayed_ts_ns = ts_ns
        self.replayed_ns = now_ns
        if self.rate > 0:
            self.tokens -= size
        if self.heartbeat_ns:
            self.beat_ns = now_ns + self.heartbeat_ns
        return 0
