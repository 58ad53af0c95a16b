"""The strategies of namespaces, priority classes, leases, disruption budgets, services, quotas."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.strategies.canonical_quantities import canonical_amounts
from kubesched.cluster.apiserver.rules.strategies.limit_ranges import default_limit_range
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import (
    Json,
    ObjectLookup,
    ResourceStrategy,
)
from kubesched.cluster.apiserver.rules.strategies.service_addresses import (
    allocate_addresses,
    inherit_addresses,
)
from kubesched.cluster.apiserver.rules.validation.names import dns_1035_label, dns_label
from kubesched.cluster.apiserver.rules.validation.object_validation import (
    check_budget,
    check_lease,
    check_priority_class,
    check_priority_class_update,
)
from kubesched.cluster.apiserver.rules.validation.quota_validation import (
    check_limit_range,
    check_quota,
    check_quota_update,
)
from kubesched.cluster.apiserver.rules.validation.service_validation import (
    check_service,
    check_service_update,
)

__all__ = [
    "BudgetStrategy",
    "LeaseStrategy",
    "LimitRangeStrategy",
    "NamespaceStrategy",
    "PriorityClassStrategy",
    "ResourceQuotaStrategy",
    "ServiceStrategy",
    "StatusStrategy",
]

_NAME_LABEL = "kubernetes.io/metadata.name"


class StatusStrategy(ResourceStrategy):
    """The strategy of kinds whose only rule is that the status is a subresource."""

    has_status = True


class NamespaceStrategy(StatusStrategy):
    """The rules for namespaces, which have a name label, a finalizer and a phase."""

    name_rule = staticmethod(dns_label)

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        name = new["metadata"].get("name", "")
        labels = new["metadata"].get("labels", {})
        if not name or labels.get(_NAME_LABEL) == name:
            return new
        return {**new, "metadata": {**new["metadata"], "labels": {**labels, _NAME_LABEL: name}}}

    def prepare_create(self, new: Json, _stamp: str, /) -> Json:
        new = self.default(new)
        finalizers = ["kubernetes"]
        return {
            **new,
            "spec": {**new.get("spec", {}), "finalizers": finalizers},
            "status": {"phase": "Active"},
        }

    def prepare_update(self, new: Json, old: Json, /) -> Json:
        return {**new, "spec": old.get("spec", {}), "status": old.get("status", {})}


class PriorityClassStrategy(ResourceStrategy):
    """The rules for priority classes, whose value is immutable."""

    counts_generations = True

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        if new.get("preemptionPolicy"):
            return new
        return {**new, "preemptionPolicy": "PreemptLowerPriority"}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_priority_class(new)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_priority_class_update(new, old)


class LeaseStrategy(ResourceStrategy):
    """The rules for leases, whose updates need a resource version."""

    unconditional_update = False

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_lease(new)


class BudgetStrategy(StatusStrategy):
    """The rules for pod disruption budgets."""

    counts_generations = True
    unconditional_update = False

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_budget(new)


def _with_address_modes(service: Json) -> Json:
    """Complete the addresses of a load balancer: packets to them keep their destination."""
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    entries = balancer.get("ingress") or []
    if all("ipMode" in each or not each.get("ip") for each in entries):
        return service
    filled = [{"ipMode": "VIP", **each} if each.get("ip") else each for each in entries]
    return {
        **service,
        "status": {**service["status"], "loadBalancer": {**balancer, "ingress": filled}},
    }


class ServiceStrategy(StatusStrategy):
    """The rules for services, which get addresses and node ports."""

    name_rule = staticmethod(dns_1035_label)

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        new = _with_address_modes(new)
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        filled = {"type": "ClusterIP", "sessionAffinity": "None", **spec}
        kind = filled["type"]
        if kind != "ExternalName":
            filled.setdefault("internalTrafficPolicy", "Cluster")
        if kind in ("NodePort", "LoadBalancer"):
            filled.setdefault("externalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            filled.setdefault("allocateLoadBalancerNodePorts", True)
        if filled["sessionAffinity"] == "ClientIP":
            filled.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": 10800}})
        if addresses := filled.get("clusterIPs"):
            filled.setdefault("clusterIP", addresses[0])
        if ports := spec.get("ports"):
            filled["ports"] = [
                {
                    "protocol": "TCP",
                    **port,
                    "targetPort": port.get("targetPort") or port.get("port"),
                }
                for port in ports
            ]
        return {**new, "spec": filled}

    def admit(self, new: Json, cluster: ObjectLookup, /) -> Json:
        # A service that is not valid gets no addresses: the store refuses it afterwards.
        return new if check_service(new) else allocate_addresses(new, cluster)

    def admit_update(self, new: Json, old: Json, cluster: ObjectLookup, /) -> Json:
        if new["spec"] == old.get("spec"):
            return new
        return allocate_addresses(new, cluster, old)

    def prepare_create(self, new: Json, stamp: str, /) -> Json:
        return {**super().prepare_create(new, stamp), "status": {"loadBalancer": {}}}

    def prepare_update(self, new: Json, old: Json, /) -> Json:
        """Preserve the addresses that an update omits."""
        return inherit_addresses(super().prepare_update(new, old), old)

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_service(new)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_service_update(new, old)


class ResourceQuotaStrategy(StatusStrategy):
    """The rules for resource quotas. The store updates their usage."""

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if (old is not None and spec is old.get("spec")) or not spec.get("hard"):
            return {**new, "spec": spec}
        return {**new, "spec": {**spec, "hard": canonical_amounts(spec["hard"])}}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return list(check_quota(new))

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_quota_update(new, old)


class LimitRangeStrategy(ResourceStrategy):
    """The rules for limit ranges."""

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        return {**new, "spec": default_limit_range(spec)}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return list(check_limit_range(new))
