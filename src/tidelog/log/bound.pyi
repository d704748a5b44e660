from tidelog.base.errors import StorageError

class LimitReached(StorageError):
    limit: str
    def __init__(self, limit: str, text: str) -> None: ...
