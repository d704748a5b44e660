"""A hash map from byte strings to objects that is asked with a pointer and a length.

A `dict` needs a `bytes` object for every question; this map needs none, which is what the hot path wants: it asks with
slices of the receive buffer. Open addressing, linear probing, backward-shift deletion; the hash is seeded per process,
so a client cannot choose subjects that collide.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcmp

cdef extern from "Python.h":
    # On borrowed references: to count them up and down would write to every key that is looked at.
    Py_ssize_t borrowed_size "PyBytes_GET_SIZE"(PyObject* key) nogil
    const char* borrowed_text "PyBytes_AS_STRING"(PyObject* key) nogil

cdef extern from "hash.h":
    uint64_t tidelog_hash(const char* data, size_t size, uint64_t seed) nogil

cdef Py_ssize_t FIRST_CAPACITY = 16
cdef uint64_t PROCESS_SEED = int.from_bytes(os.urandom(8), "little")


cdef class ByteMap:
    def __cinit__(self):
        self.seed = PROCESS_SEED
        self.mask = FIRST_CAPACITY - 1
        self.entries = <Entry*>PyMem_Calloc(FIRST_CAPACITY, sizeof(Entry))
        if self.entries == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.entries != NULL:
            self.release()
            PyMem_Free(self.entries)

    cdef void release(self):
        cdef Py_ssize_t i
        cdef Entry entry
        for i in range(self.mask + 1):
            entry = self.entries[i]
            if entry.key != NULL:
                self.entries[i].key = NULL
                Py_DECREF(<object>entry.key)
                Py_DECREF(<object>entry.value)
        self.count = 0

    cdef void clear(self):
        """Forget everything, and give the memory of a large table back."""
        cdef Entry* smaller
        self.release()
        if self.mask >= FIRST_CAPACITY:
            smaller = <Entry*>PyMem_Calloc(FIRST_CAPACITY, sizeof(Entry))
            if smaller != NULL:
                PyMem_Free(self.entries)
                self.entries = smaller
                self.mask = FIRST_CAPACITY - 1

    cdef Entry* find(self, const char* key, Py_ssize_t size, uint64_t hash) noexcept:
        """The entry of `key`, or the free one where it would stand."""
        cdef Py_ssize_t i = <Py_ssize_t>(hash & <uint64_t>self.mask)
        cdef Entry* entry
        while True:
            entry = &self.entries[i]
            if entry.key == NULL:
                return entry
            if (
                entry.hash == hash
                and borrowed_size(entry.key) == size
                and memcmp(borrowed_text(entry.key), key, size) == 0
            ):
                return entry
            i = (i + 1) & self.mask

    cdef PyObject* look_up(self, const char* key, Py_ssize_t size) noexcept:
        """A borrowed reference to the value, or NULL."""
        cdef Entry* entry = self.find(key, size, tidelog_hash(key, size, self.seed))
        return entry.value if entry.key != NULL else NULL

    cdef int store(self, bytes key, object value) except -1:
        if (self.count + 1) * 4 > (self.mask + 1) * 3:
            self.grow()
        cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
        cdef uint64_t hash = tidelog_hash(PyBytes_AS_STRING(key), size, self.seed)
        cdef Entry* entry = self.find(PyBytes_AS_STRING(key), size, hash)
        cdef PyObject* old
        Py_INCREF(value)
        if entry.key != NULL:
            old = entry.value
            entry.value = <PyObject*>value
            Py_DECREF(<object>old)
            return 0
        Py_INCREF(key)
        entry.hash = hash
        entry.key = <PyObject*>key
        entry.value = <PyObject*>value
        self.count += 1
        return 0

    cdef bint discard(self, const char* key, Py_ssize_t size):
        """Remove `key`; tells whether it was there."""
        cdef Entry* entry = self.find(key, size, tidelog_hash(key, size, self.seed))
        cdef PyObject* old_key
        cdef PyObject* old_value
        cdef Py_ssize_t hole, i, home
        if entry.key == NULL:
            return False
        old_key = entry.key
        old_value = entry.value
        # Close the hole: move back every entry of the run that may stand there.
        hole = entry - self.entries
        i = hole
        while True:
            i = (i + 1) & self.mask
            if self.entries[i].key == NULL:
                break
            home = <Py_ssize_t>(self.entries[i].hash & <uint64_t>self.mask)
            if ((i - home) & self.mask) >= ((i - hole) & self.mask):
                self.entries[hole] = self.entries[i]
                hole = i
        self.entries[hole].key = NULL
        self.count -= 1
        Py_DECREF(<object>old_key)
        Py_DECREF(<object>old_value)
        return True

    cdef int grow(self) except -1:
        cdef Entry* old = self.entries
        cdef Py_ssize_t old_mask = self.mask, i, j
        cdef Entry* fresh = <Entry*>PyMem_Calloc((old_mask + 1) * 2, sizeof(Entry))
        if fresh == NULL:
            raise MemoryError
        self.mask = old_mask * 2 + 1
        self.entries = fresh
        for i in range(old_mask + 1):
            if old[i].key != NULL:
                j = <Py_ssize_t>(old[i].hash & <uint64_t>self.mask)
                while fresh[j].key != NULL:
                    j = (j + 1) & self.mask
                fresh[j] = old[i]
        PyMem_Free(old)
        return 0

    cdef bint shed(self, Py_ssize_t places):
        """Release the entries of the next `places` places; tells whether there may be more.

        For a large map that is asked nothing any more: to drop it at once would take as long as to fill it.
        """
        cdef Entry entry
        if self.shed_end == 0:
            self.shed_end = self.mask + 1
        while places > 0 and self.shed_end > 0 and self.count:
            places -= 1
            self.shed_end -= 1
            entry = self.entries[self.shed_end]
            if entry.key != NULL:
                self.entries[self.shed_end].key = NULL
                self.count -= 1
                Py_DECREF(<object>entry.key)
                Py_DECREF(<object>entry.value)
        return self.count > 0

    # The same from Python, for tests and for rooms off the hot path.

    def get(self, bytes key, default=None):
        cdef PyObject* value = self.look_up(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
        return <object>value if value != NULL else default

    def set(self, bytes key, value):
        self.store(key, value)

    def remove(self, bytes key):
        return self.discard(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))

    def drop_all(self):
        self.clear()

    def drop_some(self, Py_ssize_t places):
        return self.shed(places)

    def __len__(self):
        return self.count
