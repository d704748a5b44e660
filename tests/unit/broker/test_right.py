"""Rights: each expectation was seen at nats-server 2.15.1, unless a test says that we are stricter."""

import pytest

from tidelog.base.errors import ConfigError
from tidelog.base.limits import RIGHTS_CACHE_ENTRIES, RIGHTS_CACHE_SUBJECT_SIZE
from tidelog.broker.right import Rights
from tidelog.broker.settings import Permissions, ResponseRights, SubjectRights


def publisher(
    allow: list[str] | None = None, deny: tuple[str, ...] = (), *, responses: bool = False
) -> Rights:
    lists = SubjectRights(None if allow is None else tuple(allow), deny)
    return Rights(Permissions(publish=lists, responses=ResponseRights() if responses else None))


def subscriber(allow: list[str] | None = None, deny: tuple[str, ...] = ()) -> Rights:
    return Rights(Permissions(subscribe=SubjectRights(None if allow is None else tuple(allow), deny)))


def test_no_lists_allow_everything() -> None:
    rights = Rights(Permissions())
    assert rights.publish_is_free
    assert rights.may_publish(b"a")
    assert rights.may_subscribe(b">", None)
    assert not rights.filters_delivery(b">", None)
    assert rights.may_receive(b"a", None)
    assert rights.responses is None


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        (b"foo.a", True),
        (b"foo.>", True),
        (b"foo.*", True),
        (b"foo.", False),
        (b"foo", False),
        (b"foo.a.b", False),
        (b">", False),
    ],
)
def test_publish_allow(subject: bytes, allowed: bool) -> None:
    assert publisher(["foo.*"]).may_publish(subject) is allowed


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [
        (b"foo.a", False),
        (b"foo.>", False),
        (b"foo.*", False),
        (b"foo.a.b", True),
        (b"foo..a", True),
        (b"bar", True),
    ],
)
def test_publish_deny(subject: bytes, allowed: bool) -> None:
    rights = publisher(deny=("foo.*",))
    assert not rights.publish_is_free
    assert rights.may_publish(subject) is allowed
    assert rights.may_publish(subject) is allowed, "a remembered answer is the same"


def test_deny_overrules_allow() -> None:
    rights = publisher(["foo.>", "bar"], ("foo.secret.>", "bar"))
    assert rights.may_publish(b"foo.open")
    assert not rights.may_publish(b"foo.secret.x")
    assert not rights.may_publish(b"bar")


def test_an_empty_allow_list_allows_nothing() -> None:
    assert not publisher([]).may_publish(b"a")
    assert not subscriber([]).may_subscribe(b"a", None)


def test_allow_responses_turns_blanket_publish_off() -> None:
    assert not publisher(responses=True).may_publish(b"foo")
    assert not publisher(deny=("x",), responses=True).may_publish(b"foo")
    assert publisher(["foo"], responses=True).may_publish(b"foo")
    assert publisher(responses=True).may_subscribe(b">", None)


def test_zero_responses_mean_the_default() -> None:
    assert Rights(Permissions(responses=ResponseRights(0, 0))).responses == ResponseRights()
    assert Rights(Permissions(responses=ResponseRights(-1, 5))).responses == ResponseRights(-1, 5)


@pytest.mark.parametrize(
    ("allow", "allowed", "refused"),
    [
        ("foo.*", [b"foo.*", b"foo.bar"], [b">", b"*.>", b"foo", b"foo.*.>", b"foo.*.*"]),
        ("foo.>", [b"foo.>", b"foo.*", b"foo.bar", b"foo.*.>", b"foo.*.*"], [b">", b"*.>", b"foo"]),
        ("foo.*.>", [b"foo.*.>", b"foo.*.*"], [b"foo.>", b"foo.*", b">", b"foo.bar", b"foo"]),
    ],
)
def test_subscribe_allow(allow: str, allowed: list[bytes], refused: list[bytes]) -> None:
    rights = subscriber([allow])
    for subject in allowed:
        assert rights.may_subscribe(subject, None), subject
        assert rights.may_subscribe(subject, b"q"), subject
    for subject in refused:
        assert not rights.may_subscribe(subject, None), subject
        assert not rights.may_subscribe(subject, b"q"), subject


def test_a_star_does_not_allow_to_subscribe_to_the_rest() -> None:
    # The peer allows it, and so gives away foo.a.b to one who may have foo.* only.
    assert not subscriber(["foo.*"]).may_subscribe(b"foo.>", None)
    assert not subscriber(["*"]).may_subscribe(b">", None)


@pytest.mark.parametrize(
    ("deny", "allowed", "refused"),
    [
        ("foo.*", [b">", b"*.>", b"foo", b"foo.*.>", b"foo.*.*"], [b"foo.>", b"foo.*", b"foo.bar"]),
        ("foo.>", [b">", b"*.>", b"foo"], [b"foo.>", b"foo.*", b"foo.bar", b"foo.*.>", b"foo.*.*"]),
        ("foo.bar", [b"foo.>", b"foo.*", b">", b"*.>", b"foo", b"foo.*.>"], [b"foo.bar"]),
    ],
)
def test_subscribe_deny(deny: str, allowed: list[bytes], refused: list[bytes]) -> None:
    rights = subscriber(deny=(deny,))
    for subject in allowed:
        assert rights.may_subscribe(subject, None), subject
    for subject in refused:
        assert not rights.may_subscribe(subject, None), subject
        assert not rights.may_subscribe(subject, b"q"), subject


@pytest.mark.parametrize(
    ("allow", "subject", "queue", "allowed"),
    [
        (["foo q1", "bar"], b"foo", None, False),
        (["foo q1", "bar"], b"foo", b"q1", True),
        (["foo q1", "bar"], b"foo", b"q2", False),
        (["foo q1", "bar"], b"bar", None, True),
        (["foo q1", "bar"], b"bar", b"q", True),
        (["foo *.dev", "foo x"], b"foo", b"a.dev", True),
        (["foo *.dev", "foo x"], b"foo", b"*.dev", True),
        (["foo *.dev", "foo x"], b"foo", b"x", True),
        (["foo *.dev", "foo x"], b"foo", b"a.b", False),
        (["foo", "foo v1"], b"foo", None, True),
        (["foo", "foo v1"], b"foo", b"v1", True),
        (["foo", "foo v1"], b"foo", b"q2", False),
        (["foo >"], b"foo", b"any.thing", True),
    ],
)
def test_queue_entries_that_allow(
    allow: list[str], subject: bytes, queue: bytes | None, allowed: bool
) -> None:
    assert subscriber(allow).may_subscribe(subject, queue) is allowed


@pytest.mark.parametrize(
    ("subject", "queue", "allowed"),
    [
        (b"foo", None, True),
        (b"foo", b"v1", False),
        (b"foo", b"q2", True),
        (b"bar", None, False),
        (b"bar", b"q", False),
        (b">", None, True),
        (b">", b"v1", True),
    ],
)
def test_queue_entries_that_deny(subject: bytes, queue: bytes | None, allowed: bool) -> None:
    assert subscriber(deny=("foo v1", "bar")).may_subscribe(subject, queue) is allowed


def test_what_a_deny_covers_is_left_out_at_delivery() -> None:
    rights = subscriber(deny=("foo.>",))
    assert rights.filters_delivery(b"*.bar", None)
    assert rights.filters_delivery(b"*.*", b"q")
    assert not rights.filters_delivery(b"*", None)
    assert not rights.filters_delivery(b"bar.*", None)
    assert not rights.filters_delivery(b"bar", None)
    for _ in range(2):
        assert not rights.may_receive(b"foo.bar", None)
        assert rights.may_receive(b"a.bar", None)


def test_a_deny_for_a_queue_group_filters_that_group_only() -> None:
    rights = subscriber(deny=("foo *.x",))
    assert rights.filters_delivery(b">", b"a.x")
    assert not rights.may_receive(b"foo", b"a.x")
    for queue in (None, b"b"):
        assert not rights.filters_delivery(b">", queue)
        assert rights.may_receive(b"foo", queue)


@pytest.mark.parametrize("entry", ["", "a..b", "a.>.b", "a b"])
def test_a_bad_publish_entry_is_refused_with_its_text(entry: str) -> None:
    for lists in (SubjectRights((entry,)), SubjectRights(deny=(entry,))):
        with pytest.raises(ConfigError, match="not a valid subject"):
            Rights(Permissions(publish=lists))


@pytest.mark.parametrize("entry", ["", "a..b", "a b..c", "a b c"])
def test_a_bad_subscribe_entry_is_refused_with_its_text(entry: str) -> None:
    for lists in (SubjectRights((entry,)), SubjectRights(deny=(entry,))):
        with pytest.raises(ConfigError, match="not a valid subject"):
            Rights(Permissions(subscribe=lists))


def test_remembered_answers_are_bounded() -> None:
    rights = Rights(Permissions(SubjectRights(("a.>",)), SubjectRights(deny=("a.>",))))
    for number in range(RIGHTS_CACHE_ENTRIES + 10):
        assert rights.may_publish(b"a.%d" % number)
        assert not rights.may_receive(b"a.%d" % number, None)
    long = b"a." + b"x" * (RIGHTS_CACHE_SUBJECT_SIZE - 1)
    assert rights.may_publish(long)
    assert not rights.may_receive(long, None)
    assert len(rights._publishable) == 10
    assert len(rights._receivable) == 10


def test_thousands_of_entries_answer_as_one() -> None:
    rights = publisher(
        [f"a.{number}.*" for number in range(5000)] + [f"*.b.{number}" for number in range(5000)]
    )
    assert rights.may_publish(b"a.4999.x")
    assert rights.may_publish(b"zz.b.4999")
    assert not rights.may_publish(b"a.5000.x")
    assert not rights.may_publish(b"zz.b.5000")
