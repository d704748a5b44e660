from array import array

from tidelog.bench.load import Run

def request(
    run: Run,
    fds: list[int],
    pairs: list[tuple[bytes, bytes]],
    shape: tuple[int, int, int, int],
    each: int,
    samples: array[int],
) -> int:
    """Send `each` requests per socket, one at a time; fills `samples` (ns) and returns the time of the end.

    `pairs`: per socket the request and the reply as it must arrive. `shape`: where the eight digits of the
    token stand in the request's inbox and payload and in the reply's inbox and payload.
    """

def respond(run: Run, fd: int, head: bytes, inbox_size: int, body_size: int, count: int) -> int:
    """Answer `count` requests with their own payload. `head`: a delivered request up to its reply subject."""
