from libc.stdint cimport int64_t


cdef struct run_t:
    int64_t deadline_ns
    int stopped

cdef int64_t now_ns() noexcept nogil
cdef int waiting(run_t* run, int error) noexcept nogil
cdef int send_all(run_t* run, int fd, const char* data, int64_t size) noexcept nogil
cdef object system_error(int code)


cdef class Run:
    cdef run_t state
