from tidelog.base.seqset import SequenceSet
from tidelog.log.sidecar import Sidecar

def rewrite(
    data: bytes,
    base_seq: int,
    end_seq: int,
    salt: int,
    dead: SequenceSet,
    floor_seq: int,
    earlier: list[Sidecar],
) -> bytes | None: ...
