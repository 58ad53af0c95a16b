"""Authentication by the client certificate of the user or of a proxy.

docs/reference/02 §3.3. The TLS layer has verified the chain against all authorities, for whatever
purpose. This module checks the purpose: the chain must end at an authority of the bundle for that
purpose, in its current version.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from kubesched.foundation.http.http_messages import Request
from kubesched.foundation.metrics.server_metrics import ServerMetrics
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.scheduler.server.access.authenticators import AuthenticationError
from kubesched.scheduler.server.access.user import CallerIdentity

__all__ = ["Bundle", "ClientCertificates", "FrontProxy", "RequestHeaderNames"]

_UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_UNKNOWN_AUTHORITY = "x509: certificate signed by unknown authority"
_EXPIRED = "x509: certificate has expired or is not yet valid"
_WRONG_USAGE = "x509: certificate specifies an incompatible key usage"


class Bundle:
    """Authorities that are trusted for one purpose."""

    def __init__(self, pem: bytes) -> None:
        """Raises ValueError for a text without certificates."""
        self.pem = pem
        self._authorities = frozenset(
            _identity(each) for each in x509.load_pem_x509_certificates(pem)
        )

    def verify(self, chain: list[x509.Certificate], now_ns: int) -> None:
        """Raise AuthenticationError if the chain is stale or leads to none of the authorities."""
        if self._authorities.isdisjoint(map(_identity, chain)):
            raise AuthenticationError(_UNKNOWN_AUTHORITY)
        leaf = chain[0]
        begins = leaf.not_valid_before_utc.timestamp()
        if not begins <= now_ns / SECOND <= leaf.not_valid_after_utc.timestamp():
            raise AuthenticationError(_EXPIRED)
        if not _is_for_clients(leaf):
            raise AuthenticationError(_WRONG_USAGE)


class RequestHeaderNames(msgspec.Struct, frozen=True, kw_only=True):
    """The headers in which a proxy names the user, and the proxies that may do so."""

    username: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    extra_prefix: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()


class FrontProxy:
    """Authenticates by the headers of a proxy whose certificate is trusted for that."""

    def __init__(
        self,
        bundle: Callable[[], Bundle | None],
        names: Callable[[], RequestHeaderNames],
        clock: Clock,
    ) -> None:
        self._bundle, self._names, self._clock = bundle, names, clock

    async def authenticate(self, request: Request) -> CallerIdentity | None:
        bundle, names = self._bundle(), self._names()
        if bundle is None or not request.certificates:
            return None
        chain = _load(request.certificates)
        bundle.verify(chain, self._clock.now_ns())
        common_name = _common_name(chain[0])
        if names.allowed_names and common_name not in names.allowed_names:
            raise AuthenticationError(
                f"x509: subject with cn={common_name} is not in the allowed list"
            )
        headers = request.headers
        user = _first(value for name in names.username for value in headers.all(name))
        if not user:
            return None
        return CallerIdentity(
            name=user,
            uid=_first(value for name in names.uid for value in headers.all(name)),
            groups=tuple(value for name in names.group for value in headers.all(name)),
            extra=_extra(request, names.extra_prefix),
        )


class ClientCertificates:
    """Reads the user from the certificate: the common name, and the organizations as groups."""

    def __init__(
        self, bundle: Callable[[], Bundle | None], clock: Clock, metrics: ServerMetrics
    ) -> None:
        self._bundle, self._clock, self._metrics = bundle, clock, metrics

    async def authenticate(self, request: Request) -> CallerIdentity | None:
        bundle = self._bundle()
        if bundle is None or not request.certificates:
            return None
        chain = _load(request.certificates)
        leaf = chain[0]
        now_ns = self._clock.now_ns()
        left_seconds = leaf.not_valid_after_utc.timestamp() - now_ns / SECOND
        self._metrics.client_certificate_expiration_seconds.observe(left_seconds)
        bundle.verify(chain, now_ns)
        name = _common_name(leaf)
        if not name:
            return None
        digest = hashlib.sha256(request.certificates[0]).hexdigest()
        uids = _subject_values(leaf, _UID)
        return CallerIdentity(
            name=name,
            uid=uids[0] if len(uids) == 1 else "",
            groups=tuple(_subject_values(leaf, NameOID.ORGANIZATION_NAME)),
            extra={_CREDENTIAL_ID: (f"X509SHA256={digest}",)},
        )


def _load(certificates: tuple[bytes, ...]) -> list[x509.Certificate]:
    try:
        return [x509.load_der_x509_certificate(each) for each in certificates]
    except ValueError as exc:
        raise AuthenticationError(f"x509: malformed certificate: {exc}") from exc


def _identity(certificate: x509.Certificate) -> tuple[bytes, bytes]:
    """Identify an authority by its name and key, because it may have several certificates."""
    key = certificate.public_key()
    return (
        certificate.subject.public_bytes(),
        key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    )


def _is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    allowed = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
    return not allowed.isdisjoint(usages)


def _common_name(certificate: x509.Certificate) -> str:
    names = _subject_values(certificate, NameOID.COMMON_NAME)
    return names[-1] if names else ""


def _subject_values(certificate: x509.Certificate, oid: ObjectIdentifier) -> list[str]:
    return [str(each.value) for each in certificate.subject.get_attributes_for_oid(oid)]


def _first(values: Iterable[str]) -> str:
    return next((value for value in values if value), "")


def _extra(request: Request, prefixes: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for field, value in request.headers:
        for prefix in prefixes:
            if field.startswith(prefix.lower()):
                key = unquote(field[len(prefix) :]).lower()
                extra[key] = (*extra.get(key, ()), value)
    return extra
