"""Door to receipts: answers to publishers that wait until what they tell is true."""

from libc.stdint cimport uint64_t

from tidelog.stream.post cimport Post


cdef class Receipts:
    cdef readonly bytes front       # `{"stream":"ORDERS","seq":`
    cdef char* data                 # entries in the order in which they came, each with its bytes behind it
    cdef Py_ssize_t start           # of the oldest that waits
    cdef Py_ssize_t end
    cdef Py_ssize_t room
    cdef char* lent                 # the block that `release` reads from, while another has taken its place
    cdef bint releasing
    cdef readonly Py_ssize_t count

    cdef int add(self, uint64_t seq, const char* reply, Py_ssize_t reply_size) except -1
    cdef int add_answer(
        self, uint64_t seq, const char* reply, Py_ssize_t reply_size, const char* answer, Py_ssize_t answer_size
    ) except -1
    cdef int release(self, Post post, uint64_t committed_seq) except -1
    cdef int settle(self, Post post, bytes answer) except -1
    cdef char* reserve(self, Py_ssize_t size) except NULL
