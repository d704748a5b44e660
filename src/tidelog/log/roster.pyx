"""Which subjects a segment has, and at which sequences: collected message by message, then written in byte order.

Promises
  * Nothing needs the GIL, and nothing is an object: a million messages of a million subjects are a few flat arrays.
  * Clients choose subjects, so neither the table nor the order can be made slow by choosing them: the hash is seeded
    per process, and pivots are thrown for.
  * The rows are those of docs/formats/log.md, and depend on the messages only.

How: an open table of numbers into an array of subjects, whose bytes are copied to one block; one entry per message,
grouped by subject when all are there. The order is a three-way quicksort on seven bytes at a time, which lie beside
the numbers, so that subjects with a long common front are hardly looked at.

Whoever uses it sees to it that sequences ascend; a roster whose `add` has failed is good for nothing.
"""

import os

from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

from tidelog.base.varint cimport put_varint, varint_size
from tidelog.base.vector cimport append, push, release, reserve

cdef extern from "hash.h":
    uint64_t tidelog_hash(const char* data, size_t size, uint64_t seed) nogil

cdef extern from *:
    uint64_t __builtin_bswap64(uint64_t value) nogil

cdef enum:
    FIRST_SLOTS = 64
    FEW = 12            # subjects that are sorted by insertion
    CHUNK_SIZE = 7

cdef uint64_t PROCESS_SEED = int.from_bytes(os.urandom(8), "little")


cdef class Roster:
    def __cinit__(self):
        self.mask = FIRST_SLOTS - 1
        self.dice = PROCESS_SEED
        self.slots = <uint32_t*>calloc(FIRST_SLOTS, sizeof(uint32_t))
        # With room from the start, so that an empty subject has a place as well.
        if self.slots == NULL or not reserve(&self.texts, 1, 1):
            raise MemoryError

    def __dealloc__(self):
        release(&self.subjects)
        release(&self.texts)
        release(&self.entries)
        free(self.slots)
        free(self.grouped)
        free(self.keys)

    cdef bint add(self, const char* text, Py_ssize_t size, uint32_t seq_offset) noexcept nogil:
        """A message: its subject, and its sequence from the base on. False: there is no memory."""
        cdef Subject* subject = self.find(text, size)
        cdef Entry* entry = <Entry*>push(&self.entries, sizeof(Entry))
        if subject == NULL or entry == NULL:
            return False
        entry.subject = <uint32_t>(subject - <Subject*>self.subjects.items)
        entry.seq_offset = seq_offset
        if subject.count:
            subject.deltas_size += <uint32_t>varint_size(seq_offset - subject.last)
        else:
            subject.first = seq_offset
        subject.last = seq_offset
        subject.count += 1
        return True

    cdef Subject* find(self, const char* text, Py_ssize_t size) noexcept nogil:
        """The subject with these bytes, new if need be; NULL: there is no memory."""
        cdef uint64_t hash = tidelog_hash(text, size, PROCESS_SEED)
        cdef uint64_t slot = hash & self.mask
        cdef Subject* subject
        while self.slots[slot]:
            subject = <Subject*>self.subjects.items + (self.slots[slot] - 1)
            if (
                subject.hash == hash and subject.size == size
                and memcmp(self.texts.items + subject.text, text, size) == 0
            ):
                return subject
            slot = (slot + 1) & self.mask
        return self.insert(slot, hash, text, size)

    cdef Subject* insert(self, uint64_t slot, uint64_t hash, const char* text, Py_ssize_t size) noexcept nogil:
        cdef Subject* subject = <Subject*>push(&self.subjects, sizeof(Subject))
        if subject == NULL:
            return NULL
        subject.hash = hash
        subject.text = <uint32_t>self.texts.count
        subject.size = <uint16_t>size
        subject.count = subject.deltas_size = 0
        self.slots[slot] = <uint32_t>self.subjects.count
        if not append(&self.texts, text, size, 1):
            return NULL
        if <uint64_t>self.subjects.count * 2 > self.mask and not self.widen():
            return NULL
        return subject

    cdef bint widen(self) noexcept nogil:
        """Four times the slots: a table is mostly widened while it is filled, and soon gone."""
        cdef uint64_t mask = self.mask * 4 + 3, slot
        cdef uint32_t* slots = <uint32_t*>calloc(mask + 1, sizeof(uint32_t))
        cdef Subject* subjects = <Subject*>self.subjects.items
        cdef Py_ssize_t number
        if slots == NULL:
            return False
        for number in range(self.subjects.count):
            slot = subjects[number].hash & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = <uint32_t>(number + 1)
        free(self.slots)
        self.slots = slots
        self.mask = mask
        return True

    # ---- when all are there ----

    cdef bint arrange(self) noexcept nogil:
        """Group the sequences and sort the subjects, once. False: there is no memory."""
        cdef Subject* subjects = <Subject*>self.subjects.items
        cdef Entry* entries = <Entry*>self.entries.items
        cdef Py_ssize_t i
        cdef uint32_t start = 0
        free(self.slots)
        self.slots = NULL
        self.grouped = <uint32_t*>malloc((self.entries.count + 1) * sizeof(uint32_t))
        self.keys = <Key*>malloc((self.subjects.count + 1) * sizeof(Key))
        # Seven bytes are read eight at a time.
        if self.grouped == NULL or self.keys == NULL or not append(&self.texts, b"\0" * 8, 8, 1):
            return False
        for i in range(self.subjects.count):
            subjects[i].start = start
            start += subjects[i].count
            self.rows_size += (
                2 + subjects[i].size + varint_size(subjects[i].count) + varint_size(subjects[i].first)
                + varint_size(subjects[i].deltas_size) + subjects[i].deltas_size
            )
            self.keys[i].subject = <uint32_t>i
            self.keys[i].chunk = self.chunk_at(<uint32_t>i, 0)
        for i in range(self.entries.count):
            self.grouped[subjects[entries[i].subject].start] = entries[i].seq_offset
            subjects[entries[i].subject].start += 1
        for i in range(self.subjects.count):
            subjects[i].start -= subjects[i].count
        release(&self.entries)
        self.sort(self.keys, self.subjects.count, 0)
        return True

    cdef uint64_t chunk_at(self, uint32_t number, Py_ssize_t depth) noexcept nogil:
        """Seven bytes of a subject as a number that sorts as they do, with how many they are in the lowest byte.

        A subject that ends has zeros there, and stands before one that has such bytes and goes on.
        """
        cdef Subject* subject = <Subject*>self.subjects.items + number
        cdef Py_ssize_t rest = subject.size - depth
        cdef uint64_t word
        memcpy(&word, self.texts.items + subject.text + depth, 8)
        word = __builtin_bswap64(word)
        if rest > CHUNK_SIZE:
            return word & ~<uint64_t>255 | (CHUNK_SIZE + 1)
        if rest == 0:
            return 0
        return word & (~<uint64_t>0 << (64 - 8 * rest)) | <uint64_t>rest

    cdef bint precedes(self, Key* one, Key* other, Py_ssize_t depth) noexcept nogil:
        cdef uint64_t chunk, other_chunk
        if one.chunk != other.chunk:
            return one.chunk < other.chunk
        while one.chunk & 255 > CHUNK_SIZE:
            depth += CHUNK_SIZE
            chunk = self.chunk_at(one.subject, depth)
            other_chunk = self.chunk_at(other.subject, depth)
            if chunk != other_chunk:
                return chunk < other_chunk
        return False

    cdef void sort_few(self, Key* keys, Py_ssize_t count, Py_ssize_t depth) noexcept nogil:
        cdef Py_ssize_t i, j
        cdef Key key
        for i in range(1, count):
            key = keys[i]
            j = i
            while j and self.precedes(&key, &keys[j - 1], depth):
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key

    cdef uint64_t pivot(self, Key* keys, Py_ssize_t count) noexcept nogil:
        """The middle one of three that are thrown for."""
        cdef uint64_t[3] chosen
        cdef int i
        for i in range(3):
            self.dice = self.dice * 6364136223846793005u + 1442695040888963407u
            chosen[i] = keys[(self.dice >> 32) % <uint64_t>count].chunk
        return max(min(chosen[0], chosen[1]), min(max(chosen[0], chosen[1]), chosen[2]))

    cdef void sort(self, Key* keys, Py_ssize_t count, Py_ssize_t depth) noexcept nogil:
        """By the chunks, which are those at `depth`, and by what is behind them.

        Goes on with the largest of three parts and calls itself for the others, so that it is never deeper in itself
        than the logarithm of their number.
        """
        cdef Py_ssize_t less, more, i, j, size
        cdef uint64_t pivot
        cdef Key key
        cdef Key* part[3]
        cdef Py_ssize_t sizes[3]
        cdef Py_ssize_t depths[3]
        while count > FEW:
            pivot = self.pivot(keys, count)
            less, i, more = 0, 0, count
            while i < more:
                if keys[i].chunk == pivot:
                    i += 1
                    continue
                key = keys[i]
                if key.chunk < pivot:
                    keys[i] = keys[less]
                    keys[less] = key
                    less += 1
                    i += 1
                else:
                    more -= 1
                    keys[i] = keys[more]
                    keys[more] = key
            part[0], sizes[0], depths[0] = keys, less, depth
            part[1], sizes[1], depths[1] = keys + more, count - more, depth
            part[2], sizes[2], depths[2] = keys + less, more - less, depth + CHUNK_SIZE
            if pivot & 255 > CHUNK_SIZE:
                for i in range(less, more):
                    keys[i].chunk = self.chunk_at(keys[i].subject, depth + CHUNK_SIZE)
            else:
                sizes[2] = 0        # subjects that end here: it is one
            j = 0
            for i in range(1, 3):
                if sizes[i] > sizes[j]:
                    j = i
            for i in range(3):
                if i != j and sizes[i] > 1:
                    self.sort(part[i], sizes[i], depths[i])
            keys, count, depth = part[j], sizes[j], depths[j]
        self.sort_few(keys, count, depth)

    cdef unsigned char* write_rows(self, unsigned char* place) noexcept nogil:
        """All rows at `place`, which has room for `rows_size`; the place behind them."""
        cdef Subject* subject
        cdef uint32_t* sequences
        cdef Py_ssize_t i
        cdef uint32_t j
        for i in range(self.subjects.count):
            subject = <Subject*>self.subjects.items + self.keys[i].subject
            sequences = self.grouped + subject.start
            memcpy(place, &subject.size, 2)
            memcpy(place + 2, self.texts.items + subject.text, subject.size)
            place = put_varint(place + 2 + subject.size, subject.count)
            place = put_varint(place, subject.first)
            place = put_varint(place, subject.deltas_size)
            for j in range(1, subject.count):
                place = put_varint(place, sequences[j] - sequences[j - 1])
        return place

    cdef dict listed(self, uint64_t base_seq):
        """`{subject: sequences}` in byte order, for tests and tools."""
        cdef Subject* subject
        cdef Py_ssize_t i
        cdef uint32_t j
        rows = {}
        for i in range(self.subjects.count):
            subject = <Subject*>self.subjects.items + self.keys[i].subject
            text = (self.texts.items + subject.text)[:subject.size]
            rows[text] = [base_seq + self.grouped[subject.start + j] for j in range(subject.count)]
        return rows
