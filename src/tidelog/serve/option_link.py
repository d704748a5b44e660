"""Imports and exports between accounts: checked for shape and for the names in them, and warned about.

Accounts are isolated subject spaces until these are built, so to overlook them only grants less.
"""

from tidelog.base.errors import ConfigError
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
from tidelog.subject.pattern import is_valid_literal

RESPONSE_TYPES = {"single", "singleton", "stream", "chunk", "chunked"}


def link_reader(key: str, account: str, findings: Findings) -> Reader:
    """Of the list under `key`, which is `imports` or `exports`."""
    noun = key.capitalize()

    def read(node: Node) -> None:
        for item in list_of(node, f"{noun} should be an array"):
            try:
                tree = table_of(item, f"{noun[:-1]} Items should be a map with type entry")
                check_export(item, tree, findings) if key == "exports" else check_import(item, tree, findings)
            except ConfigError as error:
                findings.add(error)
        if node.value:
            findings.not_built(node, f"'{key}' of account {quoted(account)}")

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


def check_export(node: Node, tree: Tree, findings: Findings) -> None:
    found = read_section(tree, EXPORT_TABLE, findings)
    if "stream" in found and "service" in found:
        raise fault(node, f"Detected service {quoted(found['service'])} but already saw a stream")
    for name in ("response", "threshold", "latency", "allow_trace"):
        if "stream" in found and name in found:
            place = (value for key, value in tree.items() if EXPORT_TABLE[key.lower()][0] == name)
            raise fault(next(place), f"Detected {name} directive on non-service")


def check_import(node: Node, tree: Tree, findings: Findings) -> None:
    def source(value: Node) -> str:
        section = table_of(value, "Import entry should be an account map")
        found = read_section(section, {"account": ("account", text), "subject": ("subject", text)}, findings)
        if not found.get("account") or not found.get("subject"):
            raise fault(value, "Expect an account name and a subject")
        return str(found["account"])

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
