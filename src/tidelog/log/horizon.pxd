"""Door to horizons: how far readers see, and who waits for that to move."""

from libc.stdint cimport uint32_t, uint64_t

from tidelog.log.filter cimport Filter
from tidelog.subject.interest cimport Interest
from tidelog.subject.route cimport Route, Subscriber


cdef class Horizon:
    cdef readonly uint64_t committed_seq    # readers see nothing beyond
    cdef dict armed                         # who is woken by whatever is committed, as keys, in their order
    cdef dict choosy                        # followers that are woken by messages of their filters
    cdef Interest interest                  # all followers with filters, waiting or not
    cdef bint watched                       # there are some, or were a moment ago
    cdef Py_ssize_t followers
    cdef uint64_t* marks                    # by the number of a subject: see `note`
    cdef uint32_t marks_room
    cdef uint64_t turn                      # grows with every write, and whenever a follower comes
    cdef uint64_t changed                   # the turn in which the last one came
    cdef list heard                         # routes of what was appended since the last write
    cdef Py_ssize_t heard_targets
    cdef list unwoken                       # (sequence, targets, routes) of writes that are not committed

    cdef int note(self, uint32_t slot, bint fresh, const char* subject, Py_ssize_t size) except -1
    cdef int make_room(self, uint32_t slot) except -1
    cdef int wrote(self, uint64_t seq) except -1
    cdef int wake(self) except -1
    cdef int wake_choosy(self, list routes, Py_ssize_t targets) except -1
    cdef int enter(self, Follower follower) except -1
    cdef int leave(self, Follower follower) except -1


cdef class Follower(Subscriber):
    cdef readonly Filter filter
    cdef Horizon horizon
    cdef object callback
    cdef bint waits                         # and is among the choosy
    cdef uint64_t unheard_seq               # up to here nobody has noted anything for it
    cdef list subscriptions                 # None: everything is for it

    cdef int arm(self, bint anything) except -1
    cdef int disarm(self) except -1
    cdef int close(self) except -1
