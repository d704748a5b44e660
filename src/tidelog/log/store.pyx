# cython: wraparound=True
"""What a log holds: its segments, its index, and what is missing. Policies, acknowledgements and readers are outside.

Promises
  * LOG-1: every sequence from `first_seq` to `last_seq` is a message, deleted, or lost; never two of these.
  * LOG-2: sequences only grow, and so do timestamps: one that would fall is set to the last one.
  * LOG-3: what was deleted is said in the log itself before anything else relies on it (`put_controls`).
  * Nothing here waits for a disk but `write`, look-ups that miss the tail, and the first bytes of a new segment.

How deletion works: a message leaves the index at once, and its bytes when its segment goes or is compacted. What was
deleted since the last commit is put into a delete record in front of the next write; what retention took from the
front only moves `first_seq`, which a trim record says.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdlib cimport calloc, free

from tidelog.base import limits
from tidelog.base.errors import StorageError
from tidelog.log.record cimport (
    DELETE, ERASED, HEADER_SIZE, SKIP, TRIM, encode, encode_control, encoded_size, subject_of, whole_size,
)
from tidelog.log.fact import Awaited
from tidelog.log.header import segment_header, segment_path
from tidelog.log.sidecar cimport Sidecar
from tidelog.log.sidecar import encode_ranges

cdef Py_ssize_t RECORD_MOST = limits.RECORD_SIZE
cdef Py_ssize_t SUBJECT_MOST = limits.RECORD_SUBJECT_SIZE
cdef Py_ssize_t DELETES_MOST = limits.DELETE_RECORD_SIZE // 8
cdef Py_ssize_t READ_AHEAD = limits.READ_AHEAD_SIZE
cdef uint64_t NEAR = limits.LOOK_UP_NEAR
cdef uint64_t SKIP_MOST = limits.SKIP_WITHIN_SEGMENT


class RecordTooLarge(StorageError):
    """A message that no segment takes."""


cdef bint is_near(Run run, uint64_t seq) noexcept nogil:
    """Whether all that lies around `seq` should be read: who was at `run` just now is likely to stay there."""
    return run.first_seq() <= seq + NEAR and seq <= run.last_seq() + NEAR


cdef class Store(Shelf):
    def __init__(self, disk, str path, bytes log_id, segment_size, window_size, keys=None) -> None:
        super().__init__(disk, path, keys)
        self.log_id = log_id
        self.salt = int.from_bytes(log_id[:4], "little")
        self.segment_size = segment_size
        self.index = SubjectIndex()
        self.lost = SequenceSet()
        self.tail = Tail(window_size)
        self.gone = []
        self.erasing = []
        self.unerased = []
        self.rolled = []
        self.repaired = []
        self.removed = <uint64_t*>calloc(REMOVALS_KEPT, sizeof(uint64_t))
        if self.removed == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.removed)

    # ---- writing ----

    cdef Head* append(
        self, int64_t ts_ns, int64_t expiry_ns,
        const char* subject, Py_ssize_t subject_size, const char* header, Py_ssize_t header_size,
        const char* payload, Py_ssize_t payload_size,
    ) except NULL:
        """Store a message in memory, with the next sequence; `write` brings it to the file. The record is good until then."""
        cdef Py_ssize_t size = encoded_size(subject_size, header_size, payload_size, expiry_ns != 0)
        cdef Head* head
        cdef uint64_t pos
        if subject_size > SUBJECT_MOST or size > RECORD_MOST:
            raise RecordTooLarge(
                f"a message may have {RECORD_MOST} bytes and its subject {SUBJECT_MOST}; this has {size} and {subject_size}"
            )
        if self.overdue or (
            self.open_segment.side.outline.size + size > <uint64_t>self.segment_size
            and self.open_segment.side.outline.messages
        ):
            self.roll()
        if ts_ns < self.last_ts_ns:
            ts_ns = self.last_ts_ns
        pos = self.tail.pos
        head = encode(
            self.tail.reserve(size), self.salt, self.last_seq + 1, ts_ns, expiry_ns,
            subject, subject_size, header, header_size, payload, payload_size,
        )
        self.slot = self.index.add(subject, subject_size, head.seq)
        self.tail.advance(size, True)
        self.open_segment.side.note(head.seq, pos, ts_ns, size)
        if expiry_ns:
            self.open_segment.side.note_expiry(head.seq, expiry_ns)
        self.last_seq = head.seq
        self.last_ts_ns = ts_ns
        self.count += 1
        self.size += size
        return head

    def skip_to(self, uint64_t next_seq) -> None:
        """The next message gets at least this sequence; those between are never given out."""
        if next_seq <= self.last_seq + 1:
            return
        if self.count == 0:
            self.first_seq = next_seq
        else:
            self.deleted.add_range(self.last_seq + 1, next_seq)
        self.put_control(SKIP, next_seq.to_bytes(8, "little"))
        self.last_seq = next_seq - 1
        if self.open_segment.side.outline.messages == 0 or next_seq - self.open_segment.base_seq > SKIP_MOST:
            # Sequences are kept as distances from the base. The disk may be full now, and what is there should be read.
            self.overdue = True

    cdef int put_control(self, int kind, bytes payload, int flags=0) except -1:
        cdef Py_ssize_t size = HEADER_SIZE + PyBytes_GET_SIZE(payload)
        cdef uint64_t pos = self.tail.pos
        encode_control(
            self.tail.reserve(size), self.salt, kind, flags, self.last_seq, self.last_ts_ns,
            PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload),
        )
        self.tail.advance(size, False)
        self.open_segment.side.note_control(pos, size)
        return 0

    cdef int put_controls(self) except -1:
        """Say in the log what was deleted since the last commit."""
        cdef list gone = self.gone
        if gone:
            self.gone = []
            # What the trim record says as well may be in a segment that is not here any more, and come back with it.
            gone = sorted([one for one in gone if one[0] >= self.first_seq])
            self.put_deletes(gone, 0)
        if self.erasing:
            # These also if they are trimmed: their files may stay.
            gone = sorted([one for one in self.erasing if one[0] >= self.bases[0]])
            self.erasing = []
            self.unerased += [one[0] for one in gone]
            self.put_deletes(gone, ERASED)
        if self.trimmed:
            self.trimmed = False
            self.put_control(TRIM, self.first_seq.to_bytes(8, "little"))
        return 0

    cdef int put_deletes(self, list gone, int flags) except -1:
        cdef Py_ssize_t at
        for at in range(0, len(gone), DELETES_MOST):
            self.put_control(DELETE, encode_ranges(joined(gone[at : at + DELETES_MOST], self.bases)), flags)
        return 0

    def write(self) -> int:
        """Bring everything to the files. Returns how many bytes that were."""
        cdef Py_ssize_t size
        self.put_controls()
        size = self.tail.write()
        self.tail.trim()
        return size

    def begin(self, uint64_t base_seq, now_ns: int) -> Segment:
        """A new open segment."""
        path = segment_path(self.path, base_seq)
        file = self.disk.create(path)
        try:
            file.append([segment_header(self.log_id, base_seq, now_ns)])
        except Exception:
            # Without its header it would be in the way of the next try.
            file.close()
            self.disk.remove(path)
            raise
        segment = Segment(self.disk, path, base_seq, Sidecar.fresh(base_seq), file, self.keys, False)
        self.adopt(segment)
        return segment

    def take(self, Segment segment not None) -> None:
        """`segment` is the newest one so far, and complete."""
        segment.heard = self.repaired
        self.segments.append(segment)
        self.bases.append(segment.base_seq)
        segment.close()

    def adopt(self, Segment segment not None) -> None:
        """`segment` is the newest one, and open."""
        segment.heard = self.repaired
        self.segments.append(segment)
        self.bases.append(segment.base_seq)
        self.open_segment = segment
        self.tail.attach(segment.opened(), segment.base_seq, segment.side.outline.size)

    def roll(self) -> None:
        """Begin another segment. The one before is complete, though perhaps not yet written."""
        cdef Segment complete = self.open_segment
        self.begin(self.last_seq + 1, self.last_ts_ns)
        self.overdue = False
        self.rolled.append(complete)

    def set_sizes(self, Py_ssize_t segment_size, Py_ssize_t window_size) -> None:
        """From the next segment and the next write on."""
        self.segment_size = segment_size
        self.tail.window_size = window_size

    def has_rolled(self) -> bool:
        """Whether a segment was begun since `take_rolled`."""
        return bool(self.rolled)

    def take_rolled(self) -> list:
        """Segments that have become complete and are written; to be called after `write`."""
        rolled, self.rolled = self.rolled, []
        return rolled

    def files_written(self) -> list:
        """Those that the last `write` may have written to."""
        return [segment.file_now() for segment in (*self.rolled, self.open_segment)]

    # ---- opening ----

    @property
    def log_salt(self) -> int:
        return self.salt

    def set_figures(self, first_seq, last_seq, count, size, last_ts_ns) -> None:
        self.first_seq = first_seq
        self.last_seq = last_seq
        self.count = count
        self.size = size
        self.last_ts_ns = last_ts_ns

    def look_ahead(self) -> None:
        """What was found is complete, and the last segment is open: see whether it can take the next message."""
        self.overdue = self.last_seq + 1 - self.open_segment.base_seq > SKIP_MOST

    def forget_index(self) -> None:
        self.index = SubjectIndex()
        self.deleted = SequenceSet()
        self.lost = SequenceSet()

    def settle(self) -> None:
        """What was found is complete: move to the oldest message."""
        self.deleted.remove_below(self.first_seq)
        self.lost.remove_below(self.first_seq)
        self.advance_first()

    def size_below(self, uint64_t end_seq) -> int:
        """Bytes of the messages that are in front of `end_seq` in their segments, and not known as deleted: dead ones."""
        cdef Segment segment
        cdef uint64_t count, size, total = 0
        for segment in self.segments:
            if segment.base_seq >= end_seq:
                break
            count, size = self.measure(segment, segment.base_seq, end_seq, self.deleted)
            segment.dead_count += count
            segment.dead_size += size
            total += size
        return total

    def size_between(self, uint64_t start_seq, uint64_t end_seq, SequenceSet holes not None) -> int:
        """Bytes of the messages of a stretch within one segment that are no holes in it."""
        return self.measure(self.segment_of(start_seq), start_seq, end_seq, holes)[1]

    cdef tuple measure(self, Segment segment, uint64_t seq, uint64_t end_seq, SequenceSet without):
        cdef Run run
        cdef Head* head
        cdef uint64_t count = 0, size = 0
        cdef Py_ssize_t at
        while seq < end_seq and seq <= segment.side.outline.last_seq:
            run = segment.read_around(seq, READ_AHEAD, False, self.salt, True)
            if run is None:
                break
            for at in range(run.at_least(seq), run.count):
                head = run.head(at)
                if head.seq < end_seq and not without.contains(head.seq):
                    count += 1
                    size += whole_size(head)
            # Not behind the last message of the run: where a sequence has leapt, that is in this run again.
            seq = segment.sequence_from(run.start_pos + run.size)
        return count, size

    # ---- finding ----

    cdef Run run_for(self, uint64_t seq, Py_ssize_t wanted, bint backward):
        """Messages that lie together, among them `seq` if it is there. None: there is nothing at that place.

        Raises Awaited for what is elsewhere.

        `wanted`: so many bytes of them, or ALONE.
        """
        cdef Run run = self.tail.find(seq)
        cdef Segment segment, warm
        if run is not None:
            return run
        segment = self.segment_of(seq)
        if segment.husk:
            warm = self.bodies_of(segment, seq, backward and wanted != ALONE)
            run = warm.read_back(seq, wanted, backward, self.salt)
            if run is not None and not run.damaged:
                return run
            # What is here is only a copy: it is fetched again.
            self.warm_now(segment, None)
            self.bodies_of(segment, seq, backward)
            raise Awaited(seq)
        return self.read(segment, seq, wanted, backward)

    cdef Segment bodies_of(self, Segment segment, uint64_t seq, bint backward):
        """Where the messages of a husk can be read. Raises Awaited if that is not here now."""
        if segment.warm is None or not segment.warm.used:
            # Also when it is used for the first time: whoever reads on will want the next one.
            if self.on_wanted is not None:
                self.on_wanted(segment, backward)
            if segment.warm is None:
                raise Awaited(seq)
        self.uses += 1
        segment.warm.used = self.uses
        return segment.warm

    cdef bint is_away(self, uint64_t seq):
        cdef Segment segment
        if seq >= self.husk_end:
            return False
        segment = self.segment_of(seq)
        return segment.husk and segment.warm is None

    cdef Run heads_for(self, uint64_t seq, Py_ssize_t wanted, bint backward):
        """The same, for those who ask for no more than `whole_size`, sequence, time, expiry and subject: nothing is awaited."""
        cdef Run run = self.tail.find(seq)
        return run if run is not None else self.read(self.segment_of(seq), seq, wanted, backward)

    cdef Run read(self, Segment segment, uint64_t seq, Py_ssize_t wanted, bint backward):
        cdef Run run
        cdef uint64_t end_seq, tail_seq
        if segment.file is None:
            self.close_files()
        if wanted == ALONE:
            run = segment.read_one(seq, self.salt)
            if run is not None:
                return run
        run = segment.read_around(seq, wanted, backward, self.salt)
        if run is not None and run.damaged:
            # What is in the tail is not missing, though perhaps in no file yet.
            end_seq = segment.sequence_from(run.start_pos + run.size)
            tail_seq = self.tail.first_seq()
            self.miss(
                run, max(segment.sequence_before(run.start_pos), self.first_seq),
                min(end_seq, tail_seq) if tail_seq else end_seq,
            )
        return run

    cdef Run near(self, uint64_t seq, Py_ssize_t wanted):
        """`run_for`, from the run that was read last if `seq` is there."""
        cdef Run run = self.recent
        if run is not None and run.count:
            if run.first_seq() <= seq <= run.last_seq():
                return run
            if wanted == ALONE and is_near(run, seq):
                wanted = 0
        run = self.run_for(seq, wanted, False)
        # Chunks of the tail are found quickly, and should not be held here.
        self.recent = run if run is not None and run.owner is not None else None
        return run

    cdef Run near_heads(self, uint64_t seq, Py_ssize_t wanted):
        """`heads_for`, likewise."""
        cdef Run run = self.recent_heads
        if seq >= self.husk_end or not self.segment_of(seq).husk:
            return self.near(seq, wanted)
        if run is not None and run.count and run.first_seq() <= seq <= run.last_seq():
            return run
        self.recent_heads = run = self.heads_for(seq, max(wanted, 0), False)
        return run

    cdef Run hold(self, uint64_t seq, Py_ssize_t* at):
        """The run in which a message lies, and where; it stays readable while the run is held. None: it is not there."""
        cdef Run run
        if self.absent(seq):
            return None
        run = self.near(seq, ALONE)
        at[0] = run.at_least(seq) if run is not None else 0
        if run is None or at[0] == run.count or run.head(at[0]).seq != seq:
            self.lose(seq)
            return None
        return run

    cdef bint absent(self, uint64_t seq) noexcept nogil:
        """Whether there is no message with this sequence."""
        return (
            seq < self.first_seq or seq > self.last_seq
            or (self.deleted.count and self.deleted.contains(seq)) or (self.lost.count and self.lost.contains(seq))
        )

    cdef uint64_t present_from(self, uint64_t seq) noexcept:
        """The first message from `seq` on; behind `last_seq`, if there is none."""
        seq = max(seq, self.first_seq)
        while seq <= self.last_seq and self.absent(seq):
            seq = max(self.deleted.next_absent(seq), self.lost.next_absent(seq))
        return seq

    cdef int miss(self, Run run, uint64_t start_seq, uint64_t end_seq) except -1:
        """A run came damaged from its file: what should be in it and is not is lost."""
        cdef uint64_t seq
        cdef Py_ssize_t at
        cdef list missing = []
        seq = self.present_from(start_seq)
        while seq < end_seq:
            at = run.at_least(seq)
            if at == run.count or run.head(at).seq != seq:
                missing.append(seq)
            seq = self.present_from(seq + 1)
        for seq in missing:
            self.index.forget(seq)
            self.lost.add(seq)
            self.note_removal(seq)
            self.count -= 1
        if missing:
            self.size -= min(self.size, <uint64_t>run.damaged)
            self.advance_first()
            if self.on_lost is not None:
                self.on_lost(missing[0], missing[-1] + 1)
        return 0

    def lose(self, uint64_t seq) -> None:
        """The index has this message, and its segment has not."""
        if self.absent(seq) or not self.index.forget(seq):
            return
        self.lost.add(seq)
        self.note_removal(seq)
        self.count -= 1
        self.advance_first()
        if self.on_lost is not None:
            self.on_lost(seq, seq + 1)

    cdef uint64_t seq_at_time(self, int64_t ts_ns) except? 0:
        """The oldest message that is not older than `ts_ns`; last_seq + 1: all are."""
        cdef Segment segment
        cdef Run run
        cdef Py_ssize_t sample, at
        cdef uint64_t seq
        for segment in self.segments:
            if segment.side.outline.messages and segment.side.outline.last_ts_ns >= ts_ns:
                sample = max(segment.side.sample_at_time(ts_ns), 0)
                seq = segment.base_seq + segment.side.sample(sample).seq_offset
                while (seq := self.present_from(seq)) <= segment.side.outline.last_seq:
                    run = self.heads_for(seq, 0, False)
                    at = run.at_least(seq) if run is not None else 0
                    if run is None or at == run.count or run.head(at).seq != seq:
                        self.lose(seq)
                        seq += 1
                        continue
                    for at in range(at, run.count):
                        if run.head(at).ts_ns >= ts_ns and not self.absent(run.head(at).seq):
                            return run.head(at).seq
                    seq = run.last_seq() + 1
        return self.last_seq + 1

    def warm_now(self, Segment segment not None, Segment warm) -> None:
        """A husk has come back (None: it has gone again)."""
        if segment.warm is not None:
            segment.warm.close()
        segment.warm = warm
        self.recent = None

    def subject_of(self, uint64_t seq) -> bytes | None:
        """Of a message, wherever the rest of it is; None: it is not there."""
        cdef Run run = self.near_heads(seq, ALONE) if not self.absent(seq) else None
        cdef Py_ssize_t at = run.at_least(seq) if run is not None else 0
        if run is None or at == run.count or run.head(at).seq != seq:
            self.lose(seq)
            return None
        return subject_of(run.head(at))[:run.head(at).subject_size]

    # ---- deleting ----

    cdef Py_ssize_t remove(self, uint64_t seq) except -1:
        """Delete a message. Returns the size of its record; 0: there was none."""
        cdef Run run
        cdef Segment segment
        cdef Head* head
        cdef Py_ssize_t at, size
        if self.absent(seq):
            return 0
        # Retention walks through the log, others jump.
        run = self.near_heads(seq, READ_AHEAD if seq == self.first_seq else ALONE)
        at = run.at_least(seq) if run is not None else 0
        if run is None or at == run.count or run.head(at).seq != seq:
            self.lose(seq)
            return 0
        head = run.head(at)
        size = whole_size(head)
        if not self.index.remove(subject_of(head), head.subject_size, seq):
            raise StorageError(f"message {seq} of {self.path} is not in the index under its subject; run `tidelog fsck`")
        segment = self.segment_of(seq)
        segment.dead_count += 1
        segment.dead_size += size
        if segment.husk:
            self.cold_size -= min(self.cold_size, <uint64_t>size)
        self.note_sparse(segment)
        self.count -= 1
        self.size -= size
        self.deleted.add(seq)
        self.note_removal(seq)
        if seq == self.first_seq:
            self.trimmed = True
            self.advance_first()
        else:
            self.gone.append((seq, size))
        return size

    cdef void note_removal(self, uint64_t seq) noexcept:
        """For those who have counted messages, and want to know whether that is still right."""
        self.removed[self.removals & (REMOVALS_KEPT - 1)] = seq
        self.removals += 1

    cdef Py_ssize_t remove_for_good(self, uint64_t seq) except -1:
        """The same, and its bytes are to be overwritten (`erase`)."""
        cdef Py_ssize_t size = self.remove(seq)
        if size:
            if self.gone and self.gone[-1][0] == seq:
                self.gone.pop()
            self.erasing.append((seq, size))
        return size

    def take_unerased(self) -> list:
        """Messages to be erased, of which the log says so since this was asked; to be called after `write`."""
        unerased, self.unerased = self.unerased, []
        return unerased

    cdef Py_ssize_t size_of(self, uint64_t seq) except -1:
        """Of the record of a message; 0: it is not there."""
        cdef Run run = self.near_heads(seq, 0)
        cdef Py_ssize_t at = run.at_least(seq) if run is not None else 0
        return whole_size(run.head(at)) if run is not None and at < run.count and run.head(at).seq == seq else 0

    cdef int advance_first(self) except -1:
        """Move `first_seq` on to the oldest message there is."""
        cdef uint64_t seq = self.present_from(self.first_seq) if self.count else self.last_seq + 1
        if seq != self.first_seq:
            self.first_seq = seq
            self.deleted.remove_below(seq)
            self.lost.remove_below(seq)
        return 0

    def has_repaired(self) -> bool:
        return bool(self.repaired)

    def take_repaired(self) -> list:
        """Bits of packed segments that are not as they were written, and were read right, since this was asked."""
        repaired = self.repaired[:]
        self.repaired.clear()
        return repaired

    def unsaid(self) -> bool:
        """Whether something was deleted that the log does not say yet."""
        return bool(self.gone) or bool(self.erasing) or self.trimmed


def joined(list gone, list bases) -> list:
    """`(seq, size)` in order as ranges `(first, count, size)`, none of which goes beyond its segment."""
    cdef list ranges = []
    cdef uint64_t seq, end_seq = 0
    starts = set(bases)
    for seq, size in gone:
        if ranges and seq == end_seq and seq not in starts:
            first, count, before = ranges[-1]
            ranges[-1] = (first, count + 1, before + size)
        else:
            ranges.append((seq, 1, size))
        end_seq = seq + 1
    return ranges
