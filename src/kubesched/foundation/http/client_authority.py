"""An authority that signs client certificates from certificate requests."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesched.foundation.http.self_signed import CertificatePair, certificate_authority
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.go_format import quote

__all__ = [
    "CertificateSubject",
    "ClientAuthority",
    "alternative_names",
    "certificate_subject",
    "check_certificates",
    "expiry_ns",
    "read_request",
    "request_subject",
]

_BACKDATED = datetime.timedelta(minutes=5)
# Certificates that are valid for a shorter time get all of it, although they begin in the past.
_SHORT = datetime.timedelta(hours=8)
_PEM: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")
_UNREADABLE: Final = (
    ValueError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
_EXTENDED: Final = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
}


class CertificateSubject(NamedTuple):
    """The owner of a certificate, as named in it or in a request for it."""

    common_name: str
    organizations: tuple[str, ...]


def certificate_subject(certificate: bytes) -> CertificateSubject:
    """Return the subject of a certificate in DER. Raises ValueError."""
    return _subject(x509.load_der_x509_certificate(certificate).subject)


def read_request(pem: bytes) -> x509.CertificateSigningRequest:
    """Parse a request in PEM and check its signature. Raises ValueError."""
    block = _PEM.search(pem)
    if block is None or block[1] != b"CERTIFICATE REQUEST":
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        request = x509.load_pem_x509_csr(pem[block.start() :])
        is_valid = request.is_signature_valid
        # These are parsed when they are read.
        _ = request.subject, request.extensions, request.public_key()
    except _UNREADABLE as exc:
        raise ValueError(str(exc)) from exc
    if not is_valid:
        raise ValueError("the signature of the request is invalid")
    return request


def check_certificates(pem: bytes) -> None:
    """Check a text that may contain only certificates in PEM. Raises ValueError."""
    blocks = list(_PEM.finditer(pem))
    for block in blocks:
        if block[1] != b"CERTIFICATE":
            found = quote(block[1].decode())
            raise ValueError(f"only CERTIFICATE PEM blocks are allowed, found {found}")
    if not blocks:
        raise ValueError("must contain at least one CERTIFICATE PEM block")
    try:
        x509.load_pem_x509_certificates(pem)
    except _UNREADABLE as exc:
        raise ValueError(str(exc)) from exc


def expiry_ns(pem: bytes) -> int:
    """Return when the first certificate of a text expires. Raises ValueError."""
    ends = x509.load_pem_x509_certificate(pem).not_valid_after_utc
    return int(ends.timestamp()) * SECOND


def request_subject(request: x509.CertificateSigningRequest) -> CertificateSubject:
    """Return the subject of a request."""
    return _subject(request.subject)


def alternative_names(
    request: x509.CertificateSigningRequest,
) -> x509.SubjectAlternativeName | None:
    """Return the names that a request contains besides the common name."""
    try:
        return request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _subject(name: x509.Name) -> CertificateSubject:
    def values(oid: x509.ObjectIdentifier) -> tuple[str, ...]:
        return tuple(str(each.value) for each in name.get_attributes_for_oid(oid))

    common = values(NameOID.COMMON_NAME)
    return CertificateSubject(common[-1] if common else "", values(NameOID.ORGANIZATION_NAME))


class ClientAuthority:
    """A certificate and a private key that sign certificates of clients."""

    def __init__(self, texts: bytes) -> None:
        """Read a pair of texts as `create` returns it."""
        pair = CertificatePair.split(texts)
        key = load_pem_private_key(pair.key, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key, self.certificate = key, pair.certificates
        self._parsed = x509.load_pem_x509_certificate(pair.certificates)

    @staticmethod
    def create(name: str, now_ns: int, days: int) -> bytes:
        """Create a certificate and a key, as one text."""
        return certificate_authority(name, now_ns, days=days).joined()

    def sign(
        self,
        request: x509.CertificateSigningRequest,
        usages: Collection[str],
        now_ns: int,
        seconds: int,
    ) -> bytes:
        """Return a certificate in PEM that is valid for some seconds, for these key usages."""
        now = datetime.datetime.fromtimestamp(now_ns // SECOND, datetime.UTC)
        lasts = datetime.timedelta(seconds=seconds)
        ends = now + (lasts if lasts < _SHORT else lasts - _BACKDATED)
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self._parsed.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(max(now - _BACKDATED, self._parsed.not_valid_before_utc))
            .not_valid_after(min(ends, self._parsed.not_valid_after_utc))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        # An extension without any usage is invalid.
        if (key_usage := _key_usage(usages)) != _key_usage(()):
            builder = builder.add_extension(key_usage, critical=True)
        extended = [oid for usage, oid in _EXTENDED.items() if usage in usages]
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        if (names := alternative_names(request)) is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def client_pair(self, common_name: str, now_ns: int, seconds: int) -> CertificatePair:
        """Return a certificate and a key for a client of that name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject)
        signed = request.sign(key, hashes.SHA256())
        usages = ("client auth", "digital signature")
        certificate = self.sign(signed, usages, now_ns, seconds)
        encoding = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return CertificatePair(certificate, key.private_bytes(*encoding))


def _key_usage(usages: Collection[str]) -> x509.KeyUsage:
    agrees = "key agreement" in usages
    return x509.KeyUsage(
        digital_signature="digital signature" in usages or "signing" in usages,
        content_commitment="content commitment" in usages,
        key_encipherment="key encipherment" in usages,
        data_encipherment="data encipherment" in usages,
        key_agreement=agrees,
        key_cert_sign="cert sign" in usages,
        crl_sign="crl sign" in usages,
        encipher_only=agrees and "encipher only" in usages,
        decipher_only=agrees and "decipher only" in usages,
    )
