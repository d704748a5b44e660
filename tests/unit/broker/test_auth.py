"""Who may come in: every form of identity, their order, and that no secret shows."""

import base64
import itertools
import subprocess
import sys

import bcrypt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tidelog.base.errors import ConfigError
from tidelog.broker.auth import (
    Accepted,
    Attempt,
    Authenticator,
    Deferred,
    Refused,
    Verdict,
    is_bcrypt,
    label_of,
)
from tidelog.broker.certificate import PeerCertificate
from tidelog.broker.nkey import Kind, encode_public, encode_seed
from tidelog.broker.settings import AccountSettings, Authorization, Permissions, SubjectRights, User
from tidelog.wire.handshake import UNCONNECTED, Connect

SECRET = "s3cret"
HASH = bcrypt.hashpw(SECRET.encode(), bcrypt.gensalt(4)).decode()
NONCE = b"abcdefghijk"
PRIVATE = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
KEY = encode_public(Kind.USER, PRIVATE.public_key().public_bytes_raw())
SIGNATURE = base64.urlsafe_b64encode(PRIVATE.sign(NONCE)).rstrip(b"=").decode()
SOME = Permissions(publish=SubjectRights(("a.>",)))
OTHER = Permissions(publish=SubjectRights(("b.>",)))


def judge(
    settings: Authorization, *, accounts: tuple[AccountSettings, ...] = (), **fields: object
) -> Verdict:
    """Check, with deferred jobs done."""
    of_attempt = ("connection_type", "certificate", "maps_certificate")
    attempt = {name: fields.pop(name) for name in of_attempt if name in fields}
    verdict = Authenticator(settings, accounts).check(Attempt(Connect(**fields), NONCE, **attempt))
    if isinstance(verdict, Deferred):
        return verdict.accepted if verdict.job() else verdict.refused
    return verdict


def users(*entries: User, **fields: object) -> Authorization:
    return Authorization(users=entries, **fields)


def label(verdict: Verdict) -> str | None:
    return verdict.label if isinstance(verdict, Accepted) else None


def test_an_open_server_lets_everybody_in() -> None:
    guard = Authenticator(Authorization())
    assert not guard.required
    assert not guard.advertised
    assert not guard.nonce_required
    verdict = guard.check(Attempt(UNCONNECTED))
    assert verdict == Accepted(None, "$G", None, "")
    assert label(guard.check(Attempt(Connect(user="joe", password="x")))) == "joe"


@pytest.mark.parametrize("password", [SECRET, HASH])
def test_single_user(password: str) -> None:
    settings = Authorization(user="joe", password=password)
    assert Authenticator(settings).required
    assert judge(settings, user="joe", password=SECRET) == Accepted(None, "$G", None, "joe")
    for wrong in (
        {"user": "joe", "password": "x"},
        {"user": "joe"},
        {"user": "jim", "password": SECRET},
        {"user": "joe", "password": password + "x"},
        {"auth_token": SECRET},
        {},
    ):
        assert isinstance(judge(settings, **wrong), Refused), wrong


def test_a_hash_is_not_its_own_password() -> None:
    assert isinstance(judge(Authorization(user="joe", password=HASH), user="joe", password=HASH), Refused)


@pytest.mark.parametrize("token", [SECRET, HASH])
def test_token(token: str) -> None:
    settings = Authorization(token=token)
    assert label(judge(settings, auth_token=SECRET)) == "[REDACTED]"
    for wrong in ({"auth_token": "x"}, {}, {"user": SECRET}, {"password": SECRET}):
        assert isinstance(judge(settings, **wrong), Refused), wrong


def test_users_have_accounts_and_rights() -> None:
    settings = users(
        User("a", "1", permissions=SOME), User("b", "2", account="B"), User("c", "3", permissions=SOME)
    )
    guard = Authenticator(settings)
    a, b, c = (
        guard.check(Attempt(Connect(user=name, password=word)))
        for name, word in zip("abc", "123", strict=True)
    )
    assert isinstance(a, Accepted)
    assert isinstance(b, Accepted)
    assert isinstance(c, Accepted)
    assert (a.user, a.account, a.label) == (settings.users[0], "$G", "a")
    assert (b.user, b.account, b.rights) == (settings.users[1], "B", None)
    assert a.rights is not None
    assert a.rights.may_publish(b"a.x")
    assert a.rights is c.rights, "equal permissions share their caches"
    for wrong in (("a", "2"), ("d", "1"), ("", "1"), ("a", "")):
        assert isinstance(guard.check(Attempt(Connect(user=wrong[0], password=wrong[1]))), Refused)


def test_default_permissions_fill_in() -> None:
    accounts = (AccountSettings("A", default_permissions=OTHER), AccountSettings("B"))
    settings = users(
        User("g"),
        User("own", permissions=Permissions()),
        User("a", account="A"),
        User("b", account="B"),
        default_permissions=SOME,
    )
    got = {}
    for name in ("g", "own", "a", "b"):
        verdict = judge(settings, accounts=accounts, user=name)
        assert isinstance(verdict, Accepted)
        got[name] = verdict.rights.permissions if verdict.rights else None
    assert got == {"g": SOME, "own": Permissions(), "a": OTHER, "b": None}


def test_bad_permissions_are_refused_when_settings_are_read() -> None:
    with pytest.raises(ConfigError):
        Authenticator(users(User("a", permissions=Permissions(SubjectRights(("a..b",))))))


def test_hashed_passwords_are_left_to_a_thread() -> None:
    guard = Authenticator(users(User("a", HASH), User("b", "plain")))
    right = guard.check(Attempt(Connect(user="a", password=SECRET)))
    wrong = guard.check(Attempt(Connect(user="a", password="x")))
    assert isinstance(right, Deferred)
    assert isinstance(wrong, Deferred)
    assert right.job()
    assert label(right.accepted) == "a"
    assert not wrong.job()
    assert isinstance(guard.check(Attempt(Connect(user="b", password="plain"))), Accepted)


def test_an_unknown_name_costs_what_a_wrong_password_does() -> None:
    guard = Authenticator(users(User("a", HASH)))
    for password in ("x", SECRET):
        verdict = guard.check(Attempt(Connect(user="nobody", password=password)))
        assert isinstance(verdict, Deferred)
        assert not verdict.job()


@pytest.mark.parametrize("password", ["x" * 100, "\0", "\ud800", ""])
def test_odd_passwords_are_no_error(password: str) -> None:
    for secret in (HASH, "plain", "$2a$11$damaged"):
        assert isinstance(judge(users(User("a", secret)), user="a", password=password), Refused)


def test_a_long_password_is_cut_as_the_peer_cuts_it() -> None:
    hashed = bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4)).decode()
    assert label(judge(users(User("a", hashed)), user="a", password="x" * 80)) == "a"


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        (HASH, True),
        ("$2a$11$x", True),
        ("$2y$04$", True),
        ("$2c$11$x", False),
        ("$2a$x", False),
        ("2a$11$", False),
    ],
)
def test_what_is_a_hash(text: str, hashed: bool) -> None:
    assert is_bcrypt(text) is hashed


def test_nkey() -> None:
    settings = users(User(nkey=KEY, account="A", permissions=SOME), User("joe", "1"))
    guard = Authenticator(settings)
    assert guard.nonce_required
    assert not Authenticator(users(User("joe", "1"))).nonce_required
    verdict = judge(settings, nkey=KEY, sig=SIGNATURE)
    assert isinstance(verdict, Accepted)
    assert (verdict.user, verdict.account, verdict.label) == (settings.users[0], "A", KEY)
    assert verdict.rights is not None
    assert label(judge(settings, user="joe", password="1")) == "joe"
    other = encode_public(Kind.USER, bytes(32))
    for wrong in (
        {"nkey": KEY},
        {"nkey": KEY, "sig": SIGNATURE[:-2] + "AA"},
        {"nkey": KEY, "sig": "no base64!"},
        {"nkey": other, "sig": SIGNATURE},
        {"nkey": other, "sig": SIGNATURE, "user": "joe", "password": "1"},
        {"user": KEY},
        {},
    ):
        assert isinstance(judge(settings, **wrong), Refused), wrong


def test_a_signature_of_another_nonce_is_refused() -> None:
    guard = Authenticator(users(User(nkey=KEY)))
    assert isinstance(guard.check(Attempt(Connect(nkey=KEY, sig=SIGNATURE), b"other")), Refused)


def test_no_auth_user_for_who_gives_nothing() -> None:
    settings = users(User("guest", HASH, account="G"), User("joe", "1"), no_auth_user="guest")
    guard = Authenticator(settings)
    assert guard.required
    assert not guard.advertised
    verdict = guard.check(Attempt(UNCONNECTED))
    assert isinstance(verdict, Accepted)
    assert (verdict.account, verdict.label) == ("G", "guest")
    assert label(judge(settings, user="joe", password="1")) == "joe"
    assert label(judge(settings, nkey=KEY)) == "guest", "no nkeys are configured, so none can be meant"
    for wrong in ({"user": "x"}, {"password": "1"}, {"auth_token": "t"}, {"user": "guest", "password": "x"}):
        assert isinstance(judge(settings, **wrong), Refused), wrong


def test_no_auth_user_may_be_an_nkey() -> None:
    settings = users(User(nkey=KEY), User("joe", "1"), no_auth_user=KEY)
    assert label(judge(settings)) == KEY
    assert label(judge(settings, user="joe", password="1")) == "joe"
    assert isinstance(judge(settings, auth_token="t"), Refused)


def test_connection_types() -> None:
    only_ws = frozenset({"WEBSOCKET"})
    settings = users(User("a", "1", connection_types=only_ws), User(nkey=KEY, connection_types=only_ws))
    for credentials in ({"user": "a", "password": "1"}, {"nkey": KEY, "sig": SIGNATURE}):
        assert isinstance(judge(settings, **credentials), Refused)
        assert isinstance(judge(settings, connection_type="WEBSOCKET", **credentials), Accepted)
    every = users(User("a", "1", connection_types=frozenset()))
    assert label(judge(every, connection_type="LEAFNODE", user="a", password="1")) == "a"


def test_a_client_that_asks_for_an_account_is_refused() -> None:
    for fields in ({"account": "A"}, {"new_account": True}):
        assert isinstance(judge(Authorization(), **fields), Refused)
        hashed = Authorization(user="a", password=HASH)
        assert isinstance(judge(hashed, user="a", password=SECRET, **fields), Refused)


CERTIFICATE = PeerCertificate(
    subject=((("2.5.4.10", "Acme"),), (("2.5.4.3", "joe"),)),
    emails=("joe@acme.com",),
    dns_names=("joe.acme.com",),
    uris=("spiffe://acme/joe",),
)


@pytest.mark.parametrize(
    "name",
    [
        "joe@acme.com",
        "joe.acme.com",
        "spiffe://acme/joe",
        "CN=joe,O=Acme",
        "O=Acme, CN=joe",
        "cn=joe , o=Acme",
    ],
)
def test_a_certificate_names_its_user(name: str) -> None:
    settings = users(User("other"), User(name), verify_and_map=True)
    assert label(judge(settings, certificate=CERTIFICATE)) == name
    assert label(judge(settings, certificate=CERTIFICATE, user="other")) == name
    assert isinstance(judge(settings), Refused)
    assert isinstance(judge(settings, user=name), Refused)
    assert isinstance(judge(settings, certificate=PeerCertificate()), Refused)


def test_the_alternative_names_come_before_the_subject() -> None:
    names = ["joe@acme.com", "joe.acme.com", "spiffe://acme/joe", "CN=joe,O=Acme", "O=Acme,CN=joe"]
    for one, other in itertools.combinations(names, 2):
        settings = users(User(other), User(one), verify_and_map=True)
        assert label(judge(settings, certificate=CERTIFICATE)) == one


def test_a_mapped_user_with_a_password_needs_both() -> None:
    settings = users(User("joe@acme.com", SECRET), verify_and_map=True)
    assert isinstance(judge(settings, certificate=CERTIFICATE), Refused)
    assert label(judge(settings, certificate=CERTIFICATE, password=SECRET)) == "joe@acme.com"


def test_a_mapped_name_that_may_not_connect_so_does_not_hide_the_next() -> None:
    settings = users(
        User("joe@acme.com", connection_types=frozenset({"MQTT"})), User("joe.acme.com"), verify_and_map=True
    )
    assert label(judge(settings, certificate=CERTIFICATE)) == "joe.acme.com"


def test_listeners_map_certificates_for_themselves() -> None:
    settings = users(User("joe@acme.com"), User("pw", "1"), verify_and_map=True)
    ws = {"connection_type": "WEBSOCKET"}
    assert label(judge(settings, user="pw", password="1", **ws)) == "pw"
    assert isinstance(judge(settings, user="joe@acme.com", **ws), Refused), "an empty password opens nothing"
    assert label(judge(settings, certificate=CERTIFICATE, maps_certificate=True, **ws)) == "joe@acme.com"
    assert isinstance(judge(users(User("joe@acme.com", "1")), certificate=CERTIFICATE), Refused)


def test_labels() -> None:
    assert label_of(Connect(nkey=KEY, user="u")) == KEY
    assert label_of(Connect(user="u", auth_token="t")) == "u"
    assert label_of(Connect(auth_token="t")) == "[REDACTED]"
    assert label_of(Connect(nkey=encode_seed(Kind.USER, bytes(32)))) == "[REDACTED]"


def test_refusals_tell_the_log_who_and_the_client_nothing() -> None:
    settings = users(User("a", "1"), User(nkey=KEY))
    for fields, detail in (
        ({"user": 'j"oe', "password": SECRET}, 'authentication error - User "j\\"oe"'),
        ({"nkey": KEY}, f'authentication error - Nkey "{KEY}"'),
        ({"auth_token": SECRET}, 'authentication error - Token "[REDACTED]"'),
        ({}, "authentication error"),
    ):
        verdict = judge(settings, **fields)
        assert isinstance(verdict, Refused)
        assert verdict.detail == detail
        assert (verdict.text, verdict.reason) == ("Authorization Violation", "Authentication Failure")


def test_no_secret_shows() -> None:
    settings = users(User("a", SECRET), User("b", HASH))
    guard = Authenticator(settings)
    for user, password in (("a", SECRET), ("a", SECRET + "x"), ("b", SECRET), ("nobody", SECRET)):
        attempt = Attempt(Connect(user=user, password=password, sig=SECRET, jwt=SECRET, auth_token=SECRET))
        shown = repr(attempt) + repr(guard.check(attempt)) + repr(settings)
        assert SECRET not in shown
        assert HASH not in shown


def test_slow_libraries_are_imported_when_needed() -> None:
    # Nothing heavy may be imported before the server listens.
    code = "import sys, tidelog.broker.auth; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["cryptography", "bcrypt", "hashlib", "ssl", "asyncio", "json"]
    ran = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
