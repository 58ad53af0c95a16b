"""A certificate made on the spot, for when none was given (docs/reference/02 §2.2).

It proves nothing to a client that does not know it; it only lets the endpoint speak TLS.
"""

from __future__ import annotations

import datetime
import ipaddress
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubesched.foundation.util.clock import SECOND

__all__ = ["CertificatePair", "self_signed_certificate"]

_KEY_BITS = 2048
_VALIDITY = datetime.timedelta(days=365)
_BACKDATED = datetime.timedelta(hours=1)
_HOST = "localhost"


class CertificatePair(NamedTuple):
    """PEM texts: a certificate followed by those that vouch for it, and its key."""

    certificates: bytes
    key: bytes


def self_signed_certificate(bind_address: str, now_ns: int) -> CertificatePair:
    """Make an authority and a certificate for this host that it signs; both are served."""
    seconds = now_ns // SECOND
    begins = datetime.datetime.fromtimestamp(seconds, datetime.UTC) - _BACKDATED
    authority_key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    authority_name = _name(f"{_HOST}-ca@{seconds}")
    authority = (
        _builder(authority_name, authority_name, authority_key.public_key(), begins)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key()), critical=False
        )
        .sign(authority_key, hashes.SHA256())
    )
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    leaf = (
        _builder(_name(f"{_HOST}@{seconds}"), authority_name, key.public_key(), begins)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()),
            critical=False,
        )
        .add_extension(x509.SubjectAlternativeName(_names(bind_address)), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    chain = leaf.public_bytes(Encoding.PEM) + authority.public_bytes(Encoding.PEM)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return CertificatePair(chain, secret)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey, begins: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + _BACKDATED + _VALIDITY)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _names(bind_address: str) -> list[x509.GeneralName]:
    """This host, by name and loopback address, and the address if it is one of its own."""
    names: list[x509.GeneralName] = [x509.DNSName(_HOST)]
    try:
        address = ipaddress.ip_address(bind_address)
    except ValueError:
        address = ipaddress.IPv4Address(0)
    loopback = ipaddress.IPv4Address("127.0.0.1")
    if not address.is_unspecified and address != loopback:
        names.append(x509.IPAddress(address))
    return [*names, x509.IPAddress(loopback)]
