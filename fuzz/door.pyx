"""Gives bytes to the parser and to sessions in memory of exactly their size, which is gone when they have returned.

A `bytes` object has a zero behind its last byte and lives as long as somebody holds it. The receive buffer of a
connection has no such mercy. So a read behind the end, or a pointer kept into bytes that were parsed, is found here
by the address sanitizer. Built by `fuzz/build.py` only.
"""

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from tidelog.broker.session cimport Session
from tidelog.wire.parser cimport Operations, parse


cdef char* copy_of(bytes data) except NULL:
    cdef Py_ssize_t size = len(data)
    cdef char* place = <char*>malloc(max(size, 1))
    if place == NULL:
        raise MemoryError
    memcpy(place, <const char*>data, size)
    return place


def feed(Session session not None, bytes data not None) -> int:
    """`Session.receive`."""
    cdef char* place = copy_of(data)
    try:
        return session.feed(place, len(data))
    finally:
        free(place)


def read(Operations operations not None, bytes data not None) -> tuple[int, int]:
    """`parse`: how many bytes were used, and how many the unfinished operation needs (0: not known)."""
    cdef char* place = copy_of(data)
    cdef Py_ssize_t used
    try:
        used = parse(operations, place, len(data))
        return used, operations.need
    finally:
        free(place)
