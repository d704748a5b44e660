"""Accounts: the `accounts` block, what stands in each, and subject mappings.

Users of all accounts stand in one list, each with the name of its account and with its permissions resolved.
What only grants more and is not built yet (message traces) is checked for shape and warned about.
"""

from dataclasses import replace

from tidelog.base.errors import ConfigError
from tidelog.broker.settings import GLOBAL_ACCOUNT, AccountSettings, Mapping, StreamLimits, User
from tidelog.serve.conf import Node, Tree
from tidelog.serve.field import (
    UNKEPT,
    Findings,
    Reader,
    Table,
    aliases,
    boolean,
    fault,
    integer,
    quoted,
    read_section,
    table_of,
    text,
)
from tidelog.serve.option_link import check_links, check_rights, link_reader
from tidelog.serve.option_user import permissions_reader, users_reader, valid_subject, with_defaults
from tidelog.subject.pattern import is_valid_literal

# A user and the place to complain about it.
PlacedUser = tuple[User, Node]

LIMIT_TABLE: Table = {
    **aliases("max_connections max_conn", "max_connections", integer),
    **aliases("max_subscriptions max_subs", "max_subscriptions", integer),
    **aliases("max_payload max_pay", "max_payload", integer),
    **aliases("max_leafnodes max_leafs", UNKEPT, integer),
}


def read_accounts(
    node: Node, findings: Findings
) -> tuple[tuple[AccountSettings, ...], tuple[PlacedUser, ...]]:
    """The accounts and their users, from a list of names or a map."""
    if isinstance(node.value, list):
        return read_account_names(node.value, findings), ()
    if not isinstance(node.value, dict):
        return (), ()
    accounts: list[AccountSettings] = []
    users: list[PlacedUser] = []
    for name, value in node.value.items():
        try:
            if value.used:
                continue
            if not isinstance(value.value, dict):
                raise fault(value, "Expected map entries for accounts")
            check_account_name(value, name)
            account, members = read_account(name, value.value, findings)
            accounts.append(account)
            place = next((node for key, node in value.value.items() if key.lower() == "users"), value)
            users.extend((user, place) for user in members)
        except ConfigError as error:
            findings.add(error)
    if not findings.errors:
        check_links(node.value, {account.name for account in accounts}, findings)
    if not findings.errors:
        check_rights(node, accounts, findings)
    return tuple(accounts), tuple(users)


def read_account_names(items: list[Node], findings: Findings) -> tuple[AccountSettings, ...]:
    names: dict[str, AccountSettings] = {}
    for item in items:
        try:
            name = text(item)
            check_account_name(item, name)
            if name in names:
                raise fault(item, f"Duplicate Account Entry: {name}")
            names[name] = AccountSettings(name)
        except ConfigError as error:
            findings.add(error)
    return tuple(names.values())


def check_account_name(node: Node, name: str) -> None:
    if name == GLOBAL_ACCOUNT:
        raise fault(node, f"{quoted(name)} is a Reserved Account")


def read_account(name: str, tree: Tree, findings: Findings) -> tuple[AccountSettings, tuple[User, ...]]:
    def limits(node: Node) -> dict[str, int]:
        section = table_of(node, "Expected account limits to be a map/struct")
        return read_section(section, LIMIT_TABLE, findings, "Unknown field {} parsing account limits")

    def trace(node: Node) -> None:
        check_trace(node, findings)
        findings.not_built(node, f"the message trace of account {quoted(name)}")

    table: Table = {
        "nkey": (UNKEPT, check_account_key),
        "users": ("users", users_reader(findings)),
        "default_permissions": ("default_permissions", permissions_reader(findings)),
        **aliases("mappings maps", "mappings", mappings_reader(findings)),
        "limits": ("limits", limits),
        "imports": ("imports", link_reader("imports", findings)),
        "exports": ("exports", link_reader("exports", findings)),
        "jetstream": ("streams", lambda node: read_stream_limits(node, findings)),
        **aliases("msg_trace trace_dest", UNKEPT, trace),
    }
    found = read_section(tree, table, findings)
    users: tuple[User, ...] = found.pop("users", ())
    members = with_defaults(users, found.get("default_permissions"))
    account = AccountSettings(name, **found.pop("limits", {}), **found)
    return account, tuple(replace(user, account=name) for user in members)


def check_account_key(node: Node) -> None:
    # Only configurations with keys pay for what this imports.
    from tidelog.broker.nkey import Kind, is_public

    if not isinstance(node.value, str) or not is_public(node.value, Kind.ACCOUNT):
        raise fault(node, f"Not a valid public nkey for an account: {quoted(str(node.value))}")


# -- shapes of what is not built --


def enabled_word(node: Node) -> bool:
    word = text(node)
    if word.lower() in ("enabled", "enable"):
        return True
    if word.lower() in ("disabled", "disable"):
        return False
    raise fault(node, f"Expected 'enabled' or 'disabled' for string value, got '{word}'")


def read_stream_limits(node: Node, findings: Findings) -> StreamLimits | None:
    """The `jetstream` entry of an account: a switch, or a map of limits, which switches on."""

    def size(value: Node) -> int:
        if isinstance(value.value, bool) or not isinstance(value.value, int):
            raise fault(value, "Expected a parseable size")
        return value.value

    table: Table = {
        **aliases("max_memory max_mem mem memory", "max_memory", size),
        **aliases("max_store max_file max_disk store disk", "max_storage", size),
        **aliases("max_streams streams", "max_streams", size),
        **aliases("max_consumers consumers", "max_consumers", size),
        "max_ack_pending": ("max_ack_pending", size),
        **aliases("mem_max_stream_bytes memory_max_stream_bytes", "memory_max_stream_bytes", size),
        **aliases("disk_max_stream_bytes store_max_stream_bytes", "storage_max_stream_bytes", size),
        **aliases("max_bytes_required max_stream_bytes max_bytes", "max_bytes_required", boolean),
        "cluster_traffic": (UNKEPT, text),
    }
    if isinstance(node.value, str):
        return StreamLimits() if enabled_word(node) else None
    if isinstance(node.value, bool):
        return StreamLimits() if node.value else None
    tree = table_of(node, "Expected map, bool or string to define JetStream")
    return StreamLimits(**read_section(tree, table, findings))


def check_trace(node: Node, findings: Findings) -> None:
    """A subject, or a map of `dest` and `sampling`."""

    def destination(value: Node) -> None:
        subject = text(value)
        if not is_valid_literal(in_bytes(subject)):
            raise fault(value, f"Trace destination {quoted(subject)} is not valid")

    def sampling(value: Node) -> None:
        digits = value.value.removesuffix("%") if isinstance(value.value, str) else str(integer(value))
        if not digits.isdecimal() or not 1 <= int(digits) <= 100:
            about = f"Trace destination sampling value {digits} is invalid"
            raise fault(value, f"{about}, needs to be [1..100]")

    if isinstance(node.value, dict):
        table: Table = {"dest": (UNKEPT, destination), "sampling": (UNKEPT, sampling)}
        read_section(node.value, table, findings, "Unknown field {} parsing account message trace")
    else:
        destination(node)


# -- mappings --


def mappings_reader(findings: Findings) -> Reader:
    def read(node: Node) -> tuple[Mapping, ...]:
        mappings: list[Mapping] = []
        for source, value in table_of(node, "Expected mappings to be a map/struct").items():
            try:
                if not valid_subject(source):
                    raise fault(node, f"Subject {quoted(source)} is not a valid subject")
                mappings.extend(read_mapping(source, value))
            except ConfigError as error:
                findings.add(error)
        return tuple(mappings)

    return read


def read_mapping(source: str, node: Node) -> list[Mapping]:
    """A destination, a map of it and its weight, or a list of such maps."""
    # Only configurations with mappings pay for what this imports.
    from tidelog.subject.mapping import SubjectMap
    from tidelog.subject.transform import TransformError

    about = f"Error adding mapping for {quoted(source)}"
    if isinstance(node.value, str):
        mappings = [Mapping(source, node.value)]
        about += f" to {quoted(node.value)}"
    else:
        items = node.value if isinstance(node.value, list) else [node]
        mappings = [read_destination(source, item) for item in items]
    entries = [(in_bytes(source), in_bytes(mapping.destination), mapping.weight) for mapping in mappings]
    try:
        SubjectMap(entries, chance=lambda _bound: 0)  # to see whether it can be made
    except TransformError as error:
        raise fault(node, f"{about} : {error}") from error
    return mappings


def in_bytes(subject: str) -> bytes:
    return subject.encode("utf-8", "surrogateescape")


def read_destination(source: str, node: Node) -> Mapping:
    if not isinstance(node.value, dict):
        raise fault(node, "Expected an entry for the mapping destination")
    destination, weight = "", -1
    for key, value in node.value.items():
        match key.lower():
            case "dest" | "destination":
                destination = text(value)
            case "weight":
                weight = read_weight(value)
            case "cluster":
                raise fault(value, "mapping destinations for a cluster are not supported")
            case _:
                raise fault(value, f"Unknown field {quoted(key)} for mapping destination")
    if weight < 0:
        raise fault(node, f"Missing weight for mapping destination {quoted(destination)}")
    return Mapping(source, destination, weight)


def read_weight(node: Node) -> int:
    if isinstance(node.value, str):
        digits = node.value.removesuffix("%")
        if not digits.removeprefix("-").isdecimal():
            raise fault(node, f"Invalid weight {quoted(digits)} for mapping destination")
        weight = int(digits)
    else:
        weight = integer(node)
    if not 0 <= weight <= 100:
        raise fault(node, f"Invalid weight {weight} for mapping destination")
    return weight
