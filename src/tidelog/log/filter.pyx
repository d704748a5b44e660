"""Which subjects a reader wants: none named means all, several mean any of them.

`*` stands for one token, `>` for one or more at the end, as in subscriptions. Subjects are opaque bytes otherwise.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memcmp

from tidelog.subject.pattern import has_wildcard, is_valid_subject


cdef class Filter:
    def __init__(self, *patterns: bytes) -> None:
        for pattern in patterns:
            if not is_valid_subject(pattern):
                raise ValueError(f"{pattern!r} is no subject or pattern: tokens are separated by '.', and none is empty")
        self.patterns = tuple(dict.fromkeys(patterns))
        self.everything = not patterns or b">" in patterns
        self.count = len(self.patterns)
        self.literal = self.count == 1 and not has_wildcard(self.patterns[0])
        self.texts = <char**>malloc(max(1, self.count) * sizeof(char*))
        self.sizes = <Py_ssize_t*>malloc(max(1, self.count) * sizeof(Py_ssize_t))
        if self.texts == NULL or self.sizes == NULL:
            raise MemoryError
        for index, pattern in enumerate(self.patterns):
            self.texts[index] = PyBytes_AS_STRING(pattern)
            self.sizes[index] = PyBytes_GET_SIZE(pattern)

    def __dealloc__(self):
        free(self.texts)
        free(self.sizes)

    cdef bint matches(self, const char* subject, Py_ssize_t size) noexcept nogil:
        return self.everything or self.matches_before(self.count, subject, size)

    cdef bint matches_before(self, Py_ssize_t index, const char* subject, Py_ssize_t size) noexcept nogil:
        """Whether one of the patterns in front of the one at `index` matches."""
        cdef Py_ssize_t i
        for i in range(index):
            if pattern_matches(self.texts[i], self.sizes[i], subject, size):
                return True
        return False

    def accepts(self, bytes subject not None) -> bool:
        return self.matches(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and (<Filter>other).patterns == self.patterns

    def __hash__(self) -> int:
        return hash(self.patterns)

    def __repr__(self) -> str:
        return f"Filter({', '.join(map(repr, self.patterns))})"


cdef bint pattern_matches(
    const char* pattern, Py_ssize_t pattern_size, const char* subject, Py_ssize_t size
) noexcept nogil:
    cdef const char* pattern_end = pattern + pattern_size
    cdef const char* end = subject + size
    cdef const char* dot
    cdef Py_ssize_t wanted, token
    while True:
        dot = <const char*>memchr(pattern, c".", pattern_end - pattern)
        wanted = (dot if dot != NULL else pattern_end) - pattern
        if wanted == 1 and pattern[0] == c">" and dot == NULL:
            return True
        dot = <const char*>memchr(subject, c".", end - subject)
        token = (dot if dot != NULL else end) - subject
        if not (wanted == 1 and pattern[0] == c"*") and (wanted != token or memcmp(pattern, subject, token) != 0):
            return False
        pattern += wanted + 1
        subject += token + 1
        if pattern > pattern_end or subject > end:
            return pattern > pattern_end and subject > end


def match(bytes pattern not None, bytes subject not None) -> bool:
    return pattern_matches(
        PyBytes_AS_STRING(pattern), PyBytes_GET_SIZE(pattern), PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)
    )
