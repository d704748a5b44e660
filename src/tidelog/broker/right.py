"""What one user may publish, subscribe to and receive: `Permissions`, compiled.

Rules, as the peer has them:

- No allow list means everything, an empty one nothing. A deny overrules. With `allow_responses` and no list
  of what may be published, nothing may be published but responses (`broker.reply` keeps account of those).
- A subscription is allowed if an allow entry covers it and no deny entry does. One that is wider than a
  deny is allowed, and what the deny covers is left out at delivery: `filters_delivery` says whether this
  can happen, and `may_receive` decides for one message.
- An entry `subject queue` holds for members of that queue group only; the group's name may have wildcards.
  Once such entries cover a subject, they alone decide for queue subscriptions on it, beside plain denies.

Stricter than the peer in one point: there `*` in an allow entry also covers a subscribed `>`, so that a
user who may have `a.*` can have `a.b.c` by way of `a.>`. Here it does not; a deny `a.*` still refuses the
subscription `a.>`.

Answers are exact, and cost a walk down a tree of tokens whose size does not depend on the number of
entries; answers about literal subjects are remembered. An instance never changes and is shared by all
connections of a user.
"""

from collections.abc import Iterable

from tidelog.base.errors import ConfigError
from tidelog.base.limits import RIGHTS_CACHE_ENTRIES, RIGHTS_CACHE_SUBJECT_SIZE
from tidelog.broker.settings import Permissions, ResponseRights
from tidelog.subject.pattern import REST, STAR, has_wildcard, is_subset, is_valid_subject

Entry = tuple[bytes, bytes | None]


class Rights:
    """The compiled form of `Permissions`. Raises ConfigError for an entry that is no subject."""

    __slots__ = (
        "_publish_allow",
        "_publish_deny",
        "_publishable",
        "_receivable",
        "_subscribe_allow",
        "_subscribe_deny",
        "permissions",
        "publish_is_free",
        "responses",
    )

    def __init__(self, permissions: Permissions) -> None:
        publish, subscribe = permissions.publish, permissions.subscribe
        self.permissions = permissions
        self.responses = _with_defaults(permissions.responses)
        allowed = publish.allow
        if allowed is None and self.responses is not None:
            allowed = ()
        self._publish_allow = None if allowed is None else EntrySet(map(_publish_entry, allowed))
        self._publish_deny = EntrySet(map(_publish_entry, publish.deny)) if publish.deny else None
        self._subscribe_allow = (
            None if subscribe.allow is None else EntrySet(map(_subscribe_entry, subscribe.allow))
        )
        self._subscribe_deny = EntrySet(map(_subscribe_entry, subscribe.deny)) if subscribe.deny else None
        # The hot path asks nothing if this is true.
        self.publish_is_free = self._publish_allow is None and self._publish_deny is None
        self._publishable: dict[bytes, bool] = {}
        self._receivable: dict[Entry, bool] = {}

    def may_publish(self, subject: bytes) -> bool:
        """Whether the lists allow it. Wildcards are ordinary tokens here; responses are not considered."""
        known = self._publishable.get(subject)
        if known is not None:
            return known
        allowed = self._publish_allow is None or self._publish_allow.covering(subject)[0]
        if allowed and self._publish_deny is not None:
            allowed = not self._publish_deny.covering(subject)[0]
        if len(subject) <= RIGHTS_CACHE_SUBJECT_SIZE:
            if len(self._publishable) >= RIGHTS_CACHE_ENTRIES:
                self._publishable.clear()
            self._publishable[subject] = allowed
        return allowed

    def may_subscribe(self, subject: bytes, queue: bytes | None) -> bool:
        """Whether the subscription may be made at all."""
        if self._subscribe_allow is not None:
            allowed, groups = self._subscribe_allow.covering(subject, exactly=True)
            if queue and groups:
                allowed = _is_in(queue, groups)
            if not allowed:
                return False
        return self._subscribe_deny is None or not self._is_denied(subject, queue)

    def filters_delivery(self, subject: bytes, queue: bytes | None) -> bool:
        """Whether an allowed subscription can meet messages that `may_receive` refuses."""
        return (
            self._subscribe_deny is not None
            and has_wildcard(subject)
            and self._subscribe_deny.overlaps(subject, queue)
        )

    def may_receive(self, subject: bytes, queue: bytes | None) -> bool:
        """Whether a message on the literal `subject` may reach a subscription that filters deliveries."""
        if self._subscribe_deny is None:
            return True
        known = self._receivable.get((subject, queue))
        if known is not None:
            return known
        allowed = not self._is_denied(subject, queue)
        if len(subject) <= RIGHTS_CACHE_SUBJECT_SIZE:
            if len(self._receivable) >= RIGHTS_CACHE_ENTRIES:
                self._receivable.clear()
            self._receivable[subject, queue] = allowed
        return allowed

    def _is_denied(self, subject: bytes, queue: bytes | None) -> bool:
        assert self._subscribe_deny is not None
        denied, groups = self._subscribe_deny.covering(subject)
        return denied or bool(queue and _is_in(queue, groups))


class EntrySet:
    """Subjects, possibly with wildcards, each for everybody or for one queue group."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._root = _Node()
        for subject, queue in entries:
            node = self._root
            for token in subject.split(b"."):
                node = node.children.setdefault(token, _Node())
            if queue is None:
                node.plain = True
            elif queue not in node.groups:
                node.groups.append(queue)

    def covering(self, subject: bytes, *, exactly: bool = False) -> tuple[bool, list[bytes]]:
        """The entries that cover `subject`: whether there is a plain one, and the queue groups of the others.

        Wildcard tokens of `subject` count as tokens. With `exactly`, an entry's `*` does not cover a `>`.
        """
        plain = False
        groups: list[bytes] = []
        tokens = subject.split(b".")
        if b"" in tokens:
            return False, groups
        nodes = [self._root]
        for token in tokens:
            below: list[_Node] = []
            for node in nodes:
                children = node.children
                rest = children.get(REST)
                if rest is not None:
                    plain = plain or rest.plain
                    groups += rest.groups
                star = children.get(STAR)
                if star is not None and not (exactly and token == REST):
                    below.append(star)
                # The wildcards are looked up above, whatever the token is.
                child = children.get(token)
                if child is not None and child is not star and child is not rest:
                    below.append(child)
            if not below:
                return plain, groups
            nodes = below
        for node in nodes:
            plain = plain or node.plain
            groups += node.groups
        return plain, groups

    def overlaps(self, subject: bytes, queue: bytes | None) -> bool:
        """Whether an entry that holds for `queue` has a literal subject in common with `subject`."""
        nodes = [self._root]
        for token in subject.split(b"."):
            if token == REST:
                return any(child.any_below(queue) for node in nodes for child in node.children.values())
            below: list[_Node] = []
            for node in nodes:
                children = node.children
                rest = children.get(REST)
                if rest is not None and rest.holds_for(queue):
                    return True
                if token == STAR:
                    below.extend(child for child in children.values() if child is not rest)
                else:
                    below.extend(children[key] for key in (token, STAR) if key in children)
            nodes = below
        return any(node.holds_for(queue) for node in nodes)


class _Node:
    """One token of the entries; wildcards are children like others."""

    __slots__ = ("children", "groups", "plain")

    def __init__(self) -> None:
        self.children: dict[bytes, _Node] = {}
        self.plain = False
        self.groups: list[bytes] = []

    def holds_for(self, queue: bytes | None) -> bool:
        return self.plain or bool(queue and _is_in(queue, self.groups))

    def any_below(self, queue: bytes | None) -> bool:
        nodes = [self]
        while nodes:
            node = nodes.pop()
            if node.holds_for(queue):
                return True
            nodes.extend(node.children.values())
        return False


def _is_in(queue: bytes, groups: list[bytes]) -> bool:
    # `*` and `>` may also be parts of a group's real name, so that comes first.
    return any(queue == group or (has_wildcard(group) and is_subset(queue, group)) for group in groups)


def _publish_entry(text: str) -> Entry:
    subject = text.encode()
    if not is_valid_subject(subject):
        raise ConfigError(f"{text!r} is not a valid subject to publish to")
    return subject, None


def _subscribe_entry(text: str) -> Entry:
    fields = text.encode().split()
    if len(fields) not in (1, 2) or not all(map(is_valid_subject, fields)):
        raise ConfigError(f"{text!r} is not a valid subject, or subject and queue, to subscribe to")
    return fields[0], fields[1] if len(fields) == 2 else None


def _with_defaults(responses: ResponseRights | None) -> ResponseRights | None:
    """Zero means the default; below zero, no limit."""
    if responses is None:
        return None
    default = ResponseRights()
    return ResponseRights(responses.max_msgs or default.max_msgs, responses.expires_ns or default.expires_ns)
