"""What the server wants to know of a client's certificate, as plain text, read from its DER bytes.

Imports `cryptography` at the first certificate, not before: its import costs more than the rest of start-up.
"""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """Names by which `verify_and_map` finds a user, and the digests that /connz and `pinned_certs` use."""

    # RFC 2253: the most specific part first, e.g. `CN=example.com,OU=NATS.io`.
    subject: str
    emails: tuple[str, ...]
    dns_names: tuple[str, ...]
    uris: tuple[str, ...]
    # Lower-case hex SHA-256 of the public key information, and of the whole certificate.
    key_sha256: str
    certificate_sha256: str


def read_certificate(der: bytes) -> CertificateFacts:
    """Raises ValueError if the names in it cannot be read."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    certificate = x509.load_der_x509_certificate(der)
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return CertificateFacts(
        subject=certificate.subject.rfc4514_string(),
        emails=tuple(names.get_values_for_type(x509.RFC822Name)),
        dns_names=tuple(names.get_values_for_type(x509.DNSName)),
        uris=tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
        key_sha256=hashlib.sha256(key).hexdigest(),
        certificate_sha256=hashlib.sha256(der).hexdigest(),
    )
