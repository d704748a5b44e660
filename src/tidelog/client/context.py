"""Contexts: named ways to reach a server, kept on disk as the `nats` command keeps them, and shared with it.

    <root>/nats/context/<name>.json     one document per context
    <root>/nats/context.txt             the name of the selected one
    <root>/nats/previous-context.txt    the one selected before

`root` is $XDG_CONFIG_HOME, or ~/.config. Files are written beside their place and moved there, readable by
their owner only. Fields of the document that mean nothing to us are kept as they are. File names in it may
begin with `~` and hold environment variables. `nsc` names a user in the store of the `nsc` command, which is
asked when it is resolved.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tidelog.base.errors import ClientError

_PATHS = ("creds", "nkey", "cert", "key", "ca")
_NSC_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Context:
    """The fields are those of the document; empty means not set. `other` holds what is not ours."""

    name: str
    description: str = ""
    url: str = ""
    token: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    user_jwt: str = field(default="", repr=False)
    creds: str = ""
    nkey: str = ""
    cert: str = ""
    key: str = ""
    ca: str = ""
    nsc: str = ""
    tls_first: bool = False
    inbox_prefix: str = ""
    jetstream_domain: str = ""
    jetstream_api_prefix: str = ""
    jetstream_event_prefix: str = ""
    other: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def document(self) -> dict[str, Any]:
        """As it stands in the file."""
        return {key: getattr(self, key) for key in DOCUMENT_FIELDS} | dict(self.other)

    def resolved(self) -> "Context":
        """Ready for use: file names expanded, `nsc` asked. Raises ClientError."""
        paths = {key: os.path.expandvars(os.path.expanduser(getattr(self, key))) for key in _PATHS}
        found = replace(self, **paths)
        return _ask_nsc(found) if found.nsc else found


DOCUMENT_FIELDS = tuple(each.name for each in fields(Context) if each.name not in ("name", "other"))


class ContextStore:
    """The contexts below one root directory."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or default_root()) / "nats"

    def names(self) -> list[str]:
        try:
            paths = list((self.root / "context").glob("*.json"))
        except OSError:
            return []
        return sorted(path.stem for path in paths if path.is_file() and path.stat().st_size)

    def path(self, name: str) -> Path:
        if not name or ".." in name or "/" in name or os.sep in name:
            raise ClientError(f"invalid context name {name!r}")
        return self.root / "context" / f"{name}.json"

    def load(self, name: str) -> Context:
        """Raises ClientError when there is none, or it cannot be read."""
        path = self.path(name)
        try:
            document = json.loads(path.read_text())
        except FileNotFoundError:
            raise ClientError(f"unknown context {name!r}") from None
        except (OSError, ValueError) as error:
            raise ClientError(f"{path}: {error}") from error
        if not isinstance(document, dict):
            raise ClientError(f"{path}: not a JSON object")
        known: dict[str, Any] = {}
        for key in DOCUMENT_FIELDS:
            value = document.pop(key, None)
            if value is None:
                continue
            if not isinstance(value, bool if key == "tls_first" else str):
                raise ClientError(f"{path}: {key} is not a {'bool' if key == 'tls_first' else 'string'}")
            known[key] = value
        return Context(name=name, other=document, **known)

    def save(self, context: Context) -> Path:
        path = self.path(context.name)
        self._write(path, json.dumps(context.document(), indent=2) + "\n")
        return path

    def remove(self, name: str) -> None:
        """Raises ClientError when there is none, or it is the selected one."""
        if name == self.selected():
            raise ClientError(f"context {name!r} is the selected one: select another first")
        try:
            self.path(name).unlink()
        except FileNotFoundError:
            raise ClientError(f"unknown context {name!r}") from None

    def selected(self) -> str:
        """Empty when none is."""
        return self._read("context.txt")

    def previous(self) -> str:
        return self._read("previous-context.txt")

    def select(self, name: str) -> None:
        if not self.path(name).is_file():
            raise ClientError(f"unknown context {name!r}")
        before = self.selected()
        if before and before != name:
            self._write(self.root / "previous-context.txt", before)
        self._write(self.root / "context.txt", name)

    def unselect(self) -> None:
        (self.root / "context.txt").unlink(missing_ok=True)

    def _read(self, name: str) -> str:
        try:
            return (self.root / name).read_text().strip()
        except OSError:
            return ""

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        draft.replace(path)


def default_root() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _ask_nsc(context: Context) -> Context:
    command = shutil.which("nsc")
    if command is None:
        raise ClientError(f"context {context.name!r} needs the `nsc` command, which is not on PATH")
    asked = [command, "generate", "profile", context.nsc]
    try:
        done = subprocess.run(asked, capture_output=True, timeout=_NSC_TIMEOUT_S, check=True)
        profile = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ClientError(f"context {context.name!r}: nsc does not know {context.nsc!r}") from error
    services = (profile.get("operator") or {}).get("service") or []
    return replace(
        context,
        creds=context.creds or profile.get("user_creds", ""),
        url=context.url or ",".join(services),
    )
