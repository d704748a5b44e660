"""TLS as a filter: the standard library's `ssl` over memory buffers, for upgrade after INFO and for TLS
first.

A `TlsContext` is what the configuration says, with the files read once. A reload builds a new one, so
connections that are up keep theirs and a bad file changes nothing. A `TlsFilter` is one connection's state.

How: OpenSSL works on memory BIOs. Input is fed and output drained in pieces of `TLS_PIECE_SIZE`, because a
BIO keeps the largest size that it ever had. Plain text goes into one scratch buffer per context, shared by
all its connections, since it is consumed before the next `receive`: an idle connection holds no buffer for
it.

Does not: limit the time of the handshake, decide whether to speak TLS (see `looks_like_tls`), or look up
users.
"""

import contextlib
import hashlib
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from tidelog.base.errors import ConfigError
from tidelog.base.limits import READ_BURST_SIZE, TLS_PIECE_SIZE, TLS_RECORD_SIZE
from tidelog.broker.certificate import PeerCertificate, read_certificate
from tidelog.serve.cipher import iana_name, openssl_list
from tidelog.serve.filter import CLIENT_CLOSED, READ_ERROR, TLS_HANDSHAKE_FAILURE, Bytes, FilterError
from tidelog.serve.options import CertificatePair, TlsSettings

_HANDSHAKE_RECORD = 0x16
_MIN_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_CURVES = {
    "X25519": "X25519",
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
}

# OpenSSL's reasons in words that say what the peer did.
_NOT_TLS = "first record does not look like a TLS handshake"
_WORDS = {
    "HTTP_REQUEST": _NOT_TLS,
    "HTTPS_PROXY_REQUEST": _NOT_TLS,
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "client didn't provide a certificate",
    "UNSUPPORTED_PROTOCOL": "client offered only unsupported versions",
    "NO_SHARED_CIPHER": "no cipher suite supported by both client and server",
}


def looks_like_tls(first_byte: int) -> bool:
    """Tell TLS from NATS and HTTP, for `allow_non_tls` and `handshake_first: auto`."""
    return first_byte == _HANDSHAKE_RECORD


class TlsContext:
    """Certificates and rules of one listener, read from files at once and then unchanging.

    With several certificates a client gets the first one that covers the server name that it asks for, or
    else the first. A single curve preference is enforced; several are left to OpenSSL's order, as `ssl`
    cannot set a list.
    """

    def __init__(self, settings: TlsSettings) -> None:
        """Raises ConfigError that names the file or the value, with the position of the `tls` block."""
        self.verify_and_map = settings.verify_and_map
        self.verify = settings.verify or settings.verify_and_map
        self.pinned_certs = settings.pinned_certs
        self.scratch = bytearray(READ_BURST_SIZE + TLS_RECORD_SIZE)
        try:
            contexts = [_build(settings, pair) for pair in settings.certificates]
            if not contexts:
                raise ConfigError("tls: missing 'cert_file' in TLS configuration")
            self.ssl = contexts[0]
            if len(contexts) > 1:
                self.ssl.sni_callback = _chooser(contexts, settings.certificates)
        except ConfigError as error:
            raise ConfigError(error.message, *settings.position) from error.__cause__


def _build(settings: TlsSettings, pair: CertificatePair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # All that is offered is sound, so the client chooses what its machine is fast at.
    context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if settings.min_version not in _MIN_VERSIONS:
        raise ConfigError(f"tls: unsupported minimum TLS version: {settings.min_version}")
    context.minimum_version = _MIN_VERSIONS[settings.min_version]
    ciphers = openssl_list(settings.cipher_suites)
    if ciphers:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError as error:
            raise ConfigError(f"tls: none of the cipher_suites can be used: {_words(error)}") from error
    if len(settings.curve_preferences) == 1:
        context.set_ecdh_curve(_curve(settings.curve_preferences[0]))
    _load_pair(context, pair.cert_file, pair.key_file)
    if settings.verify or settings.verify_and_map:
        context.verify_mode = ssl.CERT_REQUIRED
        _load_authorities(context, settings.ca_file)
    return context


def _curve(name: str) -> str:
    curve = _CURVES.get(name)
    if curve is None:
        raise ConfigError(f"tls: curve preference {name!r} is not supported")
    return curve


def _chooser(
    contexts: list[ssl.SSLContext], pairs: tuple[CertificatePair, ...]
) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    names = [_covered_names(pair.cert_file) for pair in pairs]

    def choose(tls: ssl.SSLObject, asked: str | None, _: ssl.SSLContext) -> None:
        if asked is None:
            return
        wanted = {asked.lower(), "*." + asked.lower().partition(".")[2]}
        for context, covered in zip(contexts, names, strict=True):
            if wanted & covered:
                tls.context = context
                return

    return choose


def _covered_names(cert_file: str) -> frozenset[str]:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    text = Path(cert_file).read_text(encoding="ascii", errors="replace")
    leaf = text[text.index(begin) : text.index(end) + len(end)]
    return frozenset(name.lower() for name in read_certificate(ssl.PEM_cert_to_DER_cert(leaf)).dns_names)


def _load_pair(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    if not key_file:
        raise ConfigError("tls: missing 'key_file' in TLS configuration")
    _check_readable("cert_file", cert_file)
    _check_readable("key_file", key_file)

    def password() -> str:
        # Without this OpenSSL asks the terminal, and the server hangs.
        raise ConfigError(f"tls: key_file {key_file!r} is encrypted; give one that is not")

    try:
        context.load_cert_chain(cert_file, key_file, password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            why = f"key_file {key_file!r} does not belong to cert_file {cert_file!r}"
        else:
            # OpenSSL does not say which of the two it means.
            why = f"cannot use cert_file {cert_file!r} with key_file {key_file!r}: {_words(error)}"
        raise ConfigError(f"tls: {why}") from error


def _load_authorities(context: ssl.SSLContext, ca_file: str) -> None:
    if not ca_file:
        context.set_default_verify_paths()
        return
    _check_readable("ca_file", ca_file)
    try:
        context.load_verify_locations(cafile=ca_file)
    except ssl.SSLError as error:
        raise ConfigError(f"tls: no usable certificate in ca_file {ca_file!r}: {_words(error)}") from error


def _check_readable(option: str, path: str) -> None:
    """OpenSSL's own errors do not name the file."""
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"tls: cannot read {option} {path!r}: {error.strerror}") from error


def _words(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"failed to verify certificate: {error.verify_message}"
    reason = error.reason or "unknown error"
    return _WORDS.get(reason, reason.lower().replace("_", " "))


class TlsFilter:
    """The server's side of one TLS connection."""

    def __init__(self, context: TlsContext) -> None:
        self.established = False
        # The certificate that a verified client gave, as it came (DER) and, if users are mapped by it, read.
        self.peer_certificate = b""
        self.peer: PeerCertificate | None = None
        self._context = context
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.ssl.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._queued: list[bytes] = []
        self._closed = False

    @property
    def version(self) -> str:
        """As /connz shows it: "1.2" or "1.3"; empty before the handshake is over."""
        return (self._tls.version() or "").removeprefix("TLSv") if self.established else ""

    @property
    def cipher(self) -> str:
        """IANA name of the cipher suite; empty before the handshake is over."""
        cipher = self._tls.cipher() if self.established else None
        return iana_name(cipher[0]) if cipher else ""

    def receive(self, data: Bytes) -> list[Bytes]:
        if self._closed:
            return []
        # What comes out is never more than what went in and one record that was incomplete before.
        need = len(data) + TLS_RECORD_SIZE
        scratch = self._context.scratch
        plain = memoryview(scratch if need <= len(scratch) else bytearray(need))
        size = 0
        source = memoryview(data)
        for start in range(0, len(source), TLS_PIECE_SIZE):
            self._incoming.write(source[start : start + TLS_PIECE_SIZE])
            if self.established or self._handshake():
                size = self._decrypt(plain, size)
        return [plain[:size]] if size else []

    def _handshake(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            self._closed = True
            words = _words(error)
            # Port scanners and health checks: not worth an operator's attention.
            raise _handshake_error(words, quiet=words == _NOT_TLS) from error
        self._check_peer()
        self.established = True
        return True

    def _check_peer(self) -> None:
        context = self._context
        if context.verify:
            self.peer_certificate = self._tls.getpeercert(binary_form=True) or b""
        der, pins = self.peer_certificate, context.pinned_certs
        try:
            if context.verify_and_map:
                self.peer = read_certificate(der)
            # Who is not asked for a certificate has none that could be pinned.
            pinned = not pins or (bool(der) and _key_digest(der) in pins)
        except ValueError as error:
            self._closed = True
            raise _handshake_error(f"cannot read the client's certificate: {error}") from error
        if not pinned:
            self._closed = True
            raise _handshake_error("certificate not pinned")

    def _decrypt(self, plain: memoryview, size: int) -> int:
        """Read all that is complete to `plain[size:]`; return the new size."""
        try:
            while True:
                # With a buffer it returns the number of bytes, whatever its stub says.
                count: int = self._tls.read(len(plain) - size, plain[size:])  # type: ignore[assignment]
                if count == 0:
                    self._closed = True
                    raise FilterError(CLIENT_CLOSED, quiet=True, parts=_some(plain[:size]))
                size += count
        except ssl.SSLWantReadError:
            return size
        except ssl.SSLError as error:
            self._closed = True
            raise FilterError(
                READ_ERROR, f"read error: {_words(error)}", parts=_some(plain[:size])
            ) from error

    def send(self, parts: Sequence[Bytes]) -> None:
        assert self.established, "nothing may be sent before the handshake is over"
        if self._closed:
            return
        # Every write makes a record of its own, so small parts are joined first.
        data = memoryview(parts[0] if len(parts) == 1 else b"".join(parts))
        start = 0
        while start < len(data):
            start += self._tls.write(data[start : start + TLS_PIECE_SIZE])
            self._queued.append(self._outgoing.read())

    def take(self) -> list[bytes]:
        if self._outgoing.pending:
            self._queued.append(self._outgoing.read())
        queued, self._queued = self._queued, []
        return queued

    def close(self, reason: str) -> None:  # noqa: ARG002 - TLS has one way to say goodbye
        if self._closed or not self.established:
            return
        self._closed = True
        # It wants the peer's goodbye, for which nobody waits; ours is written.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()

    def end(self) -> FilterError:
        if self.established:
            return FilterError(CLIENT_CLOSED, quiet=True)
        return _handshake_error("EOF")


def _key_digest(der: bytes) -> str:
    """What `pinned_certs` holds: lower-case hex SHA-256 of the public key information."""
    from cryptography import x509  # only pins need it, and it is slow to import
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = x509.load_der_x509_certificate(der).public_key()
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _handshake_error(words: str, *, quiet: bool = False) -> FilterError:
    return FilterError(TLS_HANDSHAKE_FAILURE, f"TLS handshake error: {words}", quiet=quiet)


def _some(part: memoryview) -> list[Bytes]:
    return [part] if part else []
