"""Door to numbers and times as text, written where they are wanted. Inline and without a module behind it.

`put_decimal` writes up to NUMBER_SIZE_MOST digits and returns the place behind them; `read_decimal` takes nothing but
digits, 18 at most, and is -1 otherwise.
"""

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    NUMBER_SIZE_MOST = 20
    TIMESTAMP_SIZE_MOST = 32

cdef extern from "decimal.h" nogil:
    char* put_decimal "tidelog_put_decimal"(char* out, uint64_t number)
    int64_t read_decimal "tidelog_read_decimal"(const char* text, size_t size)

cdef inline char* put_two(char* out, int64_t number) noexcept nogil:
    out[0] = <char>(48 + number // 10)
    out[1] = <char>(48 + number % 10)
    return out + 2

cdef inline char* put_timestamp(char* out, int64_t ns) noexcept nogil:
    """RFC 3339 in UTC with as many digits of the second as are needed, of a time since 1970; the place behind it."""
    cdef int64_t second = ns // 1_000_000_000, rest = ns % 1_000_000_000
    cdef int64_t day = second // 86400 + 719468, of_day = second % 86400
    # Days are counted from the first of March of the year 0, so that leap days come last.
    cdef int64_t era = day // 146097, of_era = day % 146097
    cdef int64_t year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    cdef int64_t of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    cdef int64_t march_month = (5 * of_year + 2) // 153
    cdef int64_t month = march_month + 3 if march_month < 10 else march_month - 9
    cdef int64_t year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    cdef int digit
    out = put_two(out, year // 100)
    out = put_two(out, year % 100)
    out[0] = 45
    out = put_two(out + 1, month)
    out[0] = 45
    out = put_two(out + 1, of_year - (153 * march_month + 2) // 5 + 1)
    out[0] = 84
    out = put_two(out + 1, of_day // 3600)
    out[0] = 58
    out = put_two(out + 1, of_day % 3600 // 60)
    out[0] = 58
    out = put_two(out + 1, of_day % 60)
    if rest:
        out[0] = 46
        for digit in range(9):
            out[9 - digit] = <char>(48 + rest % 10)
            rest //= 10
        out += 10
        while (out - 1)[0] == 48:
            out -= 1
    out[0] = 90
    return out + 1
