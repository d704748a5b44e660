"""Every error that Tidelog raises on purpose.

    TidelogError
    ├─ ProtocolError(text, reason)   the peer broke the wire rules; text goes into -ERR, the connection closes
    ├─ ConfigError(path, line, ...)  a configuration that cannot be used; says where and what to do
    │  └─ ConfigErrors(errors)        all that is wrong with one, a line each
    ├─ StorageError                  what is stored cannot be read or written
    │  └─ DiskFailed(operation, path, errno) · DiskLocked(root, pid)
    │     · BlockDamaged(start_pos, end_pos) · KeyUnavailable(key_id)
    ├─ ColdError                     the object store with the cold history cannot be read or written
    │  └─ ColdMissing                 there is no such object
    │     · ColdForeign               what is there is another log's
    ├─ CursorError                   a request about a named position that is refused; nothing has changed
    │  └─ CursorBehind(name, seq, current) · CursorConflict(name, expected, actual)
    └─ ClientError                   what the synchronous client reports to its caller
       └─ NoResponders · Timeout · Disconnected · Untrusted · ServerError · ApiError(code, err_code, description)

Split only where a caller would act differently. Programmer errors are asserts; data from disk or network is checked.
"""

from collections.abc import Sequence


class TidelogError(Exception):
    """Root of everything that Tidelog raises on purpose."""


class ProtocolError(TidelogError):
    """The peer broke the wire rules and the connection must close.

    `text` is what goes into `-ERR '...'` (empty: close without a word); `reason` is the closed reason for /connz;
    `detail` goes to the log only.
    """

    def __init__(self, text: str, reason: str, detail: str = "") -> None:
        super().__init__(detail or text or reason)
        self.text = text
        self.reason = reason
        self.detail = detail


class ConfigError(TidelogError):
    """A configuration that cannot be used. `str()` reads `file:line:col: message`, as far as these are known."""

    def __init__(self, message: str, path: str = "", line: int = 0, column: int = 0) -> None:
        where = ":".join(str(part) for part in (path, line, column) if part)
        super().__init__(f"{where}: {message}" if where else message)
        self.message = message
        self.path = path
        self.line = line
        self.column = column


class ConfigErrors(ConfigError):
    """Everything found wrong with a configuration. `str()` has one line for each; the place is that of the first."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.message, first.path, first.line, first.column)
        self.args = ("\n".join(str(error) for error in errors),)
        self.errors = tuple(errors)


class StorageError(TidelogError):
    """What is stored cannot be read or written."""


class DiskFailed(StorageError):
    """The system refused a call on a file. `errno` is its reason."""

    def __init__(self, operation: str, path: str, error: OSError) -> None:
        super().__init__(f"{operation} {path}: {error.strerror or error}")
        self.operation = operation
        self.path = path
        self.errno = error.errno


class DiskLocked(StorageError):
    """Somebody else has opened the store. `pid` is 0 where it is not known."""

    def __init__(self, root: str, pid: int) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(f"{root} is in use by {holder}: one process at a time opens a store")
        self.root = root
        self.pid = pid


class BlockDamaged(StorageError):
    """Bytes of a packed segment cannot be read. The positions are those of the plain one."""

    def __init__(self, start_pos: int, end_pos: int, reason: str) -> None:
        super().__init__(f"bytes {start_pos} to {end_pos} of a packed segment are lost: {reason}")
        self.start_pos = start_pos
        self.end_pos = end_pos


class KeyUnavailable(StorageError):
    """What is stored was sealed with a key that is not here. Says which, and never what it is."""

    def __init__(self, key_id: str, reason: str) -> None:
        super().__init__(f"key {key_id!r}: {reason}")
        self.key_id = key_id


class ColdError(TidelogError):
    """The object store with the cold history cannot be read or written, or what is in it is not what it should be."""


class ColdMissing(ColdError):
    """There is no such object."""


class ColdForeign(ColdError):
    """Somebody else has put other messages where ours belong."""


class CursorError(TidelogError):
    """A request about a cursor (a named position) that is refused; the message says why. Nothing has changed."""


class CursorBehind(CursorError):
    """A set that would move a cursor back, and did not say that it wants to."""

    def __init__(self, name: str, seq: int, current: int) -> None:
        super().__init__(
            f"cursor {name!r} is at {current}, ahead of {seq}: "
            "ask for a rewind to move it back, or fetch it and go on from there"
        )
        self.name = name
        self.seq = seq
        self.current = current


class CursorConflict(CursorError):
    """Somebody else has changed the cursor. `actual` is its revision, 0 if there is none."""

    def __init__(self, name: str, expected: int, actual: int) -> None:
        found = f"is at revision {actual}" if actual else "does not exist"
        wanted = f"revision {expected}" if expected else "that it does not exist"
        super().__init__(f"cursor {name!r} {found}, expected was {wanted}: fetch it and decide again")
        self.name = name
        self.expected = expected
        self.actual = actual


class ClientError(TidelogError):
    """What the synchronous client reports to its caller."""


class NoResponders(ClientError):
    """Nobody listens to the subject of a request."""


class Timeout(ClientError):
    """The answer did not come within the given time."""


class Disconnected(ClientError):
    """The connection ended; the message says why."""


class Untrusted(Disconnected):
    """The certificate of the server is not one that this client believes."""


class ServerError(ClientError):
    """The server sent `-ERR`; the message is its text."""


class ApiError(ClientError):
    """The JetStream API refused a request. `err_code` says exactly why, `code` is the kind, as in HTTP."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{description} ({err_code})" if err_code else description)
        self.code = code
        self.err_code = err_code
        self.description = description
