"""TLS as a filter, against OpenSSL's client side in memory."""

import dataclasses
import hashlib
import ssl
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from certificate import authority, issue
from tidelog.base.errors import ConfigError
from tidelog.base.limits import TLS_PIECE_SIZE
from tidelog.serve.cipher import iana_name, openssl_list
from tidelog.serve.filter import FilterError
from tidelog.serve.options import CertificatePair, TlsSettings
from tidelog.serve.tls import TlsContext, TlsFilter, looks_like_tls

CHUNKS = pytest.mark.parametrize("chunk", [1, 7, 1000, 1 << 20])


class Client:
    """A client that trusts the test authority; bytes go by hand."""

    def __init__(self, context: ssl.SSLContext | None = None, name: str | None = "localhost") -> None:
        if context is None:
            context = client_context()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname=name)

    def handshake(self, server: TlsFilter, chunk: int = 1 << 20) -> None:
        """Until both sides are done; raises whatever either side raises."""
        done = False
        for _ in range(5):
            try:
                if not done:
                    self.tls.do_handshake()
                    done = True
            except ssl.SSLWantReadError:
                pass
            self.deliver(server, chunk)
            self.incoming.write(b"".join(server.take()))
        assert done
        assert server.established

    def deliver(self, server: TlsFilter, chunk: int = 1 << 20) -> bytes:
        data, plain = self.outgoing.read(), b""
        for start in range(0, len(data), chunk):
            plain += b"".join(server.receive(data[start : start + chunk]))
        return plain

    def read(self, server: TlsFilter) -> bytes:
        self.incoming.write(b"".join(server.take()))
        plain = b""
        try:
            while data := self.tls.read(1 << 20):
                plain += data
        except ssl.SSLWantReadError:
            pass
        return plain


def client_context(certified: tuple[str, str] | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority().cert_pem.decode())
    if certified:
        context.load_cert_chain(*certified)
    return context


@pytest.fixture
def settings(tmp_path: Path) -> TlsSettings:
    return TlsSettings(certificates=(CertificatePair(*issue().write(tmp_path, "server")),))


@pytest.fixture
def verifying(settings: TlsSettings, tmp_path: Path) -> TlsSettings:
    (tmp_path / "ca.pem").write_bytes(authority().cert_pem)
    return dataclasses.replace(settings, verify=True, ca_file=str(tmp_path / "ca.pem"))


def connect(settings: TlsSettings, chunk: int = 1 << 20) -> tuple[TlsFilter, Client]:
    server, client = TlsFilter(TlsContext(settings)), Client()
    client.handshake(server, chunk)
    return server, client


def failed_handshake(settings: TlsSettings, client: Client) -> tuple[FilterError, TlsFilter]:
    server = TlsFilter(TlsContext(settings))
    with pytest.raises(FilterError) as caught:
        client.handshake(server)
    assert caught.value.reason == "TLS Handshake Failure"
    assert not server.established
    return caught.value, server


@CHUNKS
def test_bytes_pass_both_ways_however_they_are_cut(settings: TlsSettings, chunk: int) -> None:
    server, client = connect(settings, chunk)
    sent = bytes(range(256)) * 1000
    client.tls.write(sent)
    assert client.deliver(server, chunk) == sent
    server.send([b"INFO {}\r\n", memoryview(sent), bytearray(b"PING\r\n")])
    assert client.read(server) == b"INFO {}\r\n" + sent + b"PING\r\n"
    assert server.take() == []


def test_client_that_speaks_with_its_last_handshake_message_is_heard(settings: TlsSettings) -> None:
    server, client = TlsFilter(TlsContext(settings)), Client()
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    assert client.deliver(server) == b""
    client.incoming.write(b"".join(server.take()))
    client.tls.do_handshake()
    client.tls.write(b"CONNECT {}\r\n")
    assert client.deliver(server) == b"CONNECT {}\r\n"
    assert server.established


def test_more_than_the_scratch_buffer_at_once(settings: TlsSettings) -> None:
    server, client = connect(settings)
    sent = bytes(1 << 20)
    client.tls.write(sent)
    assert client.deliver(server) == sent


@pytest.mark.parametrize("size", [0, TLS_PIECE_SIZE - 1, TLS_PIECE_SIZE, TLS_PIECE_SIZE + 1])
def test_output_at_the_edge_of_a_piece(settings: TlsSettings, size: int) -> None:
    server, client = connect(settings)
    server.send([bytes(size)])
    assert client.read(server) == bytes(size)


def test_one_scratch_buffer_serves_all_connections_of_a_context(settings: TlsSettings) -> None:
    context = TlsContext(settings)
    pairs = [(TlsFilter(context), Client()) for _ in range(2)]
    for server, client in pairs:
        client.handshake(server)
    for server, client in pairs:
        client.tls.write(b"hello")
        assert client.deliver(server) == b"hello"


def test_facts_for_connz(settings: TlsSettings) -> None:
    server = TlsFilter(TlsContext(settings))
    assert (server.version, server.cipher, server.peer_certificate) == ("", "", b"")
    server, client = connect(settings)
    assert server.version == "1.3"
    assert (server.cipher, "TLSv1.3", 256) == client.tls.cipher()

    context = client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    server, client = TlsFilter(TlsContext(settings)), Client(context)
    client.handshake(server)
    assert server.version == "1.2"
    assert server.cipher.startswith("TLS_ECDHE_ECDSA_WITH_")


def test_goodbye_of_the_client_comes_after_its_last_words(settings: TlsSettings) -> None:
    server, client = connect(settings)
    client.tls.write(b"PUB a 0\r\n\r\n")
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.unwrap()
    with pytest.raises(FilterError) as caught:
        client.deliver(server)
    assert (caught.value.reason, caught.value.quiet) == ("Client Closed", True)
    assert b"".join(caught.value.parts) == b"PUB a 0\r\n\r\n"
    assert server.receive(b"more") == []


def test_goodbye_of_the_server_comes_after_its_last_words(settings: TlsSettings) -> None:
    server, client = connect(settings)
    server.send([b"-ERR 'Stale Connection'\r\n"])
    server.close("Stale Connection")
    server.close("Stale Connection")
    server.send([b"unheard"])
    assert client.read(server) == b"-ERR 'Stale Connection'\r\n"
    assert client.tls.read(1) == b""
    assert server.take() == []


def test_close_before_the_handshake_says_nothing(settings: TlsSettings) -> None:
    server = TlsFilter(TlsContext(settings))
    server.close("Server Shutdown")
    assert server.take() == []


def test_end_of_stream(settings: TlsSettings) -> None:
    error = TlsFilter(TlsContext(settings)).end()
    assert (error.reason, error.text) == ("TLS Handshake Failure", "TLS handshake error: EOF")
    error = connect(settings)[0].end()
    assert (error.reason, error.text, error.quiet) == ("Client Closed", "", True)


def test_garbled_record_is_a_read_error_after_what_was_whole(settings: TlsSettings) -> None:
    server, client = connect(settings)
    client.tls.write(b"whole")
    good = client.outgoing.read()
    client.tls.write(b"garbled")
    bad = bytearray(client.outgoing.read())
    bad[-1] ^= 1
    with pytest.raises(FilterError) as caught:
        server.receive(good + bytes(bad))
    assert caught.value.reason == "Read Error"
    assert caught.value.text == "read error: decryption failed or bad record mac"
    assert b"".join(caught.value.parts) == b"whole"
    # The alert still goes out.
    assert server.take()


@pytest.mark.parametrize(
    "first", [b"CONNECT {}\r\nPING\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\0" * 64]
)
def test_probe_that_does_not_speak_tls_is_ordinary_life(settings: TlsSettings, first: bytes) -> None:
    server = TlsFilter(TlsContext(settings))
    with pytest.raises(FilterError) as caught:
        server.receive(first)
    assert caught.value.text == "TLS handshake error: first record does not look like a TLS handshake"
    assert caught.value.quiet
    assert not looks_like_tls(first[0])


def test_hello_looks_like_tls() -> None:
    client = Client()
    with pytest.raises(ssl.SSLWantReadError):
        client.tls.do_handshake()
    assert looks_like_tls(client.outgoing.read()[0])


def test_client_without_certificate_is_refused_with_an_alert(verifying: TlsSettings) -> None:
    error, server = failed_handshake(verifying, Client())
    assert error.text == "TLS handshake error: client didn't provide a certificate"
    assert not error.quiet
    assert server.take()


def test_certificate_of_a_stranger_is_refused(verifying: TlsSettings, tmp_path: Path) -> None:
    stranger = issue(by="Another CA").write(tmp_path, "stranger")
    error, _ = failed_handshake(verifying, Client(client_context(stranger)))
    assert error.text.startswith("TLS handshake error: failed to verify certificate: ")


def test_certificate_of_a_verified_client(verifying: TlsSettings, tmp_path: Path) -> None:
    issued = issue(common_name="example.com", dns_names=("app.example.com",), emails=("derek@example.com",))
    context = client_context(issued.write(tmp_path, "client"))
    server = TlsFilter(TlsContext(verifying))
    Client(context).handshake(server)
    assert (server.peer_certificate, server.peer) == (issued.der, None)

    mapped = TlsFilter(TlsContext(dataclasses.replace(verifying, verify=False, verify_and_map=True)))
    Client(context).handshake(mapped)
    assert mapped.peer_certificate == issued.der
    assert mapped.peer is not None
    assert list(mapped.peer.names()) == ["derek@example.com", "app.example.com"]


def test_client_that_is_not_asked_shows_no_certificate(settings: TlsSettings, tmp_path: Path) -> None:
    context = client_context(issue().write(tmp_path, "client"))
    server = TlsFilter(TlsContext(settings))
    Client(context).handshake(server)
    assert (server.peer_certificate, server.peer) == (b"", None)


def test_only_pinned_keys_come_in(verifying: TlsSettings, tmp_path: Path) -> None:
    issued = issue(common_name="pinned")
    key = issued.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    context = client_context(issued.write(tmp_path, "pinned"))
    pinned = dataclasses.replace(verifying, pinned_certs=frozenset({hashlib.sha256(key).hexdigest()}))
    Client(context).handshake(TlsFilter(TlsContext(pinned)))
    for settings in (
        dataclasses.replace(pinned, pinned_certs=frozenset({"0" * 64})),
        dataclasses.replace(pinned, verify=False),
    ):
        error, _ = failed_handshake(settings, Client(context))
        assert error.text == "TLS handshake error: certificate not pinned"


def test_oldest_version_that_is_taken(settings: TlsSettings) -> None:
    old = client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    error, _ = failed_handshake(dataclasses.replace(settings, min_version="1.3"), Client(old))
    assert error.text == "TLS handshake error: client offered only unsupported versions"
    with pytest.raises(ConfigError, match=r"unsupported minimum TLS version: 1\.1"):
        TlsContext(dataclasses.replace(settings, min_version="1.1"))


def test_only_configured_suites_are_taken(settings: TlsSettings) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    settings = dataclasses.replace(settings, cipher_suites=(suite,))
    context = client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    server = TlsFilter(TlsContext(settings))
    Client(context).handshake(server)
    assert server.cipher == suite
    context.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    error, _ = failed_handshake(settings, Client(context))
    assert error.text == "TLS handshake error: no cipher suite supported by both client and server"


def test_client_chooses_among_the_suites(settings: TlsSettings) -> None:
    for suite in ("AES128", "AES256"):
        context = client_context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers(
            f"ECDHE-ECDSA-{suite}-GCM-SHA{'256' if suite == 'AES128' else '384'}:ECDHE+AESGCM"
        )
        server = TlsFilter(TlsContext(settings))
        Client(context).handshake(server)
        assert suite in server.cipher.replace("_", "")


def test_suite_names() -> None:
    assert openssl_list(("TLS_AES_128_GCM_SHA256",)) == ""
    assert openssl_list(("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_RSA_WITH_AES_128_CBC_SHA")) == (
        "ECDHE-RSA-CHACHA20-POLY1305:AES128-SHA"
    )
    assert iana_name("ECDHE-RSA-CHACHA20-POLY1305") == "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"
    assert iana_name("TLS_AES_128_GCM_SHA256") == "TLS_AES_128_GCM_SHA256"
    with pytest.raises(ConfigError, match="unrecognized cipher suite 'TLS_MAGIC'"):
        openssl_list(("TLS_MAGIC",))


def test_single_curve_is_enforced(settings: TlsSettings) -> None:
    settings = dataclasses.replace(settings, curve_preferences=("CurveP384",))
    context = client_context()
    context.set_ecdh_curve("X25519")
    failed_handshake(settings, Client(context))
    connect(settings)
    with pytest.raises(ConfigError, match="curve preference 'Curve9' is not supported"):
        TlsContext(dataclasses.replace(settings, curve_preferences=("Curve9",)))


def test_certificate_is_chosen_by_server_name(tmp_path: Path) -> None:
    pairs = tuple(
        CertificatePair(*issue(dns_names=names).write(tmp_path, f"s{number}"))
        for number, names in enumerate((("first.example",), ("*.second.example", "third.example")))
    )
    context = TlsContext(TlsSettings(certificates=pairs))
    for covered in ("first.example", "a.second.example", "third.example"):
        Client(name=covered).handshake(TlsFilter(context))
    lenient = client_context()
    lenient.check_hostname = False
    for other in ("unknown.example", None):
        client = Client(lenient, other)
        client.handshake(TlsFilter(context))
        certificate = client.tls.getpeercert()
        assert certificate is not None
        assert ("DNS", "first.example") in certificate["subjectAltName"]


def test_reload_changes_new_connections_only(settings: TlsSettings, tmp_path: Path) -> None:
    old = TlsContext(settings)
    server, client = TlsFilter(old), Client()
    client.handshake(server)
    issue(common_name="renewed").write(tmp_path, "server")
    renewed = Client()
    renewed.handshake(TlsFilter(TlsContext(settings)))
    certificate = renewed.tls.getpeercert()
    assert certificate is not None
    assert certificate["subject"] == ((("commonName", "renewed"),),)
    server.send([b"PING\r\n"])
    assert client.read(server) == b"PING\r\n"


def refusal(settings: TlsSettings) -> str:
    with pytest.raises(ConfigError) as caught:
        TlsContext(dataclasses.replace(settings, position=("server.conf", 37, 3)))
    assert (caught.value.path, caught.value.line, caught.value.column) == ("server.conf", 37, 3)
    return caught.value.message


def test_unusable_files_are_named(verifying: TlsSettings, tmp_path: Path) -> None:
    pair = verifying.certificates[0]

    def with_pair(cert_file: str, key_file: str) -> TlsSettings:
        return dataclasses.replace(verifying, certificates=(CertificatePair(cert_file, key_file),))

    empty, key = tmp_path / "empty.pem", tmp_path / "encrypted.key"
    empty.write_bytes(b"")
    key.write_bytes(issue().key_pem(b"secret"))
    other_key = issue(common_name="other").write(tmp_path, "other")[1]

    assert refusal(with_pair("/nowhere.pem", pair.key_file)) == (
        "tls: cannot read cert_file '/nowhere.pem': No such file or directory"
    )
    assert refusal(with_pair(pair.cert_file, str(tmp_path))) == (
        f"tls: cannot read key_file {str(tmp_path)!r}: Is a directory"
    )
    assert refusal(with_pair(pair.cert_file, other_key)) == (
        f"tls: key_file {other_key!r} does not belong to cert_file {pair.cert_file!r}"
    )
    assert refusal(with_pair(pair.cert_file, str(key))) == (
        f"tls: key_file {str(key)!r} is encrypted; give one that is not"
    )
    assert refusal(with_pair(str(empty), pair.key_file)).startswith(
        f"tls: cannot use cert_file {str(empty)!r} with key_file {pair.key_file!r}: "
    )
    assert refusal(dataclasses.replace(verifying, ca_file="/nowhere.pem")) == (
        "tls: cannot read ca_file '/nowhere.pem': No such file or directory"
    )
    assert refusal(dataclasses.replace(verifying, ca_file=str(empty))).startswith(
        f"tls: no usable certificate in ca_file {str(empty)!r}: "
    )
    assert refusal(with_pair(pair.cert_file, "")) == "tls: missing 'key_file' in TLS configuration"
    assert refusal(TlsSettings()) == "tls: missing 'cert_file' in TLS configuration"
