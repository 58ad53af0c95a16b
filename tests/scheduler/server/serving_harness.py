"""An API server that handles reviews, and the endpoints that send them."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterable
from typing import Any

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier
from prometheus_client.registry import CollectorRegistry

from kubesched.api import ConfigMap, ObjectMeta, Pod
from kubesched.api.access import ApiError
from kubesched.api.authentication import TokenReview, TokenReviewStatus, UserInfo
from kubesched.api.authorization import SubjectAccessReview, SubjectAccessReviewStatus
from kubesched.api.meta import Status
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.http.http_messages import (
    Headers,
    Request,
    Response,
    parse_target,
)
from kubesched.foundation.metrics import SchedulerMetrics
from kubesched.foundation.util.clock import Clock
from kubesched.scheduler.config import DEFAULT_FEATURE_GATES
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.config.write import versioned
from kubesched.scheduler.server.endpoints.health_endpoints import HealthCheck, SwitchCheck
from kubesched.scheduler.server.endpoints.zpages import Versions
from kubesched.scheduler.server.options.command_line import (
    Options,
    options_from_flags,
    parse_command_line,
)
from kubesched.scheduler.server.serving.filters import ServedEndpoints
from kubesched.scheduler.server.serving.secure_server import (
    AccessControl,
    Pages,
    ServingMetrics,
    build_access_control,
    build_routes,
)

ADMIN = "admin-token"
METRICS_READER = "reader-token"
NOBODY = "nobody-token"

AUTHENTICATION_MAP = "extension-apiserver-authentication"


def refused(code: int, reason: str = "", message: str = "refused") -> ApiError:
    return ApiError(Status(status="Failure", code=code, reason=reason, message=message))


class ReviewingApi(LocalApi):
    """The embedded server with tokens and permissions that a test defines."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(Store(random.Random(1), now_ns=clock.now_ns()), clock)
        self.tokens = {
            ADMIN: UserInfo(username="admin", groups=("system:masters",)),
            METRICS_READER: UserInfo(username="reader", uid="7", groups=("monitoring",)),
            NOBODY: UserInfo(username="nobody"),
        }
        self.permissions = {("reader", "get", "/metrics")}
        self.reason = ""
        self.asked: list[str] = []
        self.failures: list[ApiError] = []
        self.answers: list[SubjectAccessReviewStatus] = []

    async def create(self, new: Any) -> Any:
        if isinstance(new, TokenReview):
            self._before("token")
            user = self.tokens.get(new.spec.token)
            status = TokenReviewStatus(error="invalid bearer token")
            if user is not None:
                status = TokenReviewStatus(authenticated=True, user=user)
            return msgspec.structs.replace(new, status=status)
        if isinstance(new, SubjectAccessReview):
            self._before("access")
            if self.answers:
                return msgspec.structs.replace(new, status=self.answers.pop(0))
            wanted = new.spec.non_resource_attributes
            assert wanted is not None
            allowed = (new.spec.user, wanted.verb, wanted.path) in self.permissions
            answer = SubjectAccessReviewStatus(allowed=allowed, reason=self.reason)
            return msgspec.structs.replace(new, status=answer)
        return await super().create(new)

    def _before(self, what: str) -> None:  # type: ignore[override]
        self.asked.append(what)
        if self.failures:
            raise self.failures.pop(0) if len(self.failures) > 1 else self.failures[0]


def options(*flags: str) -> Options:
    return options_from_flags(parse_command_line(flags))


def configuration_page() -> dict[str, Any]:
    return versioned(default_configuration(DEFAULT_FEATURE_GATES))


class ServingHarness:
    """The endpoints with everything behind them, and switches for their health."""

    def __init__(
        self,
        clock: Clock,
        *flags: str,
        delegates: bool = True,
        pods: Iterable[Pod] = (),
        is_leading: bool = True,
    ) -> None:
        self.clock = clock
        self.options = options(*flags)
        self.api = ReviewingApi(clock)
        self.synced = SwitchCheck(
            "sched-handler-sync", "handlers are not fully synchronized", is_fine=True
        )
        self.registry = CollectorRegistry()
        self.scheduler_metrics = SchedulerMetrics(self.registry)
        self.metrics = ServingMetrics(self.registry, [self.scheduler_metrics])
        api = self.api if delegates else None
        self.access: AccessControl = build_access_control(
            self.options.authentication,
            self.options.authorization,
            api,
            api,
            self.metrics.server,
            clock,
            seed=1,
        )
        elected = HealthCheck("leaderElection", lambda: None)
        self.verbosity: list[int] = []
        self.pages = Pages(
            configuration=configuration_page,
            flags={"v": "4", "bind-address": "0.0.0.0"},
            versions=Versions("1.36", "1.36", "go1.27.3"),
            healthz=(elected,),
            readyz=(
                elected,
                SwitchCheck("shutdown", "process is shutting down", is_fine=True).as_check(),
                self.synced.as_check(),
            ),
            pods=lambda: pods,
            is_leading=lambda: is_leading,
            set_verbosity=self.verbosity.append,
        )
        self.routes = build_routes(self.pages, self.metrics, clock, random.Random(1))
        self.endpoints = ServedEndpoints(
            self.routes,
            self.access.authenticators,
            self.access.authorizer,
            self.metrics.server,
            clock,
        )

    async def ask(
        self,
        target: str,
        *,
        token: str = "",
        method: str = "GET",
        body: bytes = b"",
        certificates: tuple[bytes, ...] = (),
        **headers: str,
    ) -> Response:
        fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
        if token:
            fields.append(("Authorization", f"Bearer {token}"))
        return await self.endpoints.answer(
            request(target, fields, method=method, body=body, certificates=certificates)
        )


def request(
    target: str,
    headers: Iterable[tuple[str, str]] = (),
    *,
    method: str = "GET",
    body: bytes = b"",
    certificates: tuple[bytes, ...] = (),
) -> Request:
    async def read_body() -> bytes:
        return body

    path, query = parse_target(target)
    return Request(
        method=method,
        target=target,
        path=path,
        query=query,
        headers=Headers(headers),
        certificates=certificates,
        read_body=read_body,
    )


# -- certificates ----------------------------------------------------------------------

_BEGINS = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_ENDS = datetime.datetime(2120, 1, 1, tzinfo=datetime.UTC)
_UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")


class Authority:
    """Issues certificates."""

    def __init__(self, name: str = "ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._build(self._name, self._key.public_key(), _ENDS, ca=True)
        self.pem = self.certificate.public_bytes(Encoding.PEM)

    def issue(
        self,
        common_name: str,
        *organizations: str,
        uid: str = "",
        server: bool = False,
        ends: datetime.datetime = _ENDS,
        dns_name: str = "",
    ) -> Credentials:
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
        if uid:
            parts.append(x509.NameAttribute(_UID, uid))
        if common_name:
            parts.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        certificate = self._build(
            x509.Name(parts), key.public_key(), ends, usage=usage, dns_name=dns_name
        )
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain = (
            certificate.public_bytes(Encoding.DER),
            self.certificate.public_bytes(Encoding.DER),
        )
        return Credentials(certificate.public_bytes(Encoding.PEM), secret, chain)

    def _build(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        ends: datetime.datetime,
        *,
        ca: bool = False,
        usage: ObjectIdentifier | None = None,
        dns_name: str = "",
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(_BEGINS)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if dns_name:
            names = x509.SubjectAlternativeName([x509.DNSName(dns_name)])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


class Credentials(msgspec.Struct, frozen=True):
    certificate: bytes
    key: bytes
    chain: tuple[bytes, ...]


def authentication_map(**data: str) -> ConfigMap:
    return ConfigMap(
        metadata=ObjectMeta(name=AUTHENTICATION_MAP, namespace="kube-system"),
        data={name.replace("_", "-"): value for name, value in data.items()},
    )
