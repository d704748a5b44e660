from libc.stdint cimport int64_t

from tidelog.bench.load cimport run_t

cdef enum:
    DIGITS = 8

cdef void put_digits(char* to, int64_t value) noexcept nogil
cdef int64_t skip_line(run_t* run, int fd, const char* data, int64_t size) noexcept nogil
cdef object exchange_error(int code, who)
