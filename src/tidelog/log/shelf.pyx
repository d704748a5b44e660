# cython: wraparound=True
"""The segments of a log, in the order of their sequences, and what is not in them any more.

A segment has the stretch of sequences from its base to the next one's. Which of them are sparse, which are husks, and
which of them nothing is left in is known here; what becomes of them is up to the keeper of the log.

What it does not do: find messages, write, or open files.
"""

from bisect import bisect_right

from tidelog.base import limits

cdef int FILES_OPEN = limits.SEGMENT_FILES_OPEN
cdef uint64_t DEAD_PERCENT = limits.COMPACT_DEAD_PERCENT


cdef class Shelf:
    def __init__(self, disk, str path, keys) -> None:
        self.disk = disk
        self.path = path
        self.keys = keys
        self.segments = []
        self.bases = []
        self.sparse = []
        self.deleted = SequenceSet()
        self.first_seq = 1
        self.kept_seq = <uint64_t>-1

    def segment_at(self, uint64_t seq) -> Segment:
        return self.segment_of(seq)

    cdef Segment segment_of(self, uint64_t seq):
        cdef Py_ssize_t at = bisect_right(self.bases, seq) - 1
        return self.segments[max(at, 0)]

    def take_front(self) -> list:
        """Segments in which nothing is left, taken off the front; the caller removes their files, the oldest first.

        What is still to be written is in none of them. They need no record that says so: a log begins where its first
        segment does.
        """
        cdef list gone = []
        cdef Segment segment
        while len(self.segments) > 1 and self.bases[1] <= self.first_seq:
            segment = self.segments[0]
            if not segment.sealed or segment.busy or self.bases[1] > self.kept_seq:
                break
            if segment.husk:
                self.cold_size -= min(self.cold_size, segment.live_size())
            gone.append(self.segments.pop(0))
            self.bases.pop(0)
        return gone

    # ---- for those who rewrite them ----

    cdef int note_sparse(self, Segment segment) except -1:
        if not segment.noted and segment.is_sparse():
            segment.noted = True
            self.sparse.append(segment)
        return 0

    def look_at(self, Segment segment not None) -> None:
        """Note it as sparse, if it is."""
        self.note_sparse(segment)

    def take_sparse(self) -> list:
        """Segments that have become sparse since this was asked."""
        sparse, self.sparse = self.sparse, []
        return sparse

    def count_cold(self) -> None:
        """Anew, from what is known of each segment: the log was opened, or one of them has become a husk."""
        cdef Segment segment
        self.cold_size = 0
        for segment in self.segments:
            if segment.husk:
                self.cold_size += segment.live_size()
                self.husk_end = self.end_of(segment)

    def holds(self, Segment segment not None) -> bool:
        return self.segment_of(segment.base_seq) is segment

    cdef uint64_t end_of(self, Segment segment):
        """One behind the last sequence that belongs to a complete segment."""
        return self.bases[bisect_right(self.bases, segment.base_seq)]

    def stretch_of(self, Segment segment not None) -> tuple:
        """The sequences that belong to a complete segment: first, and one behind the last."""
        return segment.base_seq, self.end_of(segment)

    def dead_in(self, Segment segment not None) -> SequenceSet:
        """What in the stretch of a complete segment is deleted or trimmed, as a set of its own."""
        cdef uint64_t end_seq = self.end_of(segment)
        cdef SequenceSet dead = self.deleted.copy(max(segment.base_seq, self.first_seq), end_seq)
        dead.add_range(segment.base_seq, min(self.first_seq, end_seq))
        return dead

    def worth_rewriting(self, Segment segment not None) -> bool:
        """A sparse one; of the oldest what retention has left does not count, as it is about to leave the rest."""
        if not segment.is_sparse():
            return False
        if segment.base_seq >= self.first_seq:
            return True
        interior = self.deleted.count_range(self.first_seq, self.end_of(segment))
        return interior * 100 >= segment.side.outline.messages * DEAD_PERCENT

    def sides_before(self, Segment segment not None) -> list:
        """The sidecars of the segments in front of it, which are complete."""
        return [one.side for one in self.segments[: bisect_right(self.bases, segment.base_seq) - 1]]

    def set_keys(self, keys) -> None:
        self.keys = keys
        for segment in self.segments:
            segment.set_keys(keys)

    def close_files(self) -> None:
        """Keep few files open: those that were opened first are closed."""
        kept = 0
        for segment in reversed(self.segments):
            if segment.sealed and segment.is_open():
                kept += 1
                if kept >= FILES_OPEN:
                    segment.close()
