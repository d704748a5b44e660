"""INFO and CONNECT: what Go's decoder would do, the peer's bytes, and no secret in sight."""

import msgspec
import pytest

from tidelog.base.errors import ProtocolError
from tidelog.wire.handshake import UNCONNECTED, Connect, Info, decode_connect, encode_info, redact

PUBLIC_KEY = "U" + "A" * 55
SECRETS = (
    b'{"user":"joe","pass":"s3cret","auth_token":"s3cret","sig":"s3cret",'
    b'"jwt":"s3cret","nkey":"SUs3cret","proxy_sig":"s3cret"}'
)


def info(**fields: object) -> Info:
    required = {
        "server_id": "NAAA",
        "server_name": "n1",
        "version": "2.15.1",
        "proto": 1,
        "go": "go1.27",
        "host": "127.0.0.1",
        "port": 4222,
        "headers": True,
        "max_payload": 1048576,
    }
    return Info(**{**required, **fields})


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (b"{}", Connect()),
        (b"null", Connect()),
        (b' {"verbose":false} ', Connect(verbose=False)),
        (b'{"VERBOSE":false,"Pass":"p"}', Connect(verbose=False, password="p")),
        (b'{"verbose":null,"user":null}', Connect()),
        (b'{"verbose":false,"verbose":true}', Connect()),
        (b'{"unknown":{"a":[1,2]},"lang":"go"}', Connect(lang="go")),
        (b'{"protocol":1,"echo":false,"headers":true}', Connect(protocol=1, echo=False, headers=True)),
        (b'{"protocol":-1}', Connect(protocol=-1)),
        (b'{"nam\\u0065":"x"}', Connect(name="x")),
        (b'{"name":"\xffx"}', Connect(name="\ufffdx")),
        (b'{"name":"\\ud800x"}', Connect(name="\ufffdx")),
        (b'{"account":"A","new_account":true}', Connect(account="A", new_account=True)),
    ],
)
def test_connect_is_read_as_go_reads_it(document: bytes, expected: Connect) -> None:
    assert decode_connect(document) == expected


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"5",
        b'{"verbose":false',
        b'{"verbose":false}junk',
        b'{"verbose":"x"}',
        b'{"verbose":1}',
        b'{"user":5}',
        b'{"protocol":true}',
        b'{"protocol":1.0}',
        b'{"protocol":1e0}',
        b'{"protocol":99999999999999999999}',
        b'{"name":"a\tb"}',
        b'{"name":"\xff",}',
        b'{"name":"\xff","x":NaN}',
        b'{"x":' * 2000,
    ],
)
def test_a_connect_that_go_refuses_closes_without_a_word(document: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_connect(document)
    assert (caught.value.text, caught.value.reason) == ("", "Protocol Violation")
    assert caught.value.detail.startswith("CONNECT: ")


def test_a_second_connect_changes_only_what_it_names() -> None:
    first = decode_connect(b'{"verbose":false,"user":"a","pass":"b"}')
    assert decode_connect(b'{"user":"c"}', first) == Connect(verbose=False, user="c", password="b")
    assert decode_connect(b"null", first) is first


def test_repr_shows_what_differs_and_no_secret() -> None:
    shown = repr(decode_connect(SECRETS))
    assert shown == "Connect(user='joe')"
    assert repr(Connect(nkey=PUBLIC_KEY)) == f"Connect(nkey='{PUBLIC_KEY}')"
    assert repr(UNCONNECTED) == "Connect()"


def test_errors_hold_no_secret() -> None:
    for document in (SECRETS[:-1], SECRETS + b"}", b'{"pass":["s3cret"]}', b'{"pass":"s3cret\xff"'):
        with pytest.raises(ProtocolError) as caught:
            decode_connect(document)
        assert "s3cret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_redact_masks_secrets_and_keeps_the_rest() -> None:
    line = redact(b"CONNECT " + SECRETS)
    assert line.startswith(b'CONNECT {"user":"joe","pass":"[REDACTED]",')
    assert b"s3cret" not in line
    assert line.count(b"[REDACTED]") == 6


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'CONNECT {"verbose":false}', b'CONNECT {"verbose":false}'),
        (b'{"p\\u0061ss":"x"}', b'{"pass":"[REDACTED]"}'),
        (b'{"PASS":"x","pass":""}', b'{"PASS":"[REDACTED]","pass":""}'),
        (b'{"a":[{"jwt":"x"}]}', b'{"a":[{"jwt":"[REDACTED]"}]}'),
        (b'{"pass":"a\\"b, c"}', b'{"pass":"[REDACTED]"}'),
        (b'connect {"pass":"x', b"connect [REDACTED]"),
        (b'CONNECT "x"', b"CONNECT [REDACTED]"),
        (b"CONNECT", b"CONNECT"),
        (b"", b""),
    ],
)
def test_redact(line: bytes, expected: bytes) -> None:
    assert redact(line) == expected


def test_redact_shows_a_public_nkey() -> None:
    line = b'{"nkey":"' + PUBLIC_KEY.encode() + b'"}'
    assert redact(line) == line


def test_info_leaves_out_what_is_empty() -> None:
    assert encode_info(info()) == (
        b'INFO {"server_id":"NAAA","server_name":"n1","version":"2.15.1","proto":1,"go":"go1.27",'
        b'"host":"127.0.0.1","port":4222,"headers":true,"max_payload":1048576} \r\n'
    )


def test_info_keeps_the_peers_order() -> None:
    full = encode_info(
        info(
            git_commit="abc",
            client_id=5,
            client_ip="127.0.0.1",
            nonce="n",
            auth_required=True,
            connect_urls=("a:1",),
            ldm=True,
            connect_info=True,
            remote_account="$G",
            api_lvl=5,
            xkey="X",
        )
    )
    assert list(msgspec.json.decode(full[5:])) == [
        "server_id", "server_name", "version", "proto", "git_commit", "go", "host", "port", "headers",
        "auth_required", "max_payload", "client_id", "client_ip", "nonce", "connect_urls", "ldm",
        "connect_info", "remote_account", "api_lvl", "xkey",
    ]  # fmt: skip


def test_info_escapes_as_go_does() -> None:
    line = encode_info(info(server_name="a<b>&é\u2028"))
    assert b'"server_name":"a\\u003cb\\u003e\\u0026\xc3\xa9\\u2028"' in line


def test_info_sends_false_and_zero_where_the_peer_does() -> None:
    line = encode_info(info(headers=False, port=0, max_payload=0))
    assert b'"headers":false' in line
    assert b'"port":0' in line
    assert b'"max_payload":0' in line


def test_computed_empty_values_are_left_out_too() -> None:
    # Values that are equal to the defaults without being the same object.
    line = encode_info(info(cluster="".join([]), connect_urls=tuple(list[str]()), client_id=int("0")))
    assert b"cluster" not in line
    assert b"connect_urls" not in line
    assert b"client_id" not in line
