class PendingTable:
    count: int
    pending: int
    redelivered: int
    queued: int
    def clear(self) -> None: ...
