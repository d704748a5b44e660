"""Door to interest: who listens to what."""

from libc.stdint cimport int64_t, uint64_t

from tidelog.base.bytemap cimport ByteMap
from tidelog.base.chance cimport Chance
from tidelog.subject.route cimport Route, Subscription


cdef class Family:
    cdef Route route
    cdef bint refused                    # its subjects do not mean the same
    cdef Py_ssize_t born                 # routes that were compiled below its prefix


cdef class Interest:
    cdef uint64_t generation
    cdef Node root
    cdef ByteMap routes
    cdef ByteMap families                # prefix with its dot -> Family
    cdef Py_ssize_t family_after
    cdef bytes shared_below
    cdef dict watchers                   # subject -> those who want to hear of its subscriptions
    cdef tuple overseers                 # those who want to hear of all
    cdef list retired                    # former `routes` that are being let go of
    cdef readonly Py_ssize_t cached_size     # bytes in all cached routes together
    cdef readonly Py_ssize_t count
    cdef readonly int64_t inserts
    cdef readonly int64_t removes
    cdef readonly int64_t matches
    cdef readonly int64_t cache_hits

    cdef Route route(self, const char* subject, Py_ssize_t size)
    cdef int forget_family(self, bytes subject, Py_ssize_t prefix_size) except -1
    cdef Route family_route(self, const char* subject, Py_ssize_t size)
    cdef Route compile(self, bytes subject)
    cdef Route compile_family(self, bytes prefix, bint deep)
    cpdef bint insert(self, Subscription subscription) except -1
    cpdef bint remove(self, Subscription subscription) except -1
    cpdef invalidate(self)
    cdef int forget(self, bytes subject, bint wildcard) except -1
    cdef int drop_routes(self) except -1
    cdef int shed(self) except -1
    cdef int tell_watchers(self, bytes subject, bint wildcard) except -1


cdef class Node:
    cdef dict children       # token -> Node
    cdef Node any_token      # *
    cdef Node any_rest       # >
    cdef dict plain          # Subscription -> None, in the order of arrival
    cdef dict queues         # queue -> {Subscription: None}
    cdef bint empty(self)
