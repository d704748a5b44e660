from tidelog.bench.load import Run

PUSHED: int
CONSUMED: int
FETCHED: int
GOT: int

class Expected:
    """What a stream holds, over and over: subjects and payloads, by turns. All payloads have one size."""

    def __init__(self, subjects: list[bytes], payloads: list[bytes]) -> None: ...

class Source:
    """Where a pass comes from: the consumer, whose reply subjects begin with `ack_head`, and the request for more.

    `opening` is sent before, and its answer must be no error. `first_seq` and `step` say which sequences come, `count`
    how many.
    """

    def __init__(
        self,
        *,
        opening: bytes = b"",
        request: bytes = b"",
        ack_head: bytes = b"",
        first_seq: int = 1,
        step: int = 1,
        count: int,
    ) -> None: ...

def drain(
    run: Run,
    fd: int,
    expected: Expected,
    sources: list[Source],
    kind: int,
    batch: int,
    inbox: bytes,
) -> int:
    """Read all sources, one after the other, and check every message; the time of the end.

    PUSHED: messages come by themselves, flow control is answered. CONSUMED: half a batch before the end of one the
    next is asked for. FETCHED: each batch is acknowledged message by message, and then the next one is asked for; the
    last acknowledgement waits for its answer. GOT: batched direct gets; the sequence is written into the twelve
    places behind `"seq":` of the request.
    """
