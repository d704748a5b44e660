"""Publish headers: where they are found, and what a stream makes of them, in which order."""

import pytest

from tidelog.stream.publish import InvalidTtl, cut_line, read_fields, read_sequence, read_ttl, with_line
from unit.stream.shore import Shore, block, contents


@pytest.fixture
def shore() -> Shore:
    return Shore()


# ---- finding ----


def test_names_are_found_by_case_with_their_colon_and_the_first_one_counts() -> None:
    found = read_fields(
        block(
            "nats-msg-id: lower",
            "Nats-Msg-Id2: longer",
            "X: Nats-Msg-Id: inside",
            "Nats-Msg-Id:   padded ",
            "Nats-Msg-Id: second",
            "Nats-TTL:",
            "Nats-Rollup",
        )
    )
    assert found == {b"Nats-Msg-Id": b"padded ", b"Nats-TTL": b""}


@pytest.mark.parametrize("damaged", [b"", b"NATS/1.0", b"NATS/1.0\r\n", b"NATS/1.0\r\nNats-", b"\n\n\n"])
def test_a_block_that_is_none_has_no_fields(damaged: bytes) -> None:
    assert read_fields(damaged) == {}


def test_a_block_without_an_end_is_read_as_far_as_it_goes() -> None:
    assert read_fields(b"NATS/1.0\r\nNats-Msg-Id: x") == {b"Nats-Msg-Id": b"x"}


def test_lines_are_put_in_and_taken_out() -> None:
    assert with_line(b"", b"A", b"1") == block("A: 1")
    assert with_line(block("A: 1"), b"B", b"2") == block("A: 1", "B: 2")
    assert cut_line(block("A: 1", "B: 2"), b"A") == block("B: 2")
    assert cut_line(block("A: 1"), b"A") == b""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(b"5", 5), (b"00", 0), (b"never", -1), (b"NEVER", -1), (b"1s", 1), (b"1m30s", 90), (b"1500ms", 1)],
)
def test_a_time_to_live_is_read(text: bytes, seconds: int) -> None:
    assert read_ttl(text) == seconds


@pytest.mark.parametrize("text", [b"999ms", b"0", b"-1", b"soon", b"1.5", b"\xff"])
def test_what_is_no_time_to_live_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidTtl):
        read_ttl(text)


def test_what_is_no_sequence_is_one_that_never_was() -> None:
    assert read_sequence(b"18") == 18
    assert read_sequence(b"x1") == read_sequence(b"-1") == 2**64 - 1


# ---- expectations ----


def test_the_expected_stream_must_be_this_one(shore: Shore) -> None:
    shore.stream()
    assert shore.publish(b"S.a", Nats_Expected_Stream="S")["seq"] == 1
    assert shore.refused(b"S.a", Nats_Expected_Stream="T") == (10060, "expected stream does not match")


def test_the_expected_last_sequence_must_be_the_last(shore: Shore) -> None:
    shore.stream()
    assert shore.publish(b"S.a", Nats_Expected_Last_Sequence="0")["seq"] == 1
    assert shore.refused(b"S.a", Nats_Expected_Last_Sequence="0") == (10071, "wrong last sequence: 1")
    assert shore.refused(b"S.a", Nats_Expected_Last_Sequence="one") == (10071, "wrong last sequence: 1")
    assert shore.publish(b"S.a", Nats_Expected_Last_Sequence="1")["seq"] == 2


def test_the_expected_last_sequence_of_a_subject_is_that_of_its_newest_message(shore: Shore) -> None:
    shore.stream()
    shore.publish(b"S.a")
    assert shore.publish(b"S.b", Nats_Expected_Last_Subject_Sequence="0")["seq"] == 2
    assert shore.publish(b"S.a", Nats_Expected_Last_Subject_Sequence="1")["seq"] == 3
    assert shore.refused(b"S.a", Nats_Expected_Last_Subject_Sequence="1") == (10071, "wrong last sequence: 3")
    assert shore.refused(b"S.c", Nats_Expected_Last_Subject_Sequence="1") == (10071, "wrong last sequence: 0")


def test_a_message_of_the_same_tick_counts_for_what_is_expected(shore: Shore) -> None:
    shore.stream()
    shore.send(b"S.a", Nats_Expected_Last_Subject_Sequence="0")
    shore.send(b"S.a", Nats_Expected_Last_Subject_Sequence="0")
    shore.engine.commit()
    assert [payload for _, payload in shore.heard] == [
        b'{"stream":"S","seq":1}',
        b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 1"},"stream":"S","seq":0}',
    ]


def test_the_subject_of_the_expected_sequence_may_be_another_and_have_wildcards(shore: Shore) -> None:
    shore.stream()
    shore.publish(b"S.a.1")
    shore.publish(b"S.a.2")
    shore.publish(b"S.b")
    expectation = {
        "Nats_Expected_Last_Subject_Sequence": "2",
        "Nats_Expected_Last_Subject_Sequence_Subject": "S.a.*",
    }
    assert shore.publish(b"S.c", **expectation)["seq"] == 4
    assert shore.publish(b"S.a.1")["seq"] == 5
    assert shore.refused(b"S.c", **expectation) == (10071, "wrong last sequence: 5")
    assert shore.refused(b"S.c", Nats_Expected_Last_Subject_Sequence_Subject="S.a")[0] == 10193


def test_the_expected_last_message_id_is_that_of_the_newest_message(shore: Shore) -> None:
    shore.stream()
    shore.publish(b"S.a", Nats_Msg_Id="one")
    assert shore.publish(b"S.a", Nats_Expected_Last_Msg_Id="one")["seq"] == 2
    assert shore.refused(b"S.a", Nats_Expected_Last_Msg_Id="one") == (10070, "wrong last msg ID: ")
    shore.publish(b"S.a", Nats_Msg_Id="three")
    shore.restart()
    assert shore.refused(b"S.a", Nats_Expected_Last_Msg_Id="one") == (10070, "wrong last msg ID: three")
    assert shore.publish(b"S.a", Nats_Expected_Last_Msg_Id="three")["seq"] == 4


# ---- message ids ----


def test_an_id_that_was_seen_within_the_window_is_answered_and_not_stored(shore: Shore) -> None:
    stream = shore.stream(duplicate_window=10_000_000_000)
    shore.publish(b"S.a", b"first", Nats_Msg_Id="x")
    shore.advance(9.9)
    shore.heard.clear()
    shore.send(b"S.a", b"again", Nats_Msg_Id="x")
    shore.engine.commit()
    assert shore.heard == [(b"reply.1", b'{"stream":"S","seq":1,"duplicate": true}')]
    shore.advance(0.2)
    assert shore.publish(b"S.a", b"later", Nats_Msg_Id="x") == {"stream": "S", "seq": 2}
    assert [payload for _, _, payload in contents(stream)] == [b"first", b"later"]


@pytest.mark.parametrize("clean", [True, False])
def test_ids_are_known_after_a_restart(shore: Shore, clean: bool) -> None:
    """STREAM-3"""
    shore.stream(duplicate_window=10_000_000_000)
    shore.publish(b"S.a", Nats_Msg_Id="old")
    shore.advance(6)
    shore.publish(b"S.a", Nats_Msg_Id="new")
    shore.advance(6)
    if clean:
        shore.restart()
    else:
        shore.crash()
    assert shore.publish(b"S.a", Nats_Msg_Id="new") == {"stream": "S", "seq": 2, "duplicate": True}
    assert shore.publish(b"S.a", Nats_Msg_Id="old") == {"stream": "S", "seq": 3}


def test_a_window_of_zero_sees_nothing(shore: Shore) -> None:
    shore.stream(duplicate_window=0)
    assert shore.publish(b"S.a", Nats_Msg_Id="x")["seq"] == 1
    assert shore.publish(b"S.a", Nats_Msg_Id="x")["seq"] == 2


# ---- rollup, sizes, times ----


def test_a_rollup_stands_for_what_was_before_it(shore: Shore) -> None:
    stream = shore.stream(allow_rollup_hdrs=True)
    for subject in (b"S.a", b"S.b", b"S.a"):
        shore.publish(subject)
    shore.publish(b"S.a", Nats_Rollup="sub")
    assert [seq for seq, _, _ in contents(stream)] == [2, 4]
    shore.publish(b"S.c", Nats_Rollup="ALL")
    assert [seq for seq, _, _ in contents(stream)] == [5]


def test_a_rollup_must_be_allowed_and_known(shore: Shore) -> None:
    shore.stream()
    assert shore.refused(b"S.a", Nats_Rollup="sub") == (10111, "rollup not permitted")
    shore.stream("T", allow_rollup_hdrs=True)
    assert shore.refused(b"T.a", Nats_Rollup="some") == (10111, 'rollup value invalid: "some"')
    shore.stream("U", allow_rollup_hdrs=True, deny_purge=True)
    assert shore.refused(b"U.a", Nats_Rollup="sub") == (10111, "rollup not permitted")


def test_a_rollup_passes_the_limit_per_subject_that_refuses_others(shore: Shore) -> None:
    stream = shore.stream(
        allow_rollup_hdrs=True, max_msgs_per_subject=1, discard="new", discard_new_per_subject=True
    )
    shore.publish(b"S.a")
    assert shore.refused(b"S.a") == (10077, "maximum messages per subject exceeded")
    assert shore.publish(b"S.a", Nats_Rollup="sub")["seq"] == 2
    assert [seq for seq, _, _ in contents(stream)] == [2]


def test_a_message_may_have_so_many_bytes_with_its_headers(shore: Shore) -> None:
    shore.stream(max_msg_size=30)
    assert shore.publish(b"S.a", b"p" * 30)["seq"] == 1
    assert shore.refused(b"S.a", b"p" * 31) == (10054, "message size exceeds maximum allowed")
    assert shore.publish(b"S.a", b"p" * 9, X="1234")["seq"] == 2
    assert shore.refused(b"S.a", b"p" * 9, X="12345")[0] == 10054


def test_headers_may_have_64_kib(shore: Shore) -> None:
    shore.stream()
    room = 65_535 - len(b"NATS/1.0\r\nX: \r\n\r\n")
    assert shore.publish(b"S.a", X="x" * room)["seq"] == 1
    assert shore.refused(b"S.a", X="x" * (room + 1))[0] == 10097


def test_a_time_to_live_must_be_allowed_and_readable(shore: Shore) -> None:
    shore.stream()
    assert shore.refused(b"S.a", Nats_TTL="1s") == (10166, "per-message TTL is disabled")
    shore.stream("T", allow_msg_ttl=True)
    assert shore.refused(b"T.a", Nats_TTL="1ms") == (10165, "invalid per-message TTL")


def test_a_message_goes_when_its_time_to_live_is_over(shore: Shore) -> None:
    stream = shore.stream(allow_msg_ttl=True)
    shore.publish(b"S.a", Nats_TTL="10s")
    shore.publish(b"S.b", Nats_TTL="never")
    shore.advance(9)
    assert [seq for seq, _, _ in contents(stream)] == [1, 2]
    shore.advance(2.1)
    assert [seq for seq, _, _ in contents(stream)] == [2]


def test_a_status_in_the_first_line_is_not_stored(shore: Shore) -> None:
    stream = shore.stream()
    shore.account.post.publish(b"S.a", b"p", header=block("A: 1", version="NATS/1.0 503 Text"))
    shore.account.post.publish(b"S.a", b"p", header=b"NATS/1.0 503\r\n\r\n")
    shore.engine.commit()
    messages = [stream.get(1), stream.get(2)]
    assert [message.header for message in messages if message] == [block("A: 1"), b""]


def test_headers_of_what_is_not_switched_on_are_refused(shore: Shore) -> None:
    """STREAM-2"""
    shore.stream()
    assert shore.refused(b"S.a", Nats_Incr="+1")[0] == 10168
    assert shore.refused(b"S.a", Nats_Batch_Id="b", Nats_Batch_Sequence="1")[0] == 10174
    assert shore.refused(b"S.a", Nats_Schedule="@at 2030-01-01T00:00:00Z")[0] == 10188
    assert shore.refused(b"S.a", Nats_Scheduler="S.b")[0] == 10212
    assert shore.refused(b"S.a", Nats_Stream_Source="T 1 > > x")[0] == 10227
