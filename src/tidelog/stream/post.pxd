"""Door to the post: how the server itself sends messages."""

from tidelog.base.chance cimport Chance
from tidelog.subject.interest cimport Interest
from tidelog.subject.route cimport Route


cdef class Post:
    cdef readonly Interest interest
    cdef Chance chance
    cdef char* text              # where messages are put together
    cdef Py_ssize_t room
    cdef int depth               # messages under way: whoever gets one may send another
    cdef readonly long long sent
    cdef readonly long long sent_size

    cdef char* take(self, Py_ssize_t size) except NULL
    cdef void give(self, char* text) noexcept
    cdef Py_ssize_t send(
        self, const char* subject, Py_ssize_t subject_size, const char* reply, Py_ssize_t reply_size,
        const char* header, Py_ssize_t header_size, const char* payload, Py_ssize_t payload_size,
    ) except -1
    cdef Py_ssize_t forward(
        self, Route route, const char* subject, Py_ssize_t subject_size, const char* reply, Py_ssize_t reply_size,
        const char* header, Py_ssize_t header_size, const char* payload, Py_ssize_t payload_size,
    ) except -1
