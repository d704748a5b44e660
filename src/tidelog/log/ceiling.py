"""Which sequences may have been given out before the power was lost.

Where an acknowledgement does not wait for a sync, a power loss may take messages whose sequences are known outside.
The ceiling is a synced promise: no sequence beyond it was given out. After a power loss the log goes on above it, so
that no sequence ever means two messages. The end of the process alone takes nothing, and leaves no gap: the file says
in which boot it was written. After a failed sync that is in doubt: the system may have forgotten what it could not
write.
"""

import struct
from contextlib import suppress

from tidelog.base.errors import DiskFailed
from tidelog.base.limits import CEILING_STEP
from tidelog.disk.disk import Disk
from tidelog.log.flip import find_flip, flipped
from tidelog.log.record import checksum

FILE_NAME = "ceiling"
DOUBT_NAME = "doubt"
MAGIC = b"TIDECEIL"
_HEAD = struct.Struct("<8sIQ")
_BODY_POS, _SEQ_SIZE = 12, 8


def read_ceiling(data: bytes) -> tuple[int, str] | None:
    """The last sequence that may have been given out, and in which boot that was said. None: it is damaged, by more
    than a bit.
    """
    if len(data) < _HEAD.size:
        return None
    magic, crc, _ = _HEAD.unpack_from(data)
    body = data[_BODY_POS:]
    if crc != checksum(body):
        bit = find_flip(body, crc)
        if bit is None or magic != MAGIC:
            return None
        body = flipped(body, bit) if bit >= 0 else body
    return int.from_bytes(body[:_SEQ_SIZE], "little"), body[_SEQ_SIZE:].decode(errors="replace")


class Ceiling:
    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._path = f"{directory}/{FILE_NAME}"
        self._doubt = f"{directory}/{DOUBT_NAME}"
        self._directory = directory
        self._distrusted = False  # by this process, whose own word does not end it
        self.seq = 0

    def raise_beyond(self, last_seq: int) -> int:
        """Promise some more sequences, durably. Returns the last one that may be given out."""
        seq = last_seq + CEILING_STEP
        self._say(seq, self._disk.boot_id())
        self._trust()
        self.seq = seq
        return seq

    def _say(self, seq: int, boot_id: str) -> None:
        body = seq.to_bytes(_SEQ_SIZE, "little") + boot_id.encode()
        new = f"{self._path}.new"
        if self._disk.exists(new):
            self._disk.remove(new)
        file = self._disk.create(new)
        try:
            file.append([MAGIC, checksum(body).to_bytes(4, "little"), body])
            file.sync()
        finally:
            file.close()
        self._disk.rename(new, self._path)
        self._disk.sync_directory(self._directory)

    def distrust(self) -> None:
        """A sync has failed, and what was written may be gone though the power stays: the next log goes on above.

        The word for it needs no sync, for without power the boot is another one. It is for the thread in which the sync
        has failed: the process may end before anybody else is told.
        """
        self._distrusted = True
        if not self._disk.exists(self._doubt):
            self._disk.create(self._doubt).close()

    def _trust(self) -> None:
        if not self._distrusted and self._disk.exists(self._doubt):
            self._disk.remove(self._doubt)

    def floor(self, last_seq: int) -> int:
        """The least sequence for the next message of a log that was found with `last_seq`."""
        if not self._disk.exists(self._path):
            return last_seq + 1
        file = self._disk.open(self._path)
        try:
            found = read_ceiling(file.read(0, file.size))
        finally:
            file.close()
        if found is None:
            # Some were given out, and it is not known how many; most likely not more than this. Once, and of no boot.
            with suppress(DiskFailed):
                self._say(last_seq + CEILING_STEP, "")
            return last_seq + CEILING_STEP + 1
        seq, boot_id = found
        if boot_id and boot_id == self._disk.boot_id() and not self._disk.exists(self._doubt):
            return last_seq + 1
        return max(last_seq, seq) + 1

    def drop(self) -> None:
        """Everything is synced, and the log is closed."""
        if self._disk.exists(self._path):
            self._disk.remove(self._path)
        self._trust()
        self.seq = 0
