"""Which single bit was flipped, told by a checksum that does not match.

CRC-32C is linear: what the checksum should be and what it is differ by the checksum of the damage alone. Of a single
bit that is another number for each place, in anything shorter than 256 MiB; so the difference names the bit. Two
flipped bits are never taken for one, as their number is even and the polynomial tells. Three or more may be, once in
thousands: so who flips a bit back has to find by other means that the bytes are right, before anybody gets them.

What it does not do: judge. It is slow, for what hardly ever happens: some 10 ms for 64 KiB.
"""

from tidelog.log.record import checksum

# How the register goes on with a zero byte, by its lowest byte; and back, by its highest.
_POLYNOMIAL = 0x82F63B78


def _table() -> list[int]:
    rows = []
    for row in range(256):
        for _ in range(8):
            row = row >> 1 ^ (_POLYNOMIAL if row & 1 else 0)
        rows.append(row)
    return rows


_FORTH = _table()
_BACK = {row >> 24: (row << 8 | low) & 0xFFFFFFFF for low, row in enumerate(_FORTH)}
# The difference that a bit of the last byte makes.
_LAST = {_FORTH[1 << bit]: bit for bit in range(8)}


def find_flip(data: bytes, said: int) -> int | None:
    """The number of the bit of `data`, from the first byte's lowest on; -1: it is one of the checksum `said`, and the
    data are right. None: no single bit explains what is wrong.
    """
    difference = said ^ checksum(data)
    if difference & (difference - 1) == 0:
        return -1 if difference else None
    for at in range(len(data) - 1, -1, -1):
        if difference in _LAST:
            return 8 * at + _LAST[difference]
        difference = (difference << 8 & 0xFFFFFFFF) ^ _BACK[difference >> 24]
    return None


def flipped(data: bytes, bit: int) -> bytes:
    """With this bit the other way round."""
    byte = bytes([data[bit // 8] ^ 1 << bit % 8])
    return data[: bit // 8] + byte + data[bit // 8 + 1 :]
