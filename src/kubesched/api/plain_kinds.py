"""Built-in kinds of which kubesched reads only the metadata, or single fields.

A server accepts, stores and lists them, and `ApiAccess` accepts their types. A kind that scheduling
or a controller reads has a complete type in `kinds`.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, ClassVar, Final

from kubesched.api.base import ApiObject
from kubesched.api.kinds import Kind
from kubesched.api.meta import ObjectMeta

__all__ = ["PLAIN_KINDS", "Endpoints", "LeaseCandidate", "PlainObject", "plain_type"]


class PlainObject(ApiObject):
    """An object of which only the metadata is decoded."""

    # The kind of the type; `kind_of` reads it.
    custom_kind: ClassVar[Kind | None] = None

    metadata: ObjectMeta = ObjectMeta()


class Endpoints(PlainObject):
    """The addresses behind a Service in the old form, as plain JSON."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Endpoints"

    subsets: list[dict[str, Any]] = []


class LeaseCandidate(PlainObject):
    """A replica that may be elected to hold a lease; the spec is plain JSON."""

    api_version: ClassVar[str] = "coordination.k8s.io/v1beta1"
    kind: ClassVar[str] = "LeaseCandidate"

    spec: dict[str, Any] = {}


@cache
def plain_type(api_version: str, kind: str) -> type[PlainObject]:
    """Return the type of a kind; the same names return the same type."""
    for known in (Endpoints, LeaseCandidate):
        if (known.api_version, known.kind) == (api_version, kind):
            return known
    members = {"__module__": __name__, "api_version": api_version, "kind": kind}
    made: type[PlainObject] = types.new_class(
        kind, (PlainObject,), {"frozen": True}, lambda body: body.update(members)
    )
    return made


def _kind(api_version: str, kind: str, plural: str, scope: str, *short_names: str) -> Kind:
    return Kind(plain_type(api_version, kind), plural, scope == "ns", short_names)


_ADMISSION: Final = "admissionregistration.k8s.io/v1"
_RBAC: Final = "rbac.authorization.k8s.io/v1"
_FLOW: Final = "flowcontrol.apiserver.k8s.io/v1"

PLAIN_KINDS: Final[tuple[Kind, ...]] = (
    _kind("v1", "ComponentStatus", "componentstatuses", "", "cs"),
    _kind("v1", "Endpoints", "endpoints", "ns", "ep"),
    _kind("v1", "PodTemplate", "podtemplates", "ns"),
    _kind(_ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", ""),
    _kind(_ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", ""),
    _kind("apiregistration.k8s.io/v1", "APIService", "apiservices", ""),
    _kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "ns", "hpa"),
    _kind("autoscaling/v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "ns", "hpa"),
    _kind(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        "",
        "csr",
    ),
    _kind("certificates.k8s.io/v1beta1", "ClusterTrustBundle", "clustertrustbundles", ""),
    _kind("certificates.k8s.io/v1beta1", "PodCertificateRequest", "podcertificaterequests", "ns"),
    _kind("coordination.k8s.io/v1beta1", "LeaseCandidate", "leasecandidates", "ns"),
    _kind(_FLOW, "FlowSchema", "flowschemas", ""),
    _kind(_FLOW, "PriorityLevelConfiguration", "prioritylevelconfigurations", ""),
    _kind("networking.k8s.io/v1", "IngressClass", "ingressclasses", ""),
    _kind("networking.k8s.io/v1", "Ingress", "ingresses", "ns", "ing"),
    _kind("networking.k8s.io/v1", "IPAddress", "ipaddresses", "", "ip"),
    _kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", "ns", "netpol"),
    _kind("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", ""),
    _kind(_RBAC, "ClusterRole", "clusterroles", ""),
    _kind(_RBAC, "ClusterRoleBinding", "clusterrolebindings", ""),
    _kind(_RBAC, "Role", "roles", "ns"),
    _kind(_RBAC, "RoleBinding", "rolebindings", "ns"),
    _kind("storage.k8s.io/v1", "VolumeAttributesClass", "volumeattributesclasses", "", "vac"),
    _kind(
        "storagemigration.k8s.io/v1beta1", "StorageVersionMigration", "storageversionmigrations", ""
    ),
)
for _each in PLAIN_KINDS:
    _each.type.custom_kind = _each  # type: ignore[attr-defined]  # every one is a PlainObject
