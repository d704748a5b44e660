import msgspec
import pytest

from tidelog.stream import failure
from tidelog.stream.failure import ApiError, ApiFailure, Failure

TABLE = {name: entry for name, entry in vars(failure).items() if isinstance(entry, Failure)}


def test_every_refusal_has_a_code_of_its_own() -> None:
    codes = [entry.err_code for entry in TABLE.values()]
    assert len(codes) == len(set(codes))
    assert all(400 <= entry.code < 600 for entry in TABLE.values())


def test_parameters_are_filled_in() -> None:
    refusal = failure.STREAM_WRONG_LAST_SEQUENCE(seq=7)
    assert refusal.error == ApiError(400, 10071, "wrong last sequence: 7")
    assert str(refusal) == "wrong last sequence: 7"
    with pytest.raises(ApiFailure, match="stream external api prefix a must not overlap with b"):
        raise failure.STREAM_EXTERNAL_API_OVERLAP(prefix="a", subject="b")


def test_json_is_that_of_the_peer() -> None:
    encoded = msgspec.json.encode(failure.STREAM_NOT_FOUND().error)
    assert encoded == b'{"code":404,"err_code":10059,"description":"stream not found"}'
