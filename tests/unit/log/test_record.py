"""Records: what is valid, what is not, and what is found behind damage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.log.record import (
    RECORD_HEADER_SIZE,
    checksum,
    checksum_by_table,
    decode,
    encode_fact,
    encode_message,
    find_salt,
    find_valid,
    is_valid,
)

SALT = 0x5EED_CAFE


def test_the_checksum_is_crc32c() -> None:
    assert checksum(b"123456789") == 0xE3069283
    assert checksum(b"") == 0


@given(st.binary(max_size=100))
def test_table_and_instruction_agree(data: bytes) -> None:
    assert checksum(data) == checksum_by_table(data)


@given(
    st.integers(1, 2**63),
    st.integers(0, 2**62),
    st.binary(max_size=40),
    st.binary(max_size=40),
    st.binary(max_size=200),
    st.integers(0, 2**62),
)
def test_what_was_encoded_is_decoded(
    seq: int, ts_ns: int, subject: bytes, header: bytes, payload: bytes, expiry_ns: int
) -> None:
    record = encode_message(seq, ts_ns, subject, header, payload, expiry_ns, SALT)
    assert decode(record, 0, SALT) == {
        "size": len(record),
        "seq": seq,
        "ts_ns": ts_ns,
        "kind": 1,
        "flags": 1 if expiry_ns else 0,
        "expiry_ns": expiry_ns,
        "subject": subject,
        "header": header,
        "payload": payload,
    }


def test_the_bytes_are_those_of_the_format() -> None:
    record = encode_message(7, 1_700_000_000_000_000_000, b"a.b", b"H", b"body", 0, SALT)
    assert record[4:] == bytes.fromhex(
        "28000000"  # 40 bytes
        "0700000000000000"
        "00002a36fe9c9717"
        "01000300"
        "01000000"
        "612e62" + "48" + "626f6479"
    )
    assert int.from_bytes(record[:4], "little") == checksum(record[4:]) ^ SALT


@pytest.mark.parametrize("expiry_ns", [0, 5])
def test_no_flipped_bit_goes_unseen(expiry_ns: int) -> None:
    record = encode_message(7, 8, b"subject", b"header", b"payload", expiry_ns, SALT)
    for bit in range(8 * len(record)):
        damaged = bytearray(record)
        damaged[bit // 8] ^= 1 << bit % 8
        assert not is_valid(bytes(damaged), 0, SALT), bit


def test_a_record_that_is_cut_short_is_not_valid() -> None:
    record = encode_message(7, 8, b"subject", b"", b"payload", 0, SALT)
    assert is_valid(record, 0, SALT)
    for size in range(len(record)):
        assert not is_valid(record[:size], 0, SALT)


def test_another_logs_record_is_not_valid_here() -> None:
    assert not is_valid(encode_message(7, 8, b"s", b"", b"p", 0, SALT), 0, SALT ^ 1)


@given(st.binary(max_size=200), st.binary(max_size=50))
def test_the_first_record_behind_damage_is_found(damage: bytes, payload: bytes) -> None:
    wanted = encode_message(50, 8, b"s", b"", payload, 0, SALT)
    too_old = encode_message(9, 8, b"s", b"", payload, 0, SALT)
    assert find_valid(damage + wanted, 0, 10, 60, SALT) == len(damage)
    assert find_valid(too_old + wanted, 0, 10, 60, SALT) == len(too_old)
    assert find_valid(damage + wanted, len(damage) + 1, 10, 60, SALT) == -1


def test_a_fact_has_no_subject() -> None:
    fact = encode_fact(3, 9, 10, b"12345678", SALT)
    assert len(fact) == RECORD_HEADER_SIZE + 8
    found = decode(fact, 0, SALT)
    assert (found["kind"], found["seq"], found["subject"], found["payload"]) == (3, 9, b"", b"12345678")


def test_sizes_that_do_not_add_up_are_refused_before_the_checksum() -> None:
    record = bytearray(encode_message(7, 8, b"s", b"h", b"p", 0, 0))
    for pos, width in ((4, 4), (26, 2), (28, 4)):
        wrong = bytearray(record)
        wrong[pos : pos + width] = b"\xff" * width
        assert not is_valid(bytes(wrong))


def test_the_salt_of_a_log_is_told_by_two_records_and_not_by_one() -> None:
    """One is valid under some salt whatever its bytes are, and may be torn."""
    records = [encode_message(seq, seq, b"s", b"", b"p" * 40, salt=77) for seq in range(1, 4)]
    torn = records[0][:50] + bytes(len(records[0]) - 50)
    assert find_salt(records[0], 0) is None
    assert find_salt(torn, 0) is None
    assert find_salt(b"".join(records[:2]), 0) == 77
    assert find_salt(torn + b"".join(records[1:]), 0) == 77
    assert find_salt(bytes(64) + b"xyz" + b"".join(records) + torn, 64) == 77
