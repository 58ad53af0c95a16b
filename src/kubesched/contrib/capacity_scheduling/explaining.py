"""The details that `kubesched explain` shows about pods that quotas reject."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.custom_kinds import CustomObject
from kubesched.contrib.amounts import as_quantity, shown
from kubesched.contrib.capacity_scheduling.elastic_quotas import (
    ELASTIC_QUOTA_KIND,
    Amounts,
    ElasticQuotas,
    Quota,
    pod_amounts,
)
from kubesched.contrib.capacity_scheduling.quota_causes import GuaranteesUsedUp, QuotaMaxExceeded
from kubesched.framework import Cause, Detail, Explaining, RejectedNodes, Remedy

__all__ = ["CapacityExplaining"]


class CapacityExplaining(Explaining):
    """Explains rejections by PreFilter, which apply to all nodes."""

    def __init__(self, quotas: ElasticQuotas) -> None:
        self._quotas = quotas

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        namespace = rejected.pod.metadata.namespace
        quota = self._quotas.of(namespace)
        if quota is None or not isinstance(cause, QuotaMaxExceeded | GuaranteesUsedUp):
            return Detail()
        name = cause.resource
        asked = shown(name, pod_amounts(rejected.pod_info).get(name, 0))
        if isinstance(cause, QuotaMaxExceeded):
            used = shown(name, self._quotas.used(namespace)[name])
            limit = shown(name, quota.max[name])
            return Detail(
                asked=f"{asked} of {name}",
                sentence=f"its namespace uses {used} of the {limit} {name} that its ElasticQuota "
                f"{quota.name} allows, and the pod requests {asked}",
                brief="over the max of the quota",
            )
        used = shown(name, self._quotas.total[name])
        limit = shown(name, self._quotas.guaranteed[name])
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
        asked = pod_amounts(rejected.pod_info)
        higher = _Limits(self._higher_max(quota, asked), self._higher_min(quota, asked))
        for limits, size in ((_Limits(max=higher.max), 1.0), (_Limits(min=higher.min), 1.1)):
            if limits.names:
                yield _raise(quota, stored, limits, pod, size)
        if higher.max and higher.min:
            yield _raise(quota, stored, higher, pod, 2.1)

    def _higher_max(self, quota: Quota, asked: Amounts) -> dict[str, int]:
        """Return the `max` values that the pod needs, for the resources whose `max` is too low."""
        used = self._quotas.used(quota.namespace)
        needed = {name: used[name] + amount for name, amount in asked.items()}
        return {
            name: needed[name] for name in asked if quota.max.get(name, needed[name]) < needed[name]
        }

    def _higher_min(self, quota: Quota, asked: Amounts) -> dict[str, int]:
        """Return the `min` values with which the guarantees cover the usage with the pod."""
        total, guaranteed = self._quotas.total, self._quotas.guaranteed
        return {
            name: quota.min.get(name, 0) + lacking
            for name, amount in asked.items()
            if name in guaranteed and (lacking := total[name] + amount - guaranteed[name]) > 0
        }


class _Limits(NamedTuple):
    """Changed limits of a quota; resources whose limits stay the same are absent."""

    max: dict[str, int] = {}
    min: dict[str, int] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field for field in self._fields if getattr(self, field))


def _raise(quota: Quota, stored: CustomObject, limits: _Limits, pod: Pod, size: float) -> Remedy:
    patch: dict[str, dict[str, str]] = {
        field: {name: as_quantity(name, each) for name, each in getattr(limits, field).items()}
        for field in limits.names
    }
    spec = {**stored.spec}
    for field, amounts in patch.items():
        spec[field] = {**(spec.get(field) or {}), **amounts}
    parts = " and ".join(f"{field} to {_listed(amounts)}" for field, amounts in patch.items())
    document = json.dumps({"spec": patch}, separators=(",", ":"))
    return Remedy(
        f"raise {parts} of the ElasticQuota {quota.name}",
        size,
        pod,
        (replace(stored, spec=spec),),
        command=f"kubectl patch elasticquota {quota.name} -n {quota.namespace} "
        f"--type=merge -p '{document}'",
    )


def _listed(limits: dict[str, str]) -> str:
    return ", ".join(f"{name} {limits[name]}" for name in sorted(limits))
