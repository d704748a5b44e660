from tidelog.disk.disk import Disk, File
from tidelog.log.expiry import Expiries
from tidelog.log.log import Log
from tidelog.log.sidecar import RowCursor
from tidelog.log.store import Store

FILE_NAME: str
TAIL_SIZE: int
MAGIC: bytes

class Contents:
    version: int
    log_id: bytes
    tail_checksum: int
    first_seq: int
    last_seq: int
    messages: int
    size: int
    last_ts_ns: int
    subjects: int
    segments: list[tuple[int, int, int, int]]
    deleted: list[tuple[int, int]]
    lost: list[tuple[int, int]]
    expiries: list[tuple[int, int]]
    def __init__(self, data: bytes) -> None: ...
    def mismatch(self, log_id: bytes, segments: list[tuple[int, int]], tail: int) -> str: ...
    def take_rows(self) -> RowCursor: ...

def segment_bases(file: File) -> list[int]: ...
def damage(data: bytes) -> str: ...
def tail_checksum(file: File, size: int) -> int: ...
def encode_snapshot(store: Store, expiries: Expiries) -> bytes: ...
def write_snapshot(disk: Disk, directory: str, log: Log) -> None: ...
def load_snapshot(data: bytes, store: Store, expiries: Expiries) -> bool: ...
def load_rows(store: Store, cursor: RowCursor) -> bool: ...
