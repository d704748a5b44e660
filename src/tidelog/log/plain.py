"""A segment's file as the plain bytes of the segment, whether it is packed or not.

What a key is missing for is `KeyUnavailable`, and never damage; damaged blocks of a packed file are zeros, which are no
record.
"""

from tidelog.base.errors import DiskFailed, KeyUnavailable, StorageError
from tidelog.disk.disk import Disk, File
from tidelog.log.header import HEADER_SIZE, NotASegment, read_header
from tidelog.log.key_ring import KeyRing
from tidelog.log.packed import PackedFile, is_packed
from tidelog.log.packed_block import MAGIC as PACKED_MAGIC


def open_plain(disk: Disk, path: str, keys: KeyRing | None) -> File:
    """A segment's file with the bytes of the plain segment. Raises KeyUnavailable, or StorageError."""
    file = disk.open(path)
    try:
        head = file.read(0, HEADER_SIZE + len(PACKED_MAGIC))
        described = head[HEADER_SIZE:] == PACKED_MAGIC
        if not (described or is_packed(head)):
            return file
        try:
            return PackedFile(file, keys)
        except (DiskFailed, KeyUnavailable):
            raise
        except StorageError:
            if described or has_valid_header(head):
                raise
            # Nothing but the flag in a damaged header says that it is packed.
            return file
    except Exception:
        file.close()
        raise


def has_valid_header(data: bytes) -> bool:
    try:
        read_header(data[:HEADER_SIZE], "")
    except NotASegment:
        return False
    return True


def read_plain(file: File) -> bytes:
    """All of it, with zeros for what is damaged in a packed file."""
    return read_range(file, 0, file.size)


def read_range(file: File, pos: int, size: int) -> bytes:
    """Some of it, likewise."""
    return file.read_lenient(pos, size) if isinstance(file, PackedFile) else file.read(pos, size)
