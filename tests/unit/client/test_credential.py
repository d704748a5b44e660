import base64
from pathlib import Path

import pytest

from tidelog.base.errors import ClientError
from tidelog.client import credential

# Made by the reference implementation from the bytes 0 to 31.
SEED = "SUAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4H776Y"
PUBLIC = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK"
SIGNATURE = "+HTq4d6DDHVNb8MsTRAZtSIa0vXA/yuZblwTA7JT5wYzmKBxJ2wpYfjHh7hcptZlidbVw/6ZLyubjm/yDk+OCQ=="
ACCOUNT_SEED = "SAAAAAICAMCAKBQHBAEQUCYMBUHA6EARCIJRIFIWC4MBSGQ3DQOR4HYMHI"

CREDENTIALS = f"""-----BEGIN NATS USER JWT-----
eyJ0eXAi.a-b_c-
------END NATS USER JWT------

************************* IMPORTANT *************************
Keep this to yourself.

-----BEGIN USER NKEY SEED-----
{SEED}
------END USER NKEY SEED------
"""


def test_sign_agrees_with_the_reference() -> None:
    public, signature = credential.sign(SEED, b"nonce")
    assert public == PUBLIC
    assert base64.b64encode(signature).decode() == SIGNATURE


@pytest.mark.parametrize(
    ("seed", "reason"),
    [
        ("not base32!", "base32"),
        (SEED[:-1] + "A", "checksum|size"),
        (SEED[:40], "size"),
        (ACCOUNT_SEED, "not a user's"),
    ],
)
def test_a_bad_seed_is_refused_and_not_repeated(seed: str, reason: str) -> None:
    with pytest.raises(ClientError, match=reason) as caught:
        credential.sign(seed, b"nonce")
    assert seed not in str(caught.value)


def test_connect_fields_prove_an_nkey_with_the_nonce() -> None:
    fields = credential.Credential(seed=SEED).connect_fields("nonce")
    assert fields["nkey"] == PUBLIC
    assert base64.urlsafe_b64decode(fields["sig"] + "==") == base64.b64decode(SIGNATURE)


def test_connect_fields_of_a_jwt_name_no_nkey() -> None:
    fields = credential.Credential(seed=SEED, jwt="j.w.t").connect_fields("nonce")
    assert fields["jwt"] == "j.w.t"
    assert set(fields) == {"jwt", "sig"}


def test_connect_fields_of_user_and_token() -> None:
    assert credential.Credential(user="u", password="p").connect_fields("") == {"user": "u", "pass": "p"}
    assert credential.Credential(token="t").connect_fields("") == {"auth_token": "t"}
    assert credential.Credential().connect_fields("") == {}


def test_credentials_and_seed_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "user.creds"
    path.write_text(CREDENTIALS)
    assert credential.read_credentials(path) == credential.Credential(seed=SEED, jwt="eyJ0eXAi.a-b_c-")
    assert credential.read_seed(path) == SEED


def test_files_that_do_not_serve_are_named(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_text("# nothing\n")
    for read in (credential.read_credentials, credential.read_seed):
        with pytest.raises(ClientError, match="empty: "):
            read(path)
        with pytest.raises(ClientError, match="missing: No such file"):
            read(tmp_path / "missing")


def test_repr_shows_no_secret() -> None:
    shown = repr(credential.Credential(user="u", password="hush", token="hush", seed="hush", jwt="hush"))
    assert "hush" not in shown
