"""Imports and exports between accounts: their shape, the names in them, and whether who imports something may.

Latencies, thresholds, traces and tokens in subjects are checked for shape and not built: to overlook them only grants
less.
"""

from collections.abc import Iterable
from typing import Any

from tidelog.base.errors import ConfigError
from tidelog.broker.settings import AccountSettings, Export, Import
from tidelog.serve.conf import Node, Tree
from tidelog.serve.field import (
    UNKEPT,
    Findings,
    Reader,
    Table,
    aliases,
    boolean,
    duration_ns,
    fault,
    integer,
    list_of,
    quoted,
    read_section,
    strings,
    table_of,
    text,
)
from tidelog.subject.pattern import is_subset, is_valid_literal, is_valid_subject, overlaps

SINGLE = {"single", "singleton"}
RESPONSE_TYPES = SINGLE | {"stream", "chunk", "chunked"}


def link_reader(key: str, findings: Findings) -> Reader:
    """Of the list under `key`, which is `imports` or `exports`."""
    noun = key.capitalize()

    def read(node: Node) -> tuple[Export | Import, ...]:
        links: list[Export | Import] = []
        for item in list_of(node, f"{noun} should be an array"):
            try:
                tree = table_of(item, f"{noun[:-1]} Items should be a map with type entry")
                make = make_export if key == "exports" else make_import
                links.append(make(item, tree, findings))
            except ConfigError as error:
                findings.add(error)
        return tuple(links)

    return read


def response_type(node: Node) -> str:
    word = text(node)
    if word.lower() not in RESPONSE_TYPES:
        raise fault(node, f"Unknown response type: {quoted(word)}")
    return word


def threshold_ns(node: Node) -> int:
    return duration_ns(node, "response threshold")


def latency_subject(node: Node) -> str:
    """Where measurements go: a subject, or a map of it and a sampling."""
    parts = {"subject": node}
    if not isinstance(node.value, str):
        tree = table_of(node, "Expected latency entry to be a map/struct or string")
        parts = {key.lower(): value for key, value in tree.items()}
    if "subject" not in parts:
        raise fault(node, "Latency subject required, but missing")
    sampling = parts.get("sampling", Node(100, "", 0, 0))
    share = str(sampling.value).removesuffix("%")
    if share.lower() != "headers" and not (share.isdecimal() and 1 <= int(share) <= 100):
        raise fault(sampling, "bad sampling percentage, should be 1-100")
    subject = text(parts["subject"])
    if not is_valid_literal(subject.encode("utf-8", "surrogateescape")):
        about = f"Error adding service latency sampling on subject {quoted(subject)}"
        raise fault(node, f"{about}: invalid publish subject")
    return subject


EXPORT_TABLE: Table = {
    "stream": ("stream", text),
    "service": ("service", text),
    "accounts": ("accounts", strings("accounts")),
    **aliases("response response_type", "response", response_type),
    **aliases("threshold response_threshold response_max_time response_time", "threshold", threshold_ns),
    "latency": ("latency", latency_subject),
    "account_token_position": (UNKEPT, integer),
    "allow_trace": ("allow_trace", boolean),
}


def make_export(node: Node, tree: Tree, findings: Findings) -> Export:
    found = read_section(tree, EXPORT_TABLE, findings)
    if "stream" in found and "service" in found:
        raise fault(node, f"Detected service {quoted(found['service'])} but already saw a stream")
    for name in ("response", "threshold", "latency", "allow_trace"):
        if "stream" in found and name in found:
            place = (value for key, value in tree.items() if EXPORT_TABLE[key.lower()][0] == name)
            raise fault(next(place), f"Detected {name} directive on non-service")
    kind = "service" if "service" in found else "stream"
    subject = found.get(kind, "")
    if not is_valid_subject(subject.encode("utf-8", "surrogateescape")):
        raise fault(node, f"Error adding {kind} export {quoted(subject)}: invalid subject")
    return Export(
        subject,
        service=kind == "service",
        accounts=tuple(found["accounts"]) if "accounts" in found else None,
        many_answers=found.get("response", "single").lower() not in SINGLE,
    )


def make_import(node: Node, tree: Tree, findings: Findings) -> Import:
    def source(value: Node) -> dict[str, Any]:
        section = table_of(value, "Import entry should be an account map")
        found = read_section(section, {"account": ("account", text), "subject": ("subject", text)}, findings)
        if not found.get("account") or not found.get("subject"):
            raise fault(value, "Expect an account name and a subject")
        return found

    table: Table = {
        "stream": ("stream", source),
        "service": ("service", source),
        "prefix": ("prefix", text),
        "to": ("to", text),
        "share": (UNKEPT, boolean),
        "allow_trace": ("allow_trace", boolean),
    }
    found = read_section(tree, table, findings)
    if "stream" in found and "service" in found:
        raise fault(node, "Detected service but already saw a stream")
    if "stream" in found and "prefix" in found and "to" in found:
        raise fault(node, "Stream import can not have a 'prefix' and a 'to' property")
    if "service" in found and "allow_trace" in found:
        raise fault(node, "Detected allow_trace directive on a non-stream")
    kind = "service" if "service" in found else "stream"
    wanted = found.get(kind)
    if wanted is None:
        raise fault(node, "Expect an account name and a subject")
    local = found.get("to", "")
    if not local and found.get("prefix"):
        local = f"{found['prefix'].removesuffix('.')}.{wanted['subject']}"
    return Import(wanted["subject"], wanted["account"], service=kind == "service", local=local)


def check_links(tree: Tree, names: set[str], findings: Findings) -> None:
    """That imports and exports, whose shape is good, name accounts that exist."""
    for account in tree.values():
        if account.used or not isinstance(account.value, dict):
            continue
        for key, node in account.value.items():
            if key.lower() in ("imports", "exports"):
                for item in list_of(node):
                    check_names(key.lower(), table_of(item), names, findings)


def check_names(key: str, link: Tree, names: set[str], findings: Findings) -> None:
    parts = {name.lower(): node for name, node in link.items()}
    side = "service" if "service" in parts else "stream"
    if key == "exports":
        mentioned = strings("accounts")(parts["accounts"]) if "accounts" in parts else ()
    else:
        source = table_of(parts[side]) if side in parts else {}
        mentioned = tuple(text(node) for name, node in source.items() if name.lower() == "account")
    for name in mentioned:
        if name not in names:
            about = f"{quoted(name)} account not defined for {side} {key[:-1]}"
            findings.add(fault(parts.get("accounts", parts.get(side, Node("", "", 0, 0))), about))


def check_rights(node: Node, accounts: Iterable[AccountSettings], findings: Findings) -> None:
    """That whatever is imported is exported to whoever imports it, and can be known there as it says."""
    by_name = {account.name: account for account in accounts}
    for account in by_name.values():
        taken: dict[str, Import] = {}
        for wanted in account.imports:
            about = f"Error adding {kind_of(wanted)} import {quoted(wanted.subject)}"
            if not may_import(by_name[wanted.account], account.name, wanted):
                findings.add(fault(node, f"{about}: {kind_of(wanted)} import not authorized"))
                continue
            trouble = untranslatable(wanted)
            if trouble:
                findings.add(fault(node, f"{about}: {trouble}"))
            elif wanted.service and in_a_circle(by_name, account.name, wanted):
                findings.add(fault(node, f"{about}: import forms a cycle"))
            subject = wanted.local or wanted.subject
            before = taken.setdefault(subject, wanted) if wanted.service else wanted
            if before is not wanted:
                findings.add(
                    fault(
                        node,
                        f"Duplicate service import subject {quoted(subject)}, "
                        f"previously used in import for account {quoted(before.account)}, "
                        f"subject {quoted(before.subject)}",
                    )
                )


def kind_of(link: Export | Import) -> str:
    return "service" if link.service else "stream"


def may_import(exporter: AccountSettings, name: str, wanted: Import) -> bool:
    return any(
        export.service == wanted.service
        and (export.accounts is None or name in export.accounts)
        and is_subset(wanted.subject.encode(), export.subject.encode())
        for export in exporter.exports
    )


def untranslatable(wanted: Import) -> str:
    """Why the subject cannot be known under the other one; empty: it can."""
    # Only configurations with imports pay for what this imports.
    from tidelog.subject.transform import Transform, TransformError, numbered

    if not wanted.local:
        return ""
    pair = (wanted.local, wanted.subject) if wanted.service else (wanted.subject, wanted.local)
    try:
        Transform(pair[0].encode(), numbered(pair[1].encode()), lambda _: 0, strict=True)
    except TransformError as error:
        names = " to ".join(map(quoted, pair))
        return (
            f"failed to create mapping transform for {kind_of(wanted)} import subject from {names}: {error}"
        )
    return ""


def in_a_circle(accounts: dict[str, AccountSettings], name: str, wanted: Import) -> bool:
    """Whether a request may come back to who sent it."""
    asked = [(wanted.account, wanted.subject)]
    seen = set(asked)
    while asked:
        there, subject = asked.pop()
        if there == name:
            return True
        for further in accounts[there].imports:
            local = (further.local or further.subject).encode()
            step = (further.account, further.subject)
            if further.service and overlaps(local, subject.encode()) and step not in seen:
                seen.add(step)
                asked.append(step)
    return False
