"""Keys as text, and signatures."""

import base64
import random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidelog.broker.nkey import (
    KEY_SIZE,
    Kind,
    decode_public,
    decode_seed,
    encode_public,
    encode_seed,
    is_public,
    new_nonce,
    new_server_id,
    verify,
)

# As a nats-server named itself.
SERVER = "NCJSVHAEC6NTO22MZXB3BRT2O5OR7U3AGSCJC4RW3EBPGG3PMSLTUYQF"


def chance(seed: int) -> bytes:
    return random.Random(seed).randbytes(KEY_SIZE)


@pytest.mark.parametrize(("kind", "letter"), [(Kind.USER, "U"), (Kind.ACCOUNT, "A"), (Kind.SERVER, "N")])
def test_texts_begin_with_their_kind_and_come_back(kind: Kind, letter: str) -> None:
    for number in range(20):
        public = encode_public(kind, chance(number))
        assert (public[0], len(public)) == (letter, 56)
        assert decode_public(public, kind) == chance(number)
        seed = encode_seed(kind, chance(number))
        assert (seed[:2], len(seed)) == ("S" + letter, 58)
        assert decode_seed(seed) == (kind, chance(number))


def test_the_peers_own_key_is_valid() -> None:
    assert is_public(SERVER, Kind.SERVER)
    assert encode_public(Kind.SERVER, decode_public(SERVER, Kind.SERVER)) == SERVER


@pytest.mark.parametrize(
    "text",
    [
        "",
        "N",
        SERVER[:-1],
        SERVER + "A",
        SERVER.lower(),
        SERVER[:-1] + "A",
        "X" + SERVER[1:],
        SERVER[:20] + "A" + SERVER[21:],
        SERVER[:-1] + "=",
        SERVER[:-1] + "é",
        "1" * 56,
    ],
)
def test_what_is_no_key(text: str) -> None:
    assert not is_public(text, Kind.SERVER)


def test_every_single_wrong_character_is_found() -> None:
    for place in range(len(SERVER)):
        wrong = "B" if SERVER[place] == "A" else "A"
        assert not is_public(SERVER[:place] + wrong + SERVER[place + 1 :], Kind.SERVER)


def test_a_key_of_another_kind_is_refused() -> None:
    assert not is_public(SERVER, Kind.USER)
    with pytest.raises(ValueError, match="USER"):
        decode_public(SERVER, Kind.USER)


def test_errors_do_not_repeat_a_seed() -> None:
    seed = encode_seed(Kind.USER, chance(1))
    for wrong in (seed[:-1], seed[:-2] + "AA", seed + "!", SERVER):
        with pytest.raises(ValueError, match=r"\w") as caught:
            decode_seed(wrong)
        assert seed[:10] not in str(caught.value)
        assert caught.value.__cause__ is None
    assert not is_public(seed, Kind.USER)


def test_new_names_are_valid_and_follow_chance() -> None:
    assert is_public(new_server_id(), Kind.SERVER)
    assert new_server_id() != new_server_id()
    assert new_server_id(random.Random(5).randbytes) == new_server_id(random.Random(5).randbytes)
    assert len(new_nonce()) == 15
    assert new_nonce() != new_nonce()


def test_signatures() -> None:
    private = Ed25519PrivateKey.from_private_bytes(chance(3))
    public = encode_public(Kind.USER, private.public_key().public_bytes_raw())
    raw = private.sign(b"nonce")
    url_safe = base64.urlsafe_b64encode(raw).decode()
    assert verify(public, b"nonce", url_safe.rstrip("="))
    assert verify(public, b"nonce", base64.b64encode(raw).decode())
    assert not verify(public, b"other", url_safe.rstrip("="))
    other = private.sign(b"other")
    assert not verify(public, b"nonce", base64.b64encode(other).decode())


@pytest.mark.parametrize("signature", ["", "AAAA", "!!!", "A" * 86, "A" * 85, "é" * 10, "A" * 88 + "="])
def test_bad_signatures_are_no_error(signature: str) -> None:
    public = encode_public(Kind.USER, chance(3))
    assert not verify(public, b"nonce", signature)


def test_only_a_user_key_can_have_signed() -> None:
    private = Ed25519PrivateKey.from_private_bytes(chance(3))
    account = encode_public(Kind.ACCOUNT, private.public_key().public_bytes_raw())
    assert not verify(account, b"n", base64.b64encode(private.sign(b"n")).decode())
