"""A certificate made on the spot, so that clients send their tokens over TLS.

It vouches for itself: a kubeconfig that carries it is what makes clients trust it.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesched.foundation.util.clock import SECOND

__all__ = ["Certificate", "make_certificate"]

_VALIDITY = datetime.timedelta(days=367)  # a leap year and a day: one is kept for its year
_BACKDATED = datetime.timedelta(hours=1)


class Certificate(NamedTuple):
    """PEM texts of a certificate and its key."""

    certificate: bytes
    key: bytes

    def joined(self) -> bytes:
        """Both texts as one, which `split` takes apart."""
        return self.key + self.certificate

    @classmethod
    def split(cls, texts: bytes) -> Certificate:
        key, marker, certificate = texts.partition(b"-----BEGIN CERTIFICATE-----")
        return cls(marker + certificate, key)

    def context(self) -> ssl.SSLContext:
        """A context for a server that shows this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # The ssl module reads keys from files only; this one is gone before anybody connects.
        descriptor, path = tempfile.mkstemp(suffix=".pem")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(self.joined())
            context.load_cert_chain(path)
        finally:
            os.unlink(path)
        return context


def make_certificate(hosts: Iterable[str], now_ns: int) -> Certificate:
    """Make a certificate for a server at these names and addresses, and at localhost."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubesched")])
    now = datetime.datetime.fromtimestamp(now_ns // SECOND, datetime.UTC)
    alternatives = dict.fromkeys(("localhost", "127.0.0.1", "::1", *hosts))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_alternative(host) for host in alternatives if host]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return Certificate(certificate.public_bytes(Encoding.PEM), private)


def _usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
