"""Certificate authorities and certificates for tests, made when asked for: no key is ever committed.

P-256 keys, valid for a day. Cached for the test session, since many tests want the same.
"""

import datetime
import functools
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Issued:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def cert_pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    def key_pem(self, password: bytes = b"") -> bytes:
        encryption = BestAvailableEncryption(password) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def write(self, folder: Path, name: str) -> tuple[str, str]:
        """Write `name.pem` and `name.key`; return both paths."""
        cert_path, key_path = folder / f"{name}.pem", folder / f"{name}.key"
        cert_path.write_bytes(self.cert_pem)
        key_path.write_bytes(self.key_pem())
        return str(cert_path), str(key_path)


def authority(name: str = "Test CA") -> Issued:
    """A certificate authority that signs for itself: always the same one of that name."""
    return _authority(name)


@functools.cache
def _authority(name: str) -> Issued:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(subject, subject, key).add_extension(x509.BasicConstraints(True, None), critical=True)
    return Issued(builder.sign(key, hashes.SHA256()), key)


@functools.cache
def issue(
    *,
    by: str = "Test CA",
    common_name: str = "localhost",
    organizational_unit: str = "",
    dns_names: Sequence[str] = ("localhost",),
    addresses: Sequence[str] = ("127.0.0.1", "::1"),
    emails: Sequence[str] = (),
    uris: Sequence[str] = (),
) -> Issued:
    """A certificate for servers and clients, signed by the authority of that name. Pass tuples."""
    issuer = authority(by)
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organizational_unit:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, organizational_unit))
    names: list[x509.GeneralName] = [
        *(x509.DNSName(name) for name in dns_names),
        *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        *(x509.RFC822Name(email) for email in emails),
        *(x509.UniformResourceIdentifier(uri) for uri in uris),
    ]
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(x509.Name(attributes), issuer.certificate.subject, key)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Issued(builder.sign(issuer.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )
