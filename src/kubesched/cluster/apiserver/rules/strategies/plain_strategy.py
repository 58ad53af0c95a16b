"""The strategies of kinds that only need defaults, required fields and immutable fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    duplicate,
    immutable,
    invalid,
    required,
)
from kubesched.cluster.apiserver.rules.strategies.autoscaler_strategy import AutoscalerStrategy
from kubesched.cluster.apiserver.rules.strategies.canonical_quantities import canonical_amounts
from kubesched.cluster.apiserver.rules.strategies.certificate_strategies import (
    CertificateRequestStrategy,
)
from kubesched.cluster.apiserver.rules.strategies.ingress_strategies import (
    EndpointSliceStrategy,
    IngressClassStrategy,
    IngressStrategy,
)
from kubesched.cluster.apiserver.rules.strategies.pod_defaults import default_pod_spec
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy
from kubesched.cluster.apiserver.rules.validation.container_validation import check_quantity
from kubesched.cluster.apiserver.rules.validation.metadata_validation import check_labels
from kubesched.cluster.apiserver.rules.validation.names import (
    config_map_key,
    dns_label,
    path_segment,
)
from kubesched.cluster.apiserver.rules.validation.network_policy_validation import (
    check_network_policy,
)
from kubesched.cluster.apiserver.rules.validation.placement_validation import check_tolerations
from kubesched.cluster.apiserver.rules.validation.role_validation import (
    check_binding,
    check_role,
)
from kubesched.cluster.apiserver.rules.validation.service_validation import (
    address_name,
    check_service_network,
)
from kubesched.cluster.apiserver.rules.validation.template_validation import check_pod_template

__all__ = ["PLAIN_STRATEGIES"]

_RBAC = "rbac.authorization.k8s.io"


class PlainStrategy(ResourceStrategy):
    """A strategy that is configured by its defaults, required fields and immutable fields."""

    def __init__(
        self,
        *,
        status: bool = False,
        generation: bool = False,
        default: Callable[[Json], Json] | None = None,
        fixed: tuple[str, ...] = (),
        needed: tuple[str, ...] = (),
        names: Callable[[str], tuple[str, ...]] | None = None,
        parts: tuple[str, ...] = ("status",),
    ) -> None:
        """Configure the strategy.

        `fixed` are the immutable and `needed` the required fields, as paths of one or two steps.
        """
        self.has_status = status
        self.counts_generations = generation
        self.status_parts = parts
        self._default, self._fixed, self._needed = default, fixed, needed
        if names is not None:
            self.name_rule = names

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        return new if self._default is None else self._default(new)

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return [required(path) for path in self._needed if not _at(new, path)]

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return [
            immutable(path, _at(new, path))
            for path in self._fixed
            if _at(new, path) != _at(old, path)
        ]


class _RoleStrategy(PlainStrategy):
    """The rules for roles."""

    def __init__(self, *, namespaced: bool) -> None:
        super().__init__(default=_role, names=path_segment)
        self._namespaced = namespaced

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return list(check_role(new, namespaced=self._namespaced))


class _RoleBindingStrategy(PlainStrategy):
    """The rules for role bindings, whose role is immutable."""

    def __init__(self, *, namespaced: bool) -> None:
        super().__init__(default=_role_reference, names=path_segment)
        self._namespaced = namespaced

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return list(check_binding(new, namespaced=self._namespaced))

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        if new.get("roleRef") == old.get("roleRef"):
            return []
        return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]


class _ServiceNetworkStrategy(PlainStrategy):
    """The rules for ServiceCIDRs, which are ready at once: services can get their addresses."""

    def __init__(self) -> None:
        super().__init__(
            status=True, generation=True, fixed=("spec.cidrs",), needed=("spec.cidrs",)
        )

    def prepare_create(self, new: Json, stamp: str, /) -> Json:
        ready = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": stamp,
            "reason": "",
            "message": "Kubernetes Service CIDR is ready",
        }
        return {**new, "status": {"conditions": [ready]}}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return super().check_new(new) + check_service_network(new)


class _PodTemplateStrategy(PlainStrategy):
    """The rules for pod templates that are objects of their own."""

    def __init__(self) -> None:
        super().__init__(default=_pod_template, generation=True)

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return super().check_new(new) + check_pod_template(new.get("template") or {}, "template")


class _RuntimeClassStrategy(PlainStrategy):
    """The rules for runtime classes, whose handler is immutable."""

    def __init__(self) -> None:
        super().__init__(fixed=("handler",))

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        if not (amounts := _at(new, "overhead.podFixed")):
            return new
        overhead = {**new["overhead"], "podFixed": canonical_amounts(amounts)}
        return {**new, "overhead": overhead}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        handler = new.get("handler") or ""
        problems = [invalid("handler", handler, text) for text in dns_label(handler)]
        for name, amount in (_at(new, "overhead.podFixed") or {}).items():
            problems += check_quantity(name, amount, f"overhead.limits[{name}]")
        scheduling = new.get("scheduling") or {}
        selector = scheduling.get("nodeSelector") or {}
        problems += check_labels(selector, "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or ()
        problems += check_tolerations(tolerations, "scheduling.tolerations")
        for number, each in enumerate(tolerations):
            if each in tolerations[:number]:
                problems.append(duplicate(f"scheduling.tolerations[{number}]", each))
        return problems


class _NetworkPolicyStrategy(PlainStrategy):
    """The rules for network policies, which no component enforces."""

    def __init__(self) -> None:
        super().__init__(generation=True, default=_network_policy)

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return super().check_new(new) + check_network_policy(new)


def _at(data: Any, path: str) -> Any:
    for step in path.split("."):
        data = data.get(step) if isinstance(data, dict) else None
    return data


def _in_spec(**defaults: Any) -> Callable[[Json], Json]:
    return lambda new: {**new, "spec": {**defaults, **new.get("spec", {})}}


def _endpoints(new: Json) -> Json:
    subsets = new.get("subsets")
    if not subsets:
        return new
    filled = []
    for subset in subsets:
        ports = [{"protocol": "TCP", **port} for port in subset.get("ports") or ()]
        filled.append({**subset, "ports": ports} if ports else subset)
    return {**new, "subsets": filled}


def _pod_template(new: Json) -> Json:
    template = new.get("template") or {}
    pod = default_pod_spec(template.get("spec") or {}, template=True)
    return {**new, "template": {**template, "spec": pod}}


_WEBHOOK = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}


def _webhooks(**more: Any) -> Callable[[Json], Json]:
    def fill(hook: Mapping[str, Any]) -> Json:
        filled = {**_WEBHOOK, **more, **hook}
        service = _at(hook, "clientConfig.service")
        if isinstance(service, dict):
            filled["clientConfig"] = {**hook["clientConfig"], "service": {"port": 443, **service}}
        if hook.get("rules"):
            filled["rules"] = [{"scope": "*", **rule} for rule in hook["rules"]]
        return filled

    def default(new: Json) -> Json:
        return {**new, "webhooks": [fill(hook) for hook in new.get("webhooks") or ()]}

    return default


def _priority_level(new: Json) -> Json:
    spec = new.get("spec", {})
    if spec.get("type") == "Exempt":
        exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
        return {**new, "spec": {**spec, "exempt": {**exempt, **(spec.get("exempt") or {})}}}
    limited = {
        "nominalConcurrencyShares": 30,
        "limitResponse": {"type": "Reject"},
        "lendablePercent": 0,
        **(spec.get("limited") or {}),
    }
    if limited["limitResponse"].get("type") == "Queue":
        queuing = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
        queuing |= limited["limitResponse"].get("queuing") or {}
        limited["limitResponse"] = {**limited["limitResponse"], "queuing": queuing}
    return {**new, "spec": {**spec, "limited": limited}}


def _network_policy(new: Json) -> Json:
    spec = dict(new.get("spec", {}))
    for direction in ("ingress", "egress"):
        rules = spec.get(direction)
        if rules:
            spec[direction] = [
                {**rule, "ports": [{"protocol": "TCP", **port} for port in rule["ports"]]}
                if rule.get("ports")
                else rule
                for rule in rules
            ]
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    return {**new, "spec": spec}


def _role_reference(new: Json) -> Json:
    filled = dict(new)
    if isinstance(reference := new.get("roleRef"), dict):
        filled["roleRef"] = {**reference, "apiGroup": reference.get("apiGroup") or _RBAC}
    if new.get("subjects"):
        filled["subjects"] = [
            subject if subject.get("kind") == "ServiceAccount" else {"apiGroup": _RBAC, **subject}
            for subject in new["subjects"]
        ]
    return filled


def _role(new: Json) -> Json:
    return new if "rules" in new else {**new, "rules": []}


_COUNTED = PlainStrategy(generation=True)

# The strategies by kind. Other kinds have the default rules.
PLAIN_STRATEGIES: dict[str, ResourceStrategy] = {
    "Endpoints": PlainStrategy(default=_endpoints),
    "PodTemplate": _PodTemplateStrategy(),
    "MutatingWebhookConfiguration": PlainStrategy(
        generation=True, default=_webhooks(reinvocationPolicy="Never")
    ),
    "ValidatingWebhookConfiguration": PlainStrategy(generation=True, default=_webhooks()),
    "APIService": PlainStrategy(status=True, needed=("spec.version",)),
    "HorizontalPodAutoscaler": AutoscalerStrategy(),
    "CertificateSigningRequest": CertificateRequestStrategy(),
    "ClusterTrustBundle": PlainStrategy(fixed=("spec.signerName",), names=path_segment),
    "PodCertificateRequest": PlainStrategy(status=True, fixed=("spec",)),
    "LeaseCandidate": PlainStrategy(fixed=("spec.leaseName",), names=config_map_key),
    "FlowSchema": PlainStrategy(
        status=True,
        generation=True,
        default=_in_spec(matchingPrecedence=1000),
        needed=("spec.priorityLevelConfiguration.name",),
    ),
    "PriorityLevelConfiguration": PlainStrategy(
        status=True, generation=True, default=_priority_level, needed=("spec.type",)
    ),
    "EndpointSlice": EndpointSliceStrategy(),
    "IngressClass": IngressClassStrategy(),
    "Ingress": IngressStrategy(),
    "IPAddress": PlainStrategy(
        generation=True, fixed=("spec",), needed=("spec.parentRef",), names=address_name
    ),
    "NetworkPolicy": _NetworkPolicyStrategy(),
    "RuntimeClass": _RuntimeClassStrategy(),
    "ServiceCIDR": _ServiceNetworkStrategy(),
    "ClusterRole": _RoleStrategy(namespaced=False),
    "Role": _RoleStrategy(namespaced=True),
    "ClusterRoleBinding": _RoleBindingStrategy(namespaced=False),
    "RoleBinding": _RoleBindingStrategy(namespaced=True),
    "VolumeAttributesClass": PlainStrategy(
        needed=("driverName",), fixed=("driverName", "parameters")
    ),
    "StorageVersionMigration": PlainStrategy(status=True, generation=True),
}
