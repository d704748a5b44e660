"""Who may come in and what they may do: the `authorization` block, users and permissions.

Promises: nothing is taken for less than it says. What would let somebody in, or further, if it were
overlooked is refused: auth callout, `proxy_required`. Every user ends up with the permissions that hold for
it: its own, else the defaults of its block.
"""

from dataclasses import replace
from typing import Any

from tidelog.base.errors import ConfigError
from tidelog.broker.settings import Permissions, ResponseRights, SubjectRights, User
from tidelog.serve.conf import Node
from tidelog.serve.field import (
    SECOND_NS,
    UNKEPT,
    Findings,
    Reader,
    aliases,
    boolean,
    doubt_high_timeout,
    duration_ns,
    fault,
    integer,
    kind,
    list_of,
    quoted,
    read_section,
    strings,
    table_of,
    text,
    timeout_s,
)
from tidelog.subject.pattern import is_valid_subject

CONNECTION_TYPES = frozenset(
    ("STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS")
)


def read_authorization(node: Node, findings: Findings) -> dict[str, Any]:
    """The block as fields of `Authorization`; `users` is absent if the block has none."""

    def timeout_ns(value: Node) -> int:
        seconds = timeout_s("authorization config")(value)
        doubt_high_timeout(value, seconds, findings)
        return round(seconds * SECOND_NS)

    table = {
        **aliases("user username", "user", text),
        **aliases("pass password", "password", text),
        "token": ("token", text),
        "timeout": ("timeout_ns", timeout_ns),
        "users": ("users", users_reader(findings)),
        **aliases(
            "default_permission default_permissions permissions",
            "default_permissions",
            permissions_reader(findings),
        ),
        **aliases("auth_callout auth_hook", UNKEPT, refuse_callout),
        "proxy_required": (UNKEPT, refuse_proxy),
    }
    found = read_section(table_of(node, "Expected authorization to be a map/struct"), table, findings)
    if "users" in found:
        found["users"] = with_defaults(found["users"], found.get("default_permissions"))
    if not found.get("timeout_ns", 1):  # 0 is the default
        del found["timeout_ns"]
    return found


def refuse_callout(node: Node) -> None:
    raise fault(node, "auth_callout is not supported: nobody would be asked whom to let in")


def refuse_proxy(node: Node) -> None:
    if boolean(node):
        raise fault(node, "proxy_required is not supported: clients would come in past the proxy")


# -- users --


def users_reader(findings: Findings) -> Reader:
    def read(node: Node) -> tuple[User, ...]:
        users = []
        for item in list_of(node, "Expected users field to be an array"):
            try:
                users.append(read_user(item, findings))
            except ConfigError as error:
                findings.add(error)
        return tuple(users)

    return read


def with_defaults(users: tuple[User, ...], permissions: Permissions | None) -> tuple[User, ...]:
    return tuple(replace(user, permissions=user.permissions or permissions) for user in users)


def read_user(node: Node, findings: Findings) -> User:
    table = {
        "nkey": ("nkey", text),
        **aliases("user username", "name", text),
        **aliases("pass password", "password", text),
        **aliases("permission permissions authorization", "permissions", permissions_reader(findings)),
        **aliases("allowed_connection_types connection_types clients", "connection_types", connection_types),
        "proxy_required": (UNKEPT, refuse_proxy),
    }
    before = len(findings.errors)
    tree = table_of(node, "Expected user entry to be a map/struct")
    user = User(**read_section(tree, table, findings))
    node = next((value for key, value in tree.items() if key.lower() == "nkey"), node)
    if len(findings.errors) > before:
        return user
    if not user.nkey and not user.name:
        raise fault(node, "User entry requires a user")
    if user.nkey and not is_user_key(user.nkey):
        raise fault(node, "Not a valid public nkey for a user")
    if user.nkey and (user.name or user.password):
        raise fault(node, "Nkey users do not take usernames or passwords")
    return user


def is_user_key(key: str) -> bool:
    # Only configurations with keys pay for what this imports.
    from tidelog.broker.nkey import Kind, is_public

    return is_public(key, Kind.USER)


def connection_types(node: Node) -> frozenset[str] | None:
    names = [name.upper() for name in strings("allowed connection types")(node)]
    unknown = [quoted(name) for name in names if name not in CONNECTION_TYPES]
    if unknown:
        raise fault(node, f"invalid connection types [{' '.join(unknown)}]")
    return frozenset(names) or None


# -- permissions --


def permissions_reader(findings: Findings) -> Reader:
    table = {
        **aliases("pub publish import", "publish", rights_reader(findings, queues=False)),
        **aliases("sub subscribe export", "subscribe", rights_reader(findings, queues=True)),
        **aliases(
            "publish_allow_responses allow_responses",
            "responses",
            lambda node: read_response_rights(node, findings),
        ),
    }

    def read(node: Node) -> Permissions:
        tree = table_of(node, "Expected permissions to be a map/struct")
        permissions = Permissions(
            **read_section(tree, table, findings, "Unknown field {} parsing permissions")
        )
        if permissions.responses is not None and permissions.publish.allow is None:
            # Whoever may answer may publish nothing else, unless told so.
            return replace(permissions, publish=replace(permissions.publish, allow=()))
        return permissions

    return read


def rights_reader(findings: Findings, *, queues: bool) -> Reader:
    """Of one subject, a list of them, or a map of `allow` and `deny`. An empty list restricts nothing."""
    unknown = "Unknown field name {} parsing subject permissions, only 'allow' or 'deny' are permitted"
    table = {
        "allow": ("allow", lambda node: read_subjects(node, queues=queues) or None),
        "deny": ("deny", lambda node: read_subjects(node, queues=queues)),
    }

    def read(node: Node) -> SubjectRights:
        if isinstance(node.value, dict):
            return SubjectRights(**read_section(node.value, table, findings, unknown))
        return SubjectRights(allow=read_subjects(node, queues=queues) or None)

    return read


def read_subjects(node: Node, *, queues: bool) -> tuple[str, ...]:
    if isinstance(node.value, str):
        items = [node]
    elif isinstance(node.value, list):
        items = node.value
    else:
        about = "Expected subject permissions to be a subject, or array of subjects"
        raise fault(node, f"{about}, got {kind(node)}")
    for item in items:
        if not isinstance(item.value, str):
            raise fault(item, "Subject in permissions array cannot be cast to string")
        check_subject(item, item.value, queues=queues)
    return tuple(text(item) for item in items)


def check_subject(node: Node, entry: str, *, queues: bool) -> None:
    if valid_subject(entry):
        return
    parts = entry.split()
    if not queues or len(parts) != 2:
        raise fault(node, f"subject {quoted(entry)} is not a valid subject")
    if not valid_subject(parts[0]):
        raise fault(node, f"subject {quoted(parts[0])} is not a valid subject")
    if not valid_subject(parts[1]):
        raise fault(node, f"queue {quoted(parts[1])} is not a valid queue")


def valid_subject(subject: str) -> bool:
    return is_valid_subject(subject.encode("utf-8", "surrogateescape"))


def read_response_rights(node: Node, findings: Findings) -> ResponseRights | None:
    """True for the defaults, or a map. In it 0 means the default, negative no limit."""
    if isinstance(node.value, bool):
        return ResponseRights() if node.value else None
    if not isinstance(node.value, dict):
        raise fault(node, "error parsing response permissions, expected a boolean or a map")
    table = {
        **aliases("max max_msgs max_messages max_responses", "max_msgs", integer),
        **aliases("expires expiration ttl", "expires_ns", expiry_ns),
    }
    found = read_section(node.value, table, findings, "Unknown field {} parsing permissions")
    return ResponseRights(**{name: value for name, value in found.items() if value})


def expiry_ns(node: Node) -> int:
    if not isinstance(node.value, str):
        raise fault(node, "error parsing expires, not a duration string")
    return duration_ns(node, "expires")
