"""Door to outlines: what is known of a segment but for its subjects, the same while it grows and when it is sealed.

Inline and without a module behind it: `survey` fills an outline from bytes, `sidecar` from an index file or message by
message. The structs are those of the index file (docs/formats/log.md).
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from tidelog.base.vector cimport Vector, push, release

cdef enum:
    SEGMENT_HEADER_SIZE = 64
    # A look-up reads on from a sample, so half of this on average: about what a disk reads at once anyway. Samples
    # then cost 16 bytes per 4 KiB stored.
    SAMPLE_EVERY = 4096
    INDEX_HEADER_SIZE = 96
    INDEX_VERSION = 1

# Samples hold positions, and sequences from the base on, in 32 bits. A log begins another segment long before.
cdef enum:
    OFFSET_BITS = 32

cdef packed struct IndexHead:
    char magic[8]
    uint32_t crc
    uint32_t version
    uint64_t base_seq
    uint64_t last_seq
    uint64_t size
    uint64_t messages
    uint64_t message_bytes
    int64_t first_ts_ns
    int64_t last_ts_ns
    uint32_t samples
    uint32_t subjects
    uint32_t controls
    uint32_t expiries
    uint32_t holes
    uint32_t zero

cdef packed struct Sample:
    uint32_t seq_offset     # from the base
    uint32_t pos
    int64_t ts_ns

cdef packed struct Expiry:
    uint64_t seq
    int64_t expiry_ns

cdef packed struct Hole:
    uint64_t first
    uint64_t count

cdef struct Outline:
    uint64_t base_seq
    uint64_t last_seq       # of messages; base - 1: there are none
    uint64_t messages
    uint64_t message_bytes
    int64_t first_ts_ns     # 0: there are no messages
    int64_t last_ts_ns
    uint64_t size           # where the last record ends
    Vector samples          # Sample
    Vector controls         # uint32_t
    Vector expiries         # Expiry
    Vector holes            # Hole

cdef inline void begin(Outline* outline, uint64_t base_seq) noexcept nogil:
    """`outline` is all zeros."""
    outline.base_seq = base_seq
    outline.last_seq = base_seq - 1
    outline.size = SEGMENT_HEADER_SIZE

cdef inline bint fits(Outline* outline, uint64_t seq, int64_t ts_ns) noexcept nogil:
    """Whether a message with these may stand behind what is there."""
    if seq <= outline.last_seq or (seq - outline.base_seq) >> OFFSET_BITS:
        return False
    return outline.messages == 0 or ts_ns >= outline.last_ts_ns

cdef inline bint sample_is_due(Outline* outline, uint64_t pos) noexcept nogil:
    cdef Py_ssize_t count = outline.samples.count
    return count == 0 or pos - (<Sample*>outline.samples.items)[count - 1].pos >= SAMPLE_EVERY

cdef inline bint add_message(
    Outline* outline, uint64_t seq, uint64_t pos, int64_t ts_ns, uint64_t size
) noexcept nogil:
    """The message that `fits` is at `pos`. False: there is no memory, and the outline is no good any more."""
    cdef Sample* sample
    cdef Hole* hole
    if seq != outline.last_seq + 1:
        hole = <Hole*>push(&outline.holes, sizeof(Hole))
        if hole == NULL:
            return False
        hole.first = outline.last_seq + 1
        hole.count = seq - hole.first
    if sample_is_due(outline, pos):
        sample = <Sample*>push(&outline.samples, sizeof(Sample))
        if sample == NULL:
            return False
        sample.seq_offset = <uint32_t>(seq - outline.base_seq)
        sample.pos = <uint32_t>pos
        sample.ts_ns = ts_ns
    if outline.messages == 0:
        outline.first_ts_ns = ts_ns
    outline.messages += 1
    outline.message_bytes += size
    outline.last_seq = seq
    outline.last_ts_ns = ts_ns
    outline.size = pos + size
    return True

cdef inline bint add_control(Outline* outline, uint64_t pos, uint64_t size) noexcept nogil:
    """A record that is no message is at `pos`. False: there is no memory."""
    cdef uint32_t* control = <uint32_t*>push(&outline.controls, sizeof(uint32_t))
    if control == NULL:
        return False
    control[0] = <uint32_t>pos
    outline.size = pos + size
    return True

cdef inline bint add_expiry(Outline* outline, uint64_t seq, int64_t expiry_ns) noexcept nogil:
    """The message `seq` expires. False: there is no memory."""
    cdef Expiry* expiry = <Expiry*>push(&outline.expiries, sizeof(Expiry))
    if expiry == NULL:
        return False
    expiry.seq = seq
    expiry.expiry_ns = expiry_ns
    return True

cdef inline void drop(Outline* outline) noexcept nogil:
    release(&outline.samples)
    release(&outline.controls)
    release(&outline.expiries)
    release(&outline.holes)

# The same as lists, for Python.

cdef inline list listed_samples(Outline* outline):
    cdef Sample* samples = <Sample*>outline.samples.items
    return [
        (outline.base_seq + samples[i].seq_offset, samples[i].pos, samples[i].ts_ns)
        for i in range(outline.samples.count)
    ]

cdef inline list listed_controls(Outline* outline):
    return [(<uint32_t*>outline.controls.items)[i] for i in range(outline.controls.count)]

cdef inline list listed_expiries(Outline* outline):
    cdef Expiry* expiries = <Expiry*>outline.expiries.items
    return [(expiries[i].seq, expiries[i].expiry_ns) for i in range(outline.expiries.count)]

cdef inline list listed_holes(Outline* outline):
    cdef Hole* holes = <Hole*>outline.holes.items
    return [(holes[i].first, holes[i].count) for i in range(outline.holes.count)]
