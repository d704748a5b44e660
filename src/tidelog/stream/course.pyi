from tidelog.log.filter import Filter
from tidelog.log.log import Log

class Course:
    log: Log
    filter: Filter
    def __init__(
        self,
        log: Log,
        filter: Filter,
        start_seq: int,
        skips: list[int] | None = None,
        backward: bool = False,
    ) -> None: ...
