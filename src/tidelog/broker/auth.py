"""Who may come in, and as whom.

One `Authenticator` stands for one listener's settings. `check` looks at an attempt in the peer's order and
stops at the first form of identity that applies:

1. nkeys: the client names a key, or gives nothing at all and `no_auth_user` is a key; 2. users: by the
certificate where the listener maps those, else `no_auth_user` for a client that gives nothing, else    by
name and password; 3. the token, or else the single user.

The verdict is `Accepted`, `Refused`, or `Deferred` where a hashed password must be compared: that takes a
tenth of a second on purpose, so `job` has to run in a thread. A wrong name then costs what a wrong password
does. Plain secrets are compared in constant time. No verdict, text or label holds a secret.

`Rights` are compiled here and shared by all whose permissions are equal. Operators' JWTs are not known.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from tidelog.broker.certificate import PeerCertificate, parse_dn, same_parts
from tidelog.broker.nkey import Kind, is_public, verify
from tidelog.broker.right import Rights
from tidelog.broker.settings import GLOBAL_ACCOUNT, AccountSettings, Authorization, Permissions, User
from tidelog.wire.handshake import REDACTED, Connect

CONNECTION_TYPES = frozenset(
    {"STANDARD", "WEBSOCKET", "LEAFNODE", "LEAFNODE_WS", "MQTT", "MQTT_WS", "IN_PROCESS"}
)

_BCRYPT = re.compile(r"\$2[abxy]\$\d{2}\$")
# bcrypt looks at no more of a password; its library refuses longer ones, the peer cuts them.
_BCRYPT_SIZE = 72


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a connection brings to be let in."""

    connect: Connect
    nonce: bytes = b""
    connection_type: str = "STANDARD"
    certificate: PeerCertificate | None = None
    host: str = ""
    # Whether the listener maps certificates to users; None: as the settings say, for STANDARD connections
    # only.
    maps_certificate: bool | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """`user` and `rights` are None where nobody in particular came in. `label` is for logs and /connz."""

    user: User | None
    account: str
    rights: Rights | None
    label: str


@dataclass(frozen=True, slots=True)
class Refused:
    """`detail` goes to the log, `why` to the debug log."""

    detail: str
    why: str = ""
    text: ClassVar[str] = "Authorization Violation"
    reason: ClassVar[str] = "Authentication Failure"


@dataclass(frozen=True, slots=True)
class Deferred:
    """`job` is slow and safe in a thread: True means `accepted`, False means `refused`."""

    job: Callable[[], bool]
    accepted: Accepted
    refused: Refused


Verdict = Accepted | Refused | Deferred


@dataclass(frozen=True, slots=True)
class Seat:
    """A user and what it is let in with."""

    user: User
    accepted: Accepted


class Authenticator:
    """Judges attempts by one set of settings. Raises ConfigError if permissions cannot be compiled."""

    def __init__(self, settings: Authorization, accounts: Iterable[AccountSettings] = ()) -> None:
        self._settings = settings
        self._defaults: dict[str, Permissions | None] = {
            account.name: account.default_permissions for account in accounts
        }
        if self._defaults.get(GLOBAL_ACCOUNT) is None:
            self._defaults[GLOBAL_ACCOUNT] = settings.default_permissions
        self._rights: dict[Permissions, Rights] = {}
        self._nkeys = {user.nkey: self._seat(user) for user in settings.users if user.nkey}
        self._users = {user.name: self._seat(user) for user in settings.users if not user.nkey}
        # Users whose names are those of certificates' subjects.
        self._dns = [(dn, seat) for name, seat in self._users.items() if (dn := parse_dn(name))]
        # Compared with for a name that nobody has.
        self._decoy = next((user.password for user in settings.users if is_bcrypt(user.password)), "")
        self.required = settings.required
        self.timeout_ns = settings.timeout_ns
        # INFO must carry a nonce.
        self.nonce_required = bool(self._nkeys)
        # INFO says so unless a client may come in with nothing.
        self.advertised = self.required and not settings.no_auth_user

    def check(self, attempt: Attempt) -> Verdict:
        """Judge one CONNECT, or the lack of one (then with the `Connect` that holds before it)."""
        connect = attempt.connect
        verdict = self._check_identity(attempt)
        if (connect.account or connect.new_account) and not isinstance(verdict, Refused):
            # Clients can no longer choose their account, so those that try must not believe that they could.
            return self._refuse(connect, "asks for an account")
        return verdict

    def _check_identity(self, attempt: Attempt) -> Verdict:
        connect, settings = attempt.connect, self._settings
        if not self.required:
            return Accepted(None, GLOBAL_ACCOUNT, None, label_of(connect))
        if self._nkeys:
            key = connect.nkey
            if not connect.has_credentials and settings.no_auth_user in self._nkeys:
                key = settings.no_auth_user
            if key:
                return self._check_nkey(attempt, key)
        if self._users:
            if self._maps_certificate(attempt):
                return self._check_certificate(attempt)
            if (
                not (connect.user or connect.password or connect.auth_token)
                and settings.no_auth_user in self._users
            ):
                return self._admit(attempt, self._users[settings.no_auth_user])
            if connect.user:
                return self._check_name(attempt)
        if settings.token:
            return self._compare(
                settings.token, connect.auth_token, Accepted(None, GLOBAL_ACCOUNT, None, REDACTED), connect
            )
        if settings.user:
            accepted = Accepted(None, GLOBAL_ACCOUNT, None, settings.user)
            known = connect.user == settings.user
            return self._compare(settings.password, connect.password, accepted, connect, known=known)
        return self._refuse(connect, "no credentials of a kind that is asked for")

    def _check_nkey(self, attempt: Attempt, key: str) -> Verdict:
        connect = attempt.connect
        seat = self._nkeys.get(key)
        if seat is None:
            return self._refuse(connect, "unknown nkey")
        # Who may come in with nothing may also do so by name.
        if key != self._settings.no_auth_user:
            if not connect.sig:
                return self._refuse(connect, "signature missing")
            if not verify(key, attempt.nonce, connect.sig):
                return self._refuse(connect, "signature not verified")
        return self._admit(attempt, seat)

    def _check_certificate(self, attempt: Attempt) -> Verdict:
        if attempt.certificate is not None:
            for seat in self._find_by_certificate(attempt.certificate):
                if _is_allowed(seat.user, attempt.connection_type):
                    return self._compare_user(attempt, seat)
        return self._refuse(attempt.connect, "no user for the certificate")

    def _find_by_certificate(self, certificate: PeerCertificate) -> Iterator[Seat]:
        """The users whom the certificate may mean, the best first."""
        users, dn = self._users, certificate.dn
        yield from (users[name] for name in certificate.names() if name in users)
        if dn:
            yield from (seat for known, seat in self._dns if known == dn)
            yield from (seat for known, seat in self._dns if same_parts(known, dn))
        yield from (users[text] for text in certificate.subject_texts() if text in users)

    def _check_name(self, attempt: Attempt) -> Verdict:
        connect = attempt.connect
        seat = self._users.get(connect.user)
        if seat is None:
            if self._decoy:
                return self._compare(self._decoy, connect.password, _NOBODY, connect, known=False)
            return self._refuse(connect, "unknown user")
        settings = self._settings
        if settings.verify_and_map and not seat.user.password and connect.user != settings.no_auth_user:
            # Without a password only a certificate can show who this is, and this listener asks for none.
            return self._refuse(connect, "user requires a client certificate")
        return self._compare_user(attempt, seat)

    def _compare_user(self, attempt: Attempt, seat: Seat) -> Verdict:
        admitted = self._admit(attempt, seat)
        if not isinstance(admitted, Accepted):
            return admitted
        return self._compare(seat.user.password, attempt.connect.password, admitted, attempt.connect)

    def _compare(
        self, secret: str, given: str, accepted: Accepted, connect: Connect, *, known: bool = True
    ) -> Verdict:
        refused = self._refuse(connect, "wrong credentials")
        if is_bcrypt(secret):
            return Deferred(lambda: _matches_hash(secret, given) and known, accepted, refused)
        return accepted if _matches_plain(secret, given) and known else refused

    def _admit(self, attempt: Attempt, seat: Seat) -> Accepted | Refused:
        if not _is_allowed(seat.user, attempt.connection_type):
            return self._refuse(attempt.connect, "connection type not allowed")
        return seat.accepted

    def _refuse(self, connect: Connect, why: str) -> Refused:
        return Refused(f"authentication error{_who(connect)}", why)

    def _maps_certificate(self, attempt: Attempt) -> bool:
        if attempt.maps_certificate is not None:
            return attempt.maps_certificate
        return self._settings.verify_and_map and attempt.connection_type == "STANDARD"

    def _seat(self, user: User) -> Seat:
        permissions = user.permissions
        if permissions is None:
            permissions = self._defaults.get(user.account)
        rights = None
        if permissions is not None:
            rights = self._rights.get(permissions)
            if rights is None:
                rights = self._rights[permissions] = Rights(permissions)
        return Seat(user, Accepted(user, user.account, rights, user.nkey or user.name))


_NOBODY = Accepted(None, GLOBAL_ACCOUNT, None, "")


def label_of(connect: Connect) -> str:
    """Who a client says it is, fit to be shown; the peer's `authorized_user`."""
    if connect.nkey:
        # What is no public key may be a seed in the wrong place.
        return connect.nkey if is_public(connect.nkey, Kind.USER) else REDACTED
    return connect.user or (REDACTED if connect.auth_token else "")


def is_bcrypt(secret: str) -> bool:
    """Whether a configured password or token is a hash."""
    return _BCRYPT.match(secret) is not None


def _who(connect: Connect) -> str:
    label = label_of(connect)
    if not label:
        return ""
    kind = "Nkey" if connect.nkey else "User" if connect.user else "Token"
    return f" - {kind} {msgspec.json.encode(label).decode()}"


def _is_allowed(user: User, connection_type: str) -> bool:
    return not user.connection_types or connection_type in user.connection_types


def _matches_plain(secret: str, given: str) -> bool:
    import hmac  # brings the whole of hashlib with it

    return hmac.compare_digest(_bytes(secret), _bytes(given))


def _matches_hash(secret: str, given: str) -> bool:
    import bcrypt

    try:
        return bcrypt.checkpw(_bytes(given)[:_BCRYPT_SIZE], _bytes(secret))
    except ValueError:
        # The hash is damaged, or the password holds what cannot be hashed.
        return False


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
