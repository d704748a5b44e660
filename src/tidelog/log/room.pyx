"""Room that the open segment takes for messages that are gone.

A complete segment gives its room back when nothing is left in it, or is rewritten. The open one has to be complete for
that, so another one is begun when most of it is dead (`is_mostly_dead`, by the keeper, when that has lasted). On a full
disk there is no room for another one, nor for the record that says what was deleted; there, when nothing at all is left in
the log, the open segment is emptied where it is.

Promises of `empty`
  * No sequence is forgotten: a trim record that names the last one is put over the first bytes of the segment, where it
    needs no room, and is synced before the rest is cut off. It lies within one sector of the disk.
  * Who opens the log after an end amid this finds all of what was there, or nothing but that record; what is behind it is
    older than it says, and is cut off as a torn tail.
"""

import errno

from libc.stdint cimport uint64_t

from tidelog.base import limits
from tidelog.base.errors import DiskFailed, StorageError
from tidelog.log.outline cimport SEGMENT_HEADER_SIZE
from tidelog.log.record cimport HEADER_SIZE as RECORD_SIZE, TRIM
from tidelog.log.record import encode_fact
from tidelog.log.segment cimport Segment
from tidelog.log.store cimport Store

FULL = (errno.ENOSPC, errno.EDQUOT)
cdef enum:
    TRIM_SIZE = RECORD_SIZE + 8
    TRIM_END = SEGMENT_HEADER_SIZE + TRIM_SIZE

cdef uint64_t DEAD_PERCENT = limits.COMPACT_DEAD_PERCENT
cdef uint64_t DEAD_SIZE = limits.OPEN_DEAD_SIZE


def is_mostly_dead(Store store not None) -> bool:
    """Whether so much of the open segment is deleted that another one should be begun."""
    cdef Segment segment = store.open_segment
    return (
        segment.dead_size >= min(DEAD_SIZE, <uint64_t>store.segment_size // 4)
        and segment.dead_size * 100 >= segment.side.outline.message_bytes * DEAD_PERCENT
    )


def begin_another(Store store not None) -> None:
    """Complete the open segment. What may be all that is left of the log says where it stands."""
    store.roll()
    store.trimmed = True


def write(Store store not None, keeper) -> int:
    """Bring everything to the files; or, where a full disk does not take it and nothing is left, only that.

    Not while messages are being erased: a worker has places in the file that would not be there any more.
    """
    try:
        return store.write()
    except DiskFailed as error:
        size = 0
        if error.errno in FULL and store.count == 0 and not keeper.eraser.under_way:
            size = empty(store)
        if size == 0:
            raise
        keeper.figures.emptied += 1
        return size


def empty(Store store not None) -> int:
    """Leave nothing in the open segment of a log without messages but what its last sequence was, and return how many
    bytes were written for that; 0: there is nothing to gain, or what is deleted is kept for a history. What waits to be
    written is dropped with it, as all of it is deleted. A failed sync is no DiskFailed, as nobody may try again.

    Where the open segment was only begun, the one before is emptied, which could not be completed either.
    """
    cdef Segment target = store.open_segment, segment
    cdef uint64_t last_seq = store.last_seq
    if store.count or store.kept_seq != <uint64_t>-1:
        return 0
    for segment in reversed(store.rolled):
        if target.opened().size <= TRIM_END:
            # What it was to have is known to nobody.
            last_seq = target.base_seq - 1
            target = segment
    file = target.opened()
    if file.size <= TRIM_END:
        return 0
    file.write(
        SEGMENT_HEADER_SIZE,
        encode_fact(TRIM, last_seq, store.last_ts_ns, (last_seq + 1).to_bytes(8, "little"), store.salt),
    )
    sync(file)
    file.truncate(TRIM_END)
    sync(file)
    for segment in store.segments:
        if segment.base_seq > target.base_seq:
            segment.opened().truncate(SEGMENT_HEADER_SIZE)
            segment.begin_again()
    target.begin_again()
    target.side.note_control(SEGMENT_HEADER_SIZE, TRIM_SIZE)
    segment = store.open_segment
    store.tail.clear()
    store.tail.attach(segment.opened(), segment.base_seq, segment.opened().size)
    store.gone = []
    store.erasing = []
    store.recent = None
    store.recent_heads = None
    store.look_ahead()
    store.trimmed = target is not segment
    return store.write() if store.trimmed else TRIM_SIZE


def sync(file) -> None:
    try:
        file.sync()
    except DiskFailed as error:
        raise StorageError(f"a segment that was emptied could not be synced: {error}") from error
