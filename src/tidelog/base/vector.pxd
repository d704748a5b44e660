"""Door to vectors: growing arrays of plain C values, for code that runs without the GIL.

Inline and without a module behind it. All zeros is an empty vector. A vector belongs to one place, which frees it.
"""

from libc.stddef cimport size_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef struct Vector:
    char* items
    Py_ssize_t count
    Py_ssize_t room

cdef inline bint reserve(Vector* vector, Py_ssize_t more, size_t item_size) noexcept nogil:
    """Make room for `more` items; False: there is no memory, and nothing has changed."""
    cdef Py_ssize_t room = vector.room
    cdef char* items
    if vector.count + more <= room:
        return True
    room = room * 2 if room * 2 > vector.count + more else vector.count + more
    if room < 8:
        room = 8
    items = <char*>realloc(vector.items, room * item_size)
    if items == NULL:
        return False
    vector.items = items
    vector.room = room
    return True

cdef inline void* push(Vector* vector, size_t item_size) noexcept nogil:
    """A place at the end for one more item, not filled in; NULL: there is no memory."""
    if not reserve(vector, 1, item_size):
        return NULL
    vector.count += 1
    return vector.items + (vector.count - 1) * item_size

cdef inline bint append(Vector* vector, const void* items, Py_ssize_t count, size_t item_size) noexcept nogil:
    """Copy `count` items to the end; False: there is no memory."""
    if not reserve(vector, count, item_size):
        return False
    if count:
        memcpy(vector.items + vector.count * item_size, items, count * item_size)
    vector.count += count
    return True

cdef inline void release(Vector* vector) noexcept nogil:
    free(vector.items)
    vector.items = NULL
    vector.count = vector.room = 0
