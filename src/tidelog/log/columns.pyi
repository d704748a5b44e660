from tidelog.base.seqset import SequenceSet
from tidelog.log.read import Batch

class Columns:
    count: int
    seq: bytes
    time_us: bytes
    time_ns: bytes
    expiry_ns: bytes
    subject_ends: bytes
    subjects: bytes
    header_ends: bytes
    headers: bytes
    payload_ends: bytes
    payloads: bytes
    expires: bool
    has_headers: bool

def batch_columns(batch: Batch) -> Columns: ...
def segment_columns(
    data: bytes, salt: int, dead: SequenceSet, start_seq: int, end_seq: int
) -> tuple[Columns, int]: ...
def buffers_as_columns(
    count: int,
    seq: bytes,
    time_us: bytes,
    time_ns: bytes,
    expiry_ns: bytes,
    subject_ends: bytes,
    subjects: bytes,
    header_ends: bytes,
    headers: bytes,
    payload_ends: bytes,
    payloads: bytes,
) -> Columns: ...
