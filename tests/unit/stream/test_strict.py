import pytest

from tidelog.stream.consumer_config import ConsumerConfig, CreateConsumerRequest
from tidelog.stream.stream_config import StreamConfigRequest, StreamSource
from tidelog.stream.strict import InvalidJson, decode, is_empty


def test_fields_are_taken_whatever_their_case() -> None:
    config = decode(b'{"NAME":"S","Max_Msgs":5,"sources":[{"name":"x"}]}', StreamConfigRequest)
    assert (config.name, config.max_msgs, config.sources) == ("S", 5, [StreamSource(name="x")])


def test_null_leaves_a_field_alone_and_a_later_document_goes_on() -> None:
    document = (
        b'{"name":null,"mirror":null,"subjects":null,"metadata":{"a":"1"}} {"name":"S","metadata":{"b":"2"}}'
    )
    config = decode(document, StreamConfigRequest)
    assert (config.name, config.mirror, config.subjects) == ("S", None, [])
    assert config.metadata == {"a": "1", "b": "2"}


@pytest.mark.parametrize("document", [b"", b" \n", b"null", b"{}"])
def test_without_content_everything_stays_as_it_is(document: bytes) -> None:
    assert decode(document, StreamConfigRequest) == StreamConfigRequest()


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        (b'{"foo":1}', 'json: unknown field "foo"'),
        (b'{"mirror":{"foo":1}}', 'json: unknown field "foo"'),
        (b"[]", "json: cannot unmarshal array into Go value of type server.StreamConfigRequest"),
        (
            b'{"max_msgs":"x"}',
            "json: cannot unmarshal string into Go struct field StreamConfigRequest.max_msgs of type int64",
        ),
        (
            b'{"max_msgs":1.5}',
            "json: cannot unmarshal number 1.5 into Go struct field StreamConfigRequest.max_msgs of type int64",
        ),
        (
            b'{"max_msg_size":2147483648}',
            "json: cannot unmarshal number 2147483648 into Go struct field StreamConfigRequest.max_msg_size"
            " of type int32",
        ),
        (
            b'{"first_seq":-1}',
            "json: cannot unmarshal number -1 into Go struct field StreamConfigRequest.first_seq of type uint64",
        ),
        (
            b'{"subjects":[1]}',
            "json: cannot unmarshal number into StreamConfigRequest.subjects.0 of type string",
        ),
        (
            b'{"subjects":{}}',
            "json: cannot unmarshal object into Go struct field StreamConfigRequest.subjects of type []string",
        ),
        (
            b'{"sources":[{"external":{"api":3}}]}',
            "json: cannot unmarshal number into Go struct field StreamConfigRequest.sources.0.external.api"
            " of type string",
        ),
        (
            b'{"mirror":true}',
            "json: cannot unmarshal bool into Go struct field StreamConfigRequest.mirror of type server.StreamSource",
        ),
        (
            b'{"metadata":{"a":3}}',
            "json: cannot unmarshal number into Go struct field StreamConfigRequest.metadata.a of type string",
        ),
        (b'{"retention":"x"}', r'can not unmarshal "\"x\""'),
        (b'{"retention":null}', 'can not unmarshal "null"'),
        (b'{"compression":"x"}', "unknown compression algorithm"),
        (b'{"compression":1}', "json: cannot unmarshal number into Go value of type string"),
        (b'{"mirror":{"opt_start_time":"2024-13-01T00:00:00Z"}}', "month out of range"),
        (b"{", "unexpected EOF"),
        (b"[" * 100_000, "unexpected EOF"),
        (b"[" * 100_000 + b"]" * 100_000, "exceeded max depth"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_words_of_the_peer(document: bytes, fault: str) -> None:
    with pytest.raises(InvalidJson) as refused:
        decode(document, StreamConfigRequest)
    assert fault in str(refused.value)


def test_unknown_fields_are_passed_over_when_not_strict() -> None:
    assert decode(b'{"foo":1,"name":"S"}', StreamConfigRequest, strict=False).name == "S"
    with pytest.raises(InvalidJson, match="int64"):
        decode(b'{"foo":1,"max_msgs":"S"}', StreamConfigRequest, strict=False)


def test_bounds_of_numbers_are_those_of_their_types() -> None:
    config = decode(b'{"max_msgs":9223372036854775807,"first_seq":18446744073709551615}', StreamConfigRequest)
    assert (config.max_msgs, config.first_seq) == (2**63 - 1, 2**64 - 1)
    with pytest.raises(InvalidJson, match="number 9223372036854775808"):
        decode(b'{"max_msgs":9223372036854775808}', StreamConfigRequest)


def test_half_a_surrogate_is_no_character() -> None:
    assert decode(b'{"description":"a\\ud800"}', StreamConfigRequest).description == "a\ufffd"


def test_words_have_aliases() -> None:
    request = decode(
        b'{"action":"create","config":{"priority_policy":"none","deliver_policy":"undefined","backoff":[1,2]}}',
        CreateConsumerRequest,
    )
    assert request.action == "create"
    assert request.config == ConsumerConfig(backoff=[1, 2])
    with pytest.raises(InvalidJson, match='unknown consumer action: "x"'):
        decode(b'{"action":"x"}', CreateConsumerRequest)


@pytest.mark.parametrize("document", [b"", b"{}", b" { } ", b"[]"])
def test_an_empty_request(document: bytes) -> None:
    assert is_empty(document)


@pytest.mark.parametrize("document", [b"x", b'{"a":1}', b"[1]", b"null", b'""', b"["])
def test_a_request_that_is_not_empty(document: bytes) -> None:
    assert not is_empty(document)
