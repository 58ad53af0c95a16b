"""The ElasticQuotas of a cluster, and the resources that their namespaces use.

This class performs no I/O. Amounts are integers by resource: cpu in thousandths, memory in bytes,
all other resources in units. A resource that is absent from `max` is not limited. A resource that
is absent from `min` is not guaranteed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from kubesched.api import CPU, EPHEMERAL_STORAGE, MEMORY, Pod, Resources
from kubesched.api.custom_kinds import CustomObject, custom_resource
from kubesched.framework import PodInfo

__all__ = [
    "ELASTIC_QUOTAS",
    "ELASTIC_QUOTA_KIND",
    "MOST_QUOTA_RESOURCES",
    "Amounts",
    "ElasticQuotas",
    "LeavingPod",
    "Quota",
    "QuotaTrial",
    "pod_amounts",
]

ELASTIC_QUOTAS: Final = "elasticquotas.v1alpha1.scheduling.x-k8s.io"
ELASTIC_QUOTA_KIND: Final = custom_resource(ELASTIC_QUOTAS, "ElasticQuota")

Amounts = Mapping[str, int]

# The others count as absent: all quotas are added up whenever one changes.
MOST_QUOTA_RESOURCES: Final = 500
_ENDED_PHASES: Final = ("Succeeded", "Failed")


class Quota(msgspec.Struct, frozen=True):
    """The quota of a namespace: the guaranteed amounts and the limits."""

    name: str
    namespace: str
    min: dict[str, int]
    max: dict[str, int]


class LeavingPod(NamedTuple):
    """A pod that is terminating or will be evicted."""

    namespace: str
    amounts: dict[str, int]
    is_preempted: bool  # whether a scheduler evicts it to make room for another pod


def is_preempted(pod: Pod) -> bool:
    """Whether the pod's conditions say that a scheduler evicts it to make room for another pod."""
    return any(
        each.type == "DisruptionTarget" and each.reason == "PreemptionByScheduler"
        for each in pod.status.conditions
    )


def pod_amounts(pod_info: PodInfo) -> dict[str, int]:
    """Return the requests of a pod; resources that it does not request are absent."""
    requested = pod_info.requested
    amounts = {
        CPU: requested.milli_cpu,
        MEMORY: requested.memory,
        EPHEMERAL_STORAGE: requested.ephemeral_storage,
        **requested.scalar,
    }
    return {name: amount for name, amount in amounts.items() if amount}


class QuotaTrial:
    """A copy of the quota usage that a dry run modifies."""

    def __init__(self, quotas: ElasticQuotas, changes: Mapping[str, Counter[str]] = {}) -> None:
        self._quotas = quotas
        self._changes = {namespace: Counter(each) for namespace, each in changes.items()}

    def clone(self) -> QuotaTrial:
        return QuotaTrial(self._quotas, self._changes)

    def change(self, namespace: str, amounts: Amounts, sign: int) -> None:
        """Count the pods as added (1) or removed (-1)."""
        if self._quotas.of(namespace) is None:
            return
        own = self._changes.setdefault(namespace, Counter())
        for name, amount in amounts.items():
            own[name] += sign * amount

    def used(self, namespace: str, name: str) -> int:
        changes = self._changes.get(namespace)
        return self._quotas.used(namespace)[name] + (changes[name] if changes else 0)

    def is_over_min(self, quota: Quota, more: Amounts) -> bool:
        """Whether the usage of the namespace, plus `more`, exceeds its guaranteed amounts.

        Only resources that some quota guarantees are compared. If `more` is not empty, only its
        resources are compared.
        """
        guaranteed = self._quotas.guaranteed.keys()
        names = more.keys() & guaranteed if more else guaranteed
        return any(
            self.used(quota.namespace, name) + more.get(name, 0) > quota.min.get(name, 0)
            for name in names
        )

    def over_max(self, quota: Quota, more: Amounts) -> str:
        """Return a requested resource for which the namespace would exceed its `max`, if any."""
        for name, amount in more.items():
            limit = quota.max.get(name)
            if limit is not None and self.used(quota.namespace, name) + amount > limit:
                return name
        return ""

    def over_guaranteed(self, more: Amounts) -> str:
        """Return a requested resource of which all quotas would use more than they guarantee."""
        guaranteed = self._quotas.guaranteed
        for name, amount in more.items():
            if name in guaranteed and self._total(name) + amount > guaranteed[name]:
                return name
        return ""

    def _total(self, name: str) -> int:
        changed = sum(each[name] for each in self._changes.values())
        return self._quotas.total[name] + changed


class ElasticQuotas:
    """Tracks quotas and pods. A pod counts from the moment when a node is reserved for it."""

    def __init__(self) -> None:
        self._quotas: dict[str, dict[str, Quota]] = {}  # by namespace and name
        self._created: dict[tuple[str, str], str] = {}
        self._pods: dict[str, tuple[str, dict[str, int]]] = {}  # by uid
        self._used: dict[str, Counter[str]] = {}  # by namespace
        # Terminating pods by uid. They count as used until they are deleted.
        self.leaving: dict[str, LeavingPod] = {}  # by uid
        # Sums over all namespaces with a quota: the guaranteed amounts, and the used amounts.
        self.guaranteed: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        # Called with the namespace when its quota or its usage has changed.
        self.on_change: list[Callable[[str], None]] = []

    def of(self, namespace: str) -> Quota | None:
        """Return the quota of a namespace. If there are several, the oldest one applies."""
        quotas = self._quotas.get(namespace)
        if not quotas:
            return None
        return min(
            quotas.values(), key=lambda each: (self._created[namespace, each.name], each.name)
        )

    def used(self, namespace: str) -> Counter[str]:
        return self._used.get(namespace, _NOTHING)

    def __iter__(self) -> Iterator[Quota]:
        for namespace in self._quotas:
            quota = self.of(namespace)
            if quota is not None:
                yield quota

    def quota_changed(self, old: CustomObject | None, new: CustomObject | None) -> None:
        changed = new if new is not None else old
        assert changed is not None, "a change has an object"
        metadata = changed.metadata
        namespace, name = metadata.namespace, metadata.name
        self._quotas.setdefault(namespace, {}).pop(name, None)
        if new is not None:
            self._created[namespace, name] = metadata.creation_timestamp or ""
            self._quotas[namespace][name] = Quota(
                name, namespace, _amounts(new.spec.get("min")), _amounts(new.spec.get("max"))
            )
        if not self._quotas[namespace]:
            del self._quotas[namespace]
        self._sum_up()
        self._report(namespace)

    def _sum_up(self) -> None:
        self.guaranteed, self.total = Counter(), Counter()
        for quota in self:
            self.guaranteed.update(quota.min)
            self.total.update(self.used(quota.namespace))

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self.remove(old)
        elif new.status.phase in _ENDED_PHASES:
            self.remove(new)
        elif new.spec.node_name and not _is_known(self._pods.get(new.metadata.uid), old, new):
            self.remove(new)
            self.add(new)
        if (
            new is not None
            and new.metadata.deletion_timestamp
            and (counted := self._pods.get(new.metadata.uid))
        ):
            self.leaving[new.metadata.uid] = LeavingPod(*counted, is_preempted(new))

    def add(self, pod: Pod) -> None:
        """Count a pod that has a node. A pod that is already counted is not counted twice."""
        uid, namespace = pod.metadata.uid, pod.metadata.namespace
        if uid not in self._pods:
            amounts = pod_amounts(PodInfo(pod))
            self._pods[uid] = namespace, amounts
            self._add(namespace, amounts, 1)

    def remove(self, pod: Pod) -> None:
        counted = self._pods.pop(pod.metadata.uid, None)
        self.leaving.pop(pod.metadata.uid, None)
        if counted is not None:
            self._add(*counted, -1)

    def _add(self, namespace: str, amounts: Amounts, sign: int) -> None:
        used = self._used.setdefault(namespace, Counter())
        has_quota = namespace in self._quotas
        for name, amount in amounts.items():
            used[name] += sign * amount
            if has_quota:
                self.total[name] += sign * amount
        if has_quota:
            self._report(namespace)

    def _report(self, namespace: str) -> None:
        for listener in self.on_change:
            listener(namespace)


_NOTHING: Final[Counter[str]] = Counter()


def _is_known(counted: Any, old: Pod | None, new: Pod) -> bool:
    """Whether the pod is already counted with the same requests."""
    if counted is None or old is None:
        return counted is not None and old is None
    return old.spec is new.spec or old.spec.containers == new.spec.containers


def _amounts(raw: Any) -> dict[str, int]:
    """Parse a resource list; an invalid quantity counts as absent."""
    if not isinstance(raw, dict):
        return {}
    amounts = {}
    for name, quantity in itertools.islice(raw.items(), MOST_QUOTA_RESOURCES):
        try:
            amounts[name] = Resources.from_resource_list({name: quantity}).amount(name)
        except (ValueError, TypeError):
            continue
    return amounts
