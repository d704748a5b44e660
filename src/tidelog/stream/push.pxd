"""Door to how a push consumer paces itself: flow control, heartbeats, rate and replay."""

from libc.stdint cimport int64_t, uint64_t


cdef class Pace:
    # Flow control, in bytes; window 0: none.
    cdef readonly int64_t window
    cdef readonly int64_t outstanding      # delivered, and not known to be read
    cdef int64_t asked                     # of them the open question covers
    cdef readonly bytes question           # where its answer is awaited; empty: none is open
    # Heartbeats.
    cdef int64_t heartbeat_ns              # 0: none
    cdef int64_t beat_ns                   # when the next one is due
    # The rate, in bytes a second; 0: any.
    cdef int64_t rate
    cdef int64_t burst
    cdef double tokens
    cdef int64_t filled_ns
    # Replay at the speed of the original.
    cdef readonly bint replaying
    cdef uint64_t replay_seq               # up to here
    cdef int64_t replayed_ts_ns            # of the last message
    cdef int64_t replayed_ns               # when that was delivered
    cdef readonly int64_t hold_ns          # nothing is delivered before; 0: it may be

    cdef bint stalled(self) noexcept
    cdef bint must_ask(self, Py_ssize_t size, bint pressed) noexcept
    cdef bint answer(self, const char* subject, Py_ssize_t size) noexcept
    cdef bint hold(self, Py_ssize_t size, uint64_t seq, int64_t ts_ns, int64_t now_ns) noexcept
    cdef int spend(self, Py_ssize_t size, int64_t ts_ns, int64_t now_ns) noexcept
