from tidelog.bench.load import Run

ACK: int
VALUE: int

class Units:
    """What is sent over and over: `data` is the units one after the other, `starts` where each begins (and the end).

    `places`: for each unit the positions of the eight digits that change with every use; the first one stands in its
    reply subject. `values`: for replies that carry one, the payload that must come, by unit.
    """

    def __init__(
        self, data: bytes, starts: list[int], places: list[list[int]], values: list[bytes] | None = None
    ) -> None: ...

def ask(
    run: Run,
    fd: int,
    units: Units,
    inbox: bytes,
    count: int,
    window: int,
    kind: int,
    stream: bytes = b"",
    each: int = 1,
    base_seq: int = 0,
) -> int:
    """Send `count` units, at most `window` of them unanswered; the time of the end.

    Replies come on `inbox` and the digits, in order. ACK: an acknowledgement of `stream` whose sequence has grown by
    `each` since the last one, beginning behind `base_seq`. VALUE: a message with the payload that is expected.
    """
