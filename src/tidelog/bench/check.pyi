from collections.abc import Sequence

class Check:
    """What one connection must receive: `laps` times every publisher's lap, interleaved between frames."""

    def __init__(
        self, cycles: Sequence[tuple[bytes, Sequence[int]]], *, laps: int, mark_at: int = -1
    ) -> None: ...
    @property
    def left(self) -> int:
        """Bytes of messages still to come."""

    @property
    def pongs(self) -> int:
        """PONGs received so far."""

    def take_pings(self) -> int:
        """PINGs to be answered since the last call."""

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Compare the next bytes; WrongDelivery or ServerError if they are not what must come."""
