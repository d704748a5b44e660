from tidelog.disk.disk import Disk, File
from tidelog.log.key_ring import KeyRing
from tidelog.log.sidecar import Sidecar

class Segment:
    disk: Disk
    path: str
    base_seq: int
    side: Sidecar
    sealed: bool
    packed: bool
    husk: bool
    warm: Segment | None
    used: int
    busy: bool
    stuck: bool
    dead_count: int
    dead_size: int
    def __init__(
        self,
        disk: Disk,
        path: str,
        base_seq: int,
        side: Sidecar,
        file: File | None,
        keys: KeyRing | None,
        sealed: bool,
    ) -> None: ...
    def file_now(self) -> File: ...
    def place_of(self, seq: int) -> tuple[int, int]: ...
    def note_repair(self, pos: int) -> None: ...
    def is_open(self) -> bool: ...
    def close(self) -> None: ...
    def close_if_sealed(self) -> None: ...
    def set_sealed(self) -> None: ...
    def is_sparse(self, percent: int = ...) -> bool: ...
    def set_keys(self, keys: KeyRing | None) -> None: ...
    def replace(self, side: Sidecar, gone_count: int, gone_size: int, packed: bool) -> None: ...
