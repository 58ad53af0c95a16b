"""Self-signed certificates of a server (docs/reference/02 §2.2).

A client trusts such a server only if it has the authority's certificate, for example from a
kubeconfig.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from typing import Literal, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesched.foundation.util.clock import SECOND

__all__ = ["CertificatePair", "KeyType", "certificate_authority", "self_signed_certificate"]

KeyType = Literal["rsa", "ec"]

_RSA_BITS = 2048
_BACKDATED = datetime.timedelta(hours=1)
_HOST = "localhost"
_BEGIN = b"-----BEGIN CERTIFICATE-----"


class CertificatePair(NamedTuple):
    """PEM texts: a certificate followed by its issuers, and its private key."""

    certificates: bytes
    key: bytes

    @property
    def authority(self) -> bytes:
        """The certificate that clients need to trust."""
        return _BEGIN + self.certificates.rpartition(_BEGIN)[2]

    def joined(self) -> bytes:
        """Return both texts as one. `split` is the inverse."""
        return self.key + self.certificates

    @classmethod
    def split(cls, texts: bytes) -> CertificatePair:
        key, marker, certificates = texts.partition(_BEGIN)
        return cls(marker + certificates, key)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let a context present this certificate. Raises ssl.SSLError."""
        # The ssl module reads files only. This one is deleted before the first client connects.
        descriptor, path = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(self.joined())
            context.load_cert_chain(path)
        finally:
            os.unlink(path)

    def server_context(self) -> ssl.SSLContext:
        """Return a context for a server that presents this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.load_into(context)
        return context


def self_signed_certificate(
    names: Iterable[str], now_ns: int, *, key_type: KeyType = "rsa", days: int = 365
) -> CertificatePair:
    """Create an authority, and a certificate that it signs for a server with these names.

    Names may be addresses. A pair of EC keys is created in a millisecond, a pair of RSA keys in
    tenths of a second; clients may be configured to accept RSA only.
    """
    seconds = now_ns // SECOND
    begins, ends = _validity(now_ns, days)
    authority_key, key = _private_key(key_type), _private_key(key_type)
    issuer = _common_name(f"{_HOST}-ca@{seconds}")
    authority = _authority(issuer, authority_key, key_type, begins, ends)
    leaf = (
        _builder(_common_name(f"{_HOST}@{seconds}"), issuer, key, begins, ends)
        .add_extension(_usage(key_type, signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName([_general(n) for n in names]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    chain = leaf.public_bytes(Encoding.PEM) + authority.public_bytes(Encoding.PEM)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return CertificatePair(chain, secret)


def certificate_authority(name: str, now_ns: int, *, days: int) -> CertificatePair:
    """Make the certificate and the EC key of an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _authority(_common_name(name), key, "ec", *_validity(now_ns, days))
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return CertificatePair(certificate.public_bytes(Encoding.PEM), secret)


def _validity(now_ns: int, days: int) -> tuple[datetime.datetime, datetime.datetime]:
    begins = datetime.datetime.fromtimestamp(now_ns // SECOND, datetime.UTC) - _BACKDATED
    return begins, begins + _BACKDATED + datetime.timedelta(days=days)


def _authority(
    name: x509.Name,
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    key_type: KeyType,
    begins: datetime.datetime,
    ends: datetime.datetime,
) -> x509.Certificate:
    return (
        _builder(name, name, key, begins, ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(key_type, signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _private_key(key_type: KeyType) -> rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey:
    if key_type == "ec":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    begins: datetime.datetime,
    ends: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(key_type: KeyType, *, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=key_type == "rsa",
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
