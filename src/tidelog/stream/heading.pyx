"""What stands in front of a payload that a consumer delivers: the numbers in its reply, and headers that are made here."""

from tidelog.base.digits cimport put_decimal
from tidelog.log.record cimport body_of, body_size

VERSION = b"NATS/1.0\r\n"


cdef bytes header_of(Head* head):
    return body_of(head)[:head.header_size]


cdef bytes made_header(Head* head):
    """The header block of a message that is sent without its payload."""
    return with_line(header_of(head), b"Nats-Msg-Size: %d\r\n" % (body_size(head) - <Py_ssize_t>head.header_size))


cdef bytes with_line(bytes header, bytes line):
    """A header block with one line more."""
    return (header[:len(header) - 2] if header else VERSION) + line + b"\r\n"


cdef Py_ssize_t write_numbers(char* place, Head* head, uint64_t dcount, uint64_t dseq, uint64_t left) noexcept nogil:
    """`<delivery>.<sequence>.<consumer sequence>.<time>.<pending>`, the end of a reply. Returns its size."""
    cdef char* out = put_decimal(place, dcount)
    out[0] = c"."
    out = put_decimal(out + 1, head.seq)
    out[0] = c"."
    out = put_decimal(out + 1, dseq)
    out[0] = c"."
    out = put_decimal(out + 1, <uint64_t>head.ts_ns)
    out[0] = c"."
    return put_decimal(out + 1, left) - place


def last_sequences(header: bytes) -> tuple[int, int]:
    """`Nats-Last-Consumer` and `Nats-Last-Stream` of a header block; 0: there is none."""
    found = {b"nats-last-consumer": 0, b"nats-last-stream": 0}
    for line in header.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() in found and value.strip().isdigit():
            found[name.lower()] = int(value)
    return found[b"nats-last-consumer"], found[b"nats-last-stream"]
