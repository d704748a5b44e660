"""Where the keys of stored data come from: an environment variable or a file that the configuration names.

Read once, when the server starts. An error says where the keys were expected and what is wrong, never what they are.
"""

import os

from tidelog.base.errors import ConfigError
from tidelog.log.key_ring import KeyRing

# A hundred keys of the longest kind; a larger file is something else.
KEY_FILE_SIZE = 16 * 1024


def read_key_ring(variable: str = "", path: str = "") -> KeyRing | None:
    """None if neither is named. A variable that is named must be set: nothing is stored in the clear by mistake."""
    if variable and path:
        raise ConfigError("keys come from a variable or a file, not from both")
    if variable:
        text = os.environ.get(variable)
        if text is None:
            raise ConfigError(f"keys are to come from the environment variable {variable}, which is not set")
        return KeyRing.parse(text, variable)
    if path:
        return KeyRing.parse(_read(path), path)
    return None


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(KEY_FILE_SIZE + 1)
    except OSError as error:
        raise ConfigError(f"keys cannot be read: {error.strerror}", path) from None
    if len(data) > KEY_FILE_SIZE:
        raise ConfigError(f"a file of keys has at most {KEY_FILE_SIZE} bytes", path)
    try:
        return data.decode("ascii")
    except UnicodeDecodeError:
        raise ConfigError("a file of keys is ASCII text", path) from None
