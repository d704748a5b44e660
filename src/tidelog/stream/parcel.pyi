class Staged:
    batches: int
    fast_batches: int
    size: int
    most: int

    def __init__(self) -> None: ...

class Parcel:
    batch_id: bytes
    plain: bool
    due_ns: int
    count: int
    most: int
    size: int

    def __init__(self, batch_id: bytes, most: int) -> None: ...
    def add(self, subject: bytes, header: bytes, payload: bytes) -> None: ...
    def set_last_header(self, header: bytes) -> None: ...
    def parts(self) -> list[tuple[bytes, bytes, bytes]]: ...
