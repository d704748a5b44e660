"""Message ids: found within the window, forgotten behind it, as a dictionary with times would."""

from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.limits import DEDUPE_ROOM_FIRST, DEDUPE_TABLE_FIRST
from tidelog.stream.dedupe import Dedupe


def test_an_id_is_found_until_the_window_is_over_and_not_then() -> None:
    dedupe = Dedupe(100)
    dedupe.remember(b"x", 7, 1000)
    assert dedupe.seen(b"x", 1000) == 7
    assert dedupe.seen(b"y", 1000) == 0
    assert dedupe.seen(b"x", 1099) == 7
    assert dedupe.seen(b"x", 1100) == 0
    assert dedupe.kept == dedupe.count == 0


def test_the_newest_message_of_an_id_counts() -> None:
    dedupe = Dedupe(100)
    dedupe.remember(b"x", 1, 1000)
    dedupe.remember(b"x", 2, 1050)
    assert dedupe.seen(b"x", 1120) == 2
    assert dedupe.seen(b"x", 1150) == 0


def test_a_smaller_window_forgets_at_once_and_none_notes_nothing() -> None:
    dedupe = Dedupe(100)
    dedupe.remember(b"x", 1, 1000)
    dedupe.set_window(10)
    assert dedupe.seen(b"x", 1010) == 0
    dedupe.set_window(0)
    dedupe.remember(b"y", 2, 1010)
    assert dedupe.kept == 0


def test_more_ids_than_the_first_room_and_table_hold() -> None:
    dedupe = Dedupe(10**9)
    many = max(DEDUPE_TABLE_FIRST, DEDUPE_ROOM_FIRST) * 2
    for number in range(many):
        dedupe.remember(b"id-%d" % number, number + 1, number)
    assert dedupe.count == many
    assert all(dedupe.seen(b"id-%d" % number, many) == number + 1 for number in range(many))


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 30), st.booleans()), max_size=300),
    st.integers(1, 200),
)
def test_it_answers_as_a_dictionary_with_times_would(
    steps: list[tuple[int, int, bool]], window_ns: int
) -> None:
    """STREAM-3"""
    dedupe, model, now_ns = Dedupe(window_ns), dict[bytes, tuple[int, int]](), 0
    for seq, (number, pause_ns, writes) in enumerate(steps, 1):
        now_ns += pause_ns
        id = b"%d" % number * (1 + number % 7 * 50)
        if writes:
            dedupe.remember(id, seq, now_ns)
            model[id] = (seq, now_ns)
        known = model.get(id)
        wanted = known[0] if known and now_ns - known[1] < window_ns else 0
        assert dedupe.seen(id, now_ns) == wanted
    assert dedupe.count == sum(now_ns - ts_ns < window_ns for _, ts_ns in model.values()) or not steps
