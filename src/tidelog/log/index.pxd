"""Door to the index: which sequences each subject has, and the next or previous of any filter."""

from libc.stdint cimport uint32_t, uint64_t

from tidelog.log.filter cimport Filter
from tidelog.log.posting cimport PostingTable
from tidelog.subject.tree cimport SubjectTree, Visit


cdef class SubjectIndex:
    cdef readonly SubjectTree tree
    cdef readonly PostingTable lists
    cdef readonly uint64_t count      # sequences of all subjects

    cdef uint32_t add(self, const char* subject, Py_ssize_t size, uint64_t seq) except 0xFFFFFFFF
    cdef bint remove(self, const char* subject, Py_ssize_t size, uint64_t seq) except -1
    cdef int extend(
        self, const char* subject, Py_ssize_t size, uint64_t first_seq, uint64_t count,
        const unsigned char* deltas, Py_ssize_t deltas_size,
    ) except -1 nogil
    cdef int each(self, Filter filter, Visit visit, void* context) except -1
    cdef uint64_t next(self, Filter filter, uint64_t seq) except? 0
    cdef uint64_t previous(self, Filter filter, uint64_t seq) except? 0
    cdef uint64_t count_from(self, Filter filter, uint64_t seq) except? 0


cdef class Selection:
    cdef readonly Filter filter
    cdef SubjectIndex index
    cdef uint64_t* seqs
    cdef Py_ssize_t room
    cdef Py_ssize_t count
    cdef uint64_t start_seq         # of the window: all matches in [start_seq, end_seq) are in `seqs`
    cdef uint64_t end_seq
    cdef Py_ssize_t subjects        # how many matched when that was last known; -1: not known
    cdef uint64_t subjects_least    # so many did at least

    cdef uint64_t next(self, uint64_t seq, uint64_t last_seq) except? 0
    cdef uint64_t previous(self, uint64_t seq, uint64_t first_seq) except? 0
    cdef void release(self)
    cdef bint better_walk(self, uint64_t distance) except -1
    cdef int probe(self, uint64_t most) except -1
    cdef int fill(self, uint64_t start_seq, uint64_t end_seq, bint forward) except -1
