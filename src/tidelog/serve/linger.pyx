"""Staying awake for a moment: an answer has left, and the next question often comes before sleep would pay.

    linger = Linger(waited_on(loop))     the descriptor on which the loop waits; -1: it has none
    linger.wait()                        at the end of a tick: back when something has come, or after LINGER_NS

A thread that sleeps is woken by the system, and that takes longer than to answer a small request: with one question
under way at a time, most of its time is spent in waking up. So the loop looks for a moment before it sleeps.

Promises
  * Nothing is delayed: whatever the loop waits for ends the wait, also an answer of another thread, and the interpreter
    and the processor are free for others meanwhile.
  * What it costs in vain is bounded: after a wait in which nothing came, the next ticks go without, twice as many each
    time, up to LINGER_PAUSE. A server whose clients are not that quick sleeps as it would, and so does one with a
    single processor, on which nobody could ask meanwhile.
"""

import os

from libc.stdint cimport int64_t

from tidelog.base import limits

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int POLLIN
    int poll(pollfd* fds, unsigned long count, int timeout)

cdef extern from "<sched.h>" nogil:
    int sched_yield()

cdef extern from "<time.h>" nogil:
    struct timespec:
        long tv_sec
        long tv_nsec
    int CLOCK_MONOTONIC
    int clock_gettime(int clock, timespec* now)

cdef int64_t MOST_NS = limits.LINGER_NS
cdef int PAUSE_MOST = limits.LINGER_PAUSE


cdef int64_t now_ns() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef bint comes(int fd) noexcept nogil:
    """Whether the descriptor becomes readable within MOST_NS."""
    cdef pollfd watched
    cdef int64_t until = now_ns() + MOST_NS
    watched.fd = fd
    watched.events = POLLIN
    while True:
        if poll(&watched, 1, 0) != 0:
            return True
        if now_ns() >= until:
            return False
        sched_yield()


def waited_on(loop) -> int:
    """The descriptor that becomes readable when `loop` has something to do; -1: it has none, or looking is of no use."""
    # Only uvloop has one, and no public name for it.
    descriptor = getattr(loop, "_get_backend_id", None)
    if descriptor is None or len(os.sched_getaffinity(0)) < 2:
        return -1
    return descriptor()


cdef class Linger:
    cdef int fd
    cdef readonly int pause      # ticks to go without after the next wait in vain
    cdef int left

    def __init__(self, int fd) -> None:
        self.fd = fd

    def wait(self) -> None:
        cdef bint came
        if self.fd < 0:
            return
        if self.left:
            self.left -= 1
            return
        with nogil:
            came = comes(self.fd)
        if came:
            self.pause //= 2
        else:
            self.pause = min(2 * self.pause + 1, PAUSE_MOST)
        self.left = self.pause
