"""What `kubesched explain` shows about pods that quotas keep out."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kubesched.contrib.capacity_scheduling.elastic_quotas import (
    ELASTIC_QUOTA_KIND,
    ElasticQuotas,
    pod_amounts,
)
from kubesched.contrib.capacity_scheduling.quota_causes import GuaranteesUsedUp, QuotaMaxExceeded
from kubesched.contrib.capacity_scheduling.quota_status import used_of
from kubesched.framework import Cause, Detail, Explaining, RejectedNodes, Remedy

__all__ = ["CapacityExplaining"]


class CapacityExplaining(Explaining):
    """Explains rejections in PreFilter, which are about all nodes."""

    def __init__(self, quotas: ElasticQuotas) -> None:
        self._quotas = quotas

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        namespace = rejected.pod.metadata.namespace
        quota = self._quotas.of(namespace)
        if quota is None or not isinstance(cause, QuotaMaxExceeded | GuaranteesUsedUp):
            return Detail()
        name = cause.resource
        named = replace(quota, min={name: 0}, max={})
        asked = used_of(named, pod_amounts(rejected.pod_info))[name]
        if isinstance(cause, QuotaMaxExceeded):
            used = used_of(named, self._quotas.used(namespace))[name]
            limit = used_of(named, quota.max)[name]
            return Detail(
                asked=f"{asked} of {name}",
                sentence=f"its namespace uses {used} of the {limit} {name} that its ElasticQuota "
                f"{quota.name} allows, and the pod requests {asked}",
                brief="over the max of the quota",
            )
        used = used_of(named, self._quotas.total)[name]
        limit = used_of(named, self._quotas.guaranteed)[name]
        return Detail(
            asked=f"{asked} of {name}",
            sentence=f"all ElasticQuotas together use {used} of the {limit} {name} that they "
            f"guarantee, so there is nothing to borrow for the {asked} that the pod requests",
            brief="nothing to borrow",
        )

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        pod = rejected.pod
        namespace = pod.metadata.namespace
        quota = self._quotas.of(namespace)
        if quota is None:
            return
        stored = rejected.objects.get(ELASTIC_QUOTA_KIND.type, quota.name, namespace)
        if stored is None:
            return
        used, asked = self._quotas.used(namespace), pod_amounts(rejected.pod_info)
        needed = {name: used[name] + amount for name, amount in asked.items()}
        raised = {name: max(limit, needed.get(name, 0)) for name, limit in quota.max.items()}
        if raised != quota.max:
            limits = used_of(replace(quota, min={}), raised)
            changed = replace(stored, spec={**stored.spec, "max": limits})
            text = _listed(limits, {name for name in raised if raised[name] != quota.max[name]})
            yield Remedy(
                f"raise max of the ElasticQuota {quota.name} to {text}", 1.0, pod, (changed,)
            )
        lacking = {
            name: self._quotas.total[name] + amount - self._quotas.guaranteed[name]
            for name, amount in asked.items()
            if name in quota.min
        }
        if any(amount > 0 for amount in lacking.values()):
            more = {name: own + max(lacking.get(name, 0), 0) for name, own in quota.min.items()}
            limits = used_of(replace(quota, max={}), more)
            changed = replace(stored, spec={**stored.spec, "min": limits})
            text = _listed(limits, {name for name in more if more[name] != quota.min[name]})
            yield Remedy(
                f"raise min of the ElasticQuota {quota.name} to {text}", 1.1, pod, (changed,)
            )


def _listed(limits: dict[str, str], names: set[str]) -> str:
    return ", ".join(f"{name} {limits[name]}" for name in sorted(names))
