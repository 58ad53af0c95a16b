"""Signing of approved certificate requests, and the authority that the API server trusts.

The authority is created when it is first needed, because most clusters sign no certificate.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final

from kubesched.api import ApiError
from kubesched.api.plain_kinds import plain_type
from kubesched.api.time import format_time
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

if TYPE_CHECKING:
    from cryptography import x509

    from kubesched.foundation.http.client_authority import ClientAuthority

__all__ = ["CertificateSigner", "LazyAuthority"]

Json = dict[str, Any]

_NAME: Final = "kubesched-client-ca"
_DAYS: Final = 3650
_SHORTEST, _LONGEST = 600, 365 * 24 * 3600
_CLIENT: Final = "kubernetes.io/kube-apiserver-client"
_KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
_KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_NODES, _NODE = "system:nodes", "system:node:"

log = get_logger(__name__)


class LazyAuthority:
    """The authority for client certificates, which exists once a certificate was needed."""

    def __init__(
        self,
        clock: Clock,
        load: Callable[[Callable[[], bytes]], bytes],
        context: Callable[[], ssl.SSLContext | None],
    ) -> None:
        """`load` returns the stored text of the authority, or stores a new one.

        `context` returns the TLS context of the API server, which then accepts certificates.
        """
        self._clock, self._load, self._context = clock, load, context
        self._authority: ClientAuthority | None = None

    def get(self) -> ClientAuthority:
        """Return the authority.

        The first call creates it, and the server trusts it from then on.
        """
        if self._authority is None:
            # Imported here: this import takes longer than all other imports of the cluster.
            from kubesched.foundation.http.client_authority import ClientAuthority

            text = self._load(
                lambda: ClientAuthority.create(_NAME, self._clock.now_ns(), days=_DAYS)
            )
            self._authority = ClientAuthority(text)
            if (context := self._context()) is not None:
                context.load_verify_locations(cadata=self._authority.certificate.decode())
                context.verify_mode = ssl.CERT_OPTIONAL
        return self._authority


class CertificateSigner:
    """Issues a certificate for each approved request to one of the signers of Kubernetes."""

    def __init__(self, store: Store, clock: Clock, authority: LazyAuthority) -> None:
        self._store, self._clock, self._authority = store, clock, authority
        self._resource = store.catalog.by_type(
            plain_type("certificates.k8s.io/v1", "CertificateSigningRequest")
        )
        self._stop = StopSwitch()

    async def run(self) -> None:
        await self._stop.guard(self._sign_after_changes())

    def stop(self) -> None:
        self._stop.set()

    async def _sign_after_changes(self) -> None:
        collection = self._store.collection(self._resource)
        changed = asyncio.Event()
        while True:
            self.sign_approved()
            changed.clear()
            collection.call_on_change(changed.set)
            try:
                await changed.wait()
            finally:
                collection.cancel_call(changed.set)

    def sign_approved(self) -> None:
        """Sign the approved requests that have no certificate."""
        for record in list(self._store.collection(self._resource).objects.values()):
            if not _is_due(record.data):
                continue
            status = self._status(record.data)
            name = record.data["metadata"]["name"]
            body = {**record.data, "status": status}
            now_ns = self._clock.now_ns()
            try:
                self._store.update(self._resource, None, name, body, now_ns, subresource="status")
            except ApiError as error:
                log.warning("Could not sign a request", name=name, error=error)

    def _status(self, request: Json) -> Json:
        """Return the status with the certificate, or with the reason for a failure."""
        from kubesched.foundation.http.client_authority import read_request

        spec, status = request["spec"], request["status"]
        usages = spec.get("usages") or ()
        try:
            parsed = read_request(base64.b64decode(spec["request"]))
            check_request(spec["signerName"], parsed, usages)
        except ValueError as error:
            now = format_time(self._clock.now_ns())
            failed = {
                "type": "Failed",
                "status": "True",
                "reason": "SignerValidationFailure",
                "message": str(error),
                "lastUpdateTime": now,
                "lastTransitionTime": now,
            }
            return {**status, "conditions": [*status["conditions"], failed]}
        seconds = spec.get("expirationSeconds")
        lasts = _LONGEST if seconds is None else max(_SHORTEST, min(seconds, _LONGEST))
        now_ns = self._clock.now_ns()
        certificate = self._authority.get().sign(parsed, usages, now_ns, lasts)
        return {**status, "certificate": base64.b64encode(certificate).decode()}


def _is_due(request: Json) -> bool:
    status = request.get("status") or {}
    if status.get("certificate") or request["spec"].get("signerName") not in _CHECKS:
        return False
    types = {each.get("type") for each in status.get("conditions") or ()}
    return "Approved" in types and types.isdisjoint(("Denied", "Failed"))


def check_request(
    signer: str, request: x509.CertificateSigningRequest, usages: Collection[str]
) -> None:
    """Raises ValueError if a signer does not sign such a request."""
    _CHECKS[signer](request, frozenset(usages))


def _check_client(_request: x509.CertificateSigningRequest, usages: frozenset[str]) -> None:
    for usage in sorted(usages - {"client auth", "digital signature", "key encipherment"}):
        raise ValueError(f"invalid usage for client certificate: {usage}")
    if "client auth" not in usages:
        raise ValueError("missing required usage for client certificate: client auth")


def _check_node(request: x509.CertificateSigningRequest) -> None:
    from kubesched.foundation.http.client_authority import request_subject

    subject = request_subject(request)
    if subject.organizations != (_NODES,):
        raise ValueError("subject organization is not system:nodes")
    if not subject.common_name.startswith(_NODE):
        raise ValueError("subject common name does not begin with system:node:")


def _check_kubelet_client(request: x509.CertificateSigningRequest, usages: frozenset[str]) -> None:
    from kubesched.foundation.http.client_authority import alternative_names

    _check_node(request)
    for name in alternative_names(request) or ():
        kind = {"DNSName": "DNS", "IPAddress": "IP", "RFC822Name": "Email"}
        shown = kind.get(type(name).__name__, "URI")
        raise ValueError(f"{shown} subjectAltNames are not allowed")
    if usages - {"key encipherment"} != {"client auth", "digital signature"}:
        raise ValueError("usages did not match [client auth digital signature key encipherment]")


def _check_kubelet_serving(request: x509.CertificateSigningRequest, usages: frozenset[str]) -> None:
    from kubesched.foundation.http.client_authority import alternative_names

    _check_node(request)
    names = [type(name).__name__ for name in alternative_names(request) or ()]
    if not {"DNSName", "IPAddress"} & set(names):
        raise ValueError("DNS or IP subjectAltName is required")
    for kind, shown in (("RFC822Name", "Email"), ("UniformResourceIdentifier", "URI")):
        if kind in names:
            raise ValueError(f"{shown} subjectAltNames are not allowed")
    if usages - {"key encipherment"} != {"server auth", "digital signature"}:
        raise ValueError("usages did not match [server auth digital signature key encipherment]")


def _check_nothing(_request: x509.CertificateSigningRequest, _usages: frozenset[str]) -> None:
    pass


_CHECKS: Final = {
    _CLIENT: _check_client,
    _KUBELET_CLIENT: _check_kubelet_client,
    _KUBELET_SERVING: _check_kubelet_serving,
    _LEGACY: _check_nothing,
}
