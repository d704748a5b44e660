class Run:
    count: int
    start_pos: int
    damaged: int
    def sequences(self) -> list[int]: ...

class Chunk(Run):
    base_seq: int

class Tail:
    window_size: int
    size: int
    def __init__(self, window_size: int) -> None: ...
    def drop(self) -> None: ...
