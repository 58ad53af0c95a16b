"""The requests of a pod and its containers, as the NUMA zones of a node must provide them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from kubesched.api import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Container,
    Pod,
    is_hugepage_resource_name,
    is_native_resource_name,
)
from kubesched.contrib.node_resource_topology.zones import amount_of
from kubesched.contrib.quality_of_service import QualityOfService, quality_of

__all__ = ["PodNeeds", "may_be_undivided"]


class PodNeeds(NamedTuple):
    """The requests of a pod and its containers."""

    is_guaranteed: bool
    init: tuple[dict[str, int], ...]
    containers: tuple[dict[str, int], ...]
    whole: dict[str, int]

    @classmethod
    def of(cls, pod: Pod) -> PodNeeds:
        init = tuple(_requests(each) for each in pod.spec.init_containers)
        containers = tuple(_requests(each) for each in pod.spec.containers)
        whole: dict[str, int] = {}
        for each in containers:
            for name, amount in each.items():
                whole[name] = whole.get(name, 0) + amount
        for each in init:
            for name, amount in each.items():
                whole[name] = max(whole.get(name, 0), amount)
        for name, raw in (pod.spec.overhead or {}).items():
            whole[name] = whole.get(name, 0) + amount_of(name, raw)
        return cls(quality_of(pod) is QualityOfService.GUARANTEED, init, containers, whole)

    @staticmethod
    def of_container(container: Container) -> dict[str, int]:
        return _requests(container)

    @property
    def key(self) -> Hashable:
        """A value that is equal for pods with the same needs."""
        parts = (self.whole, *self.init, {}, *self.containers)
        return self.is_guaranteed, tuple(tuple(sorted(each.items())) for each in parts)

    def is_unlimited(self, name: str) -> bool:
        """Whether zones do not limit the resource: cpu or memory of pods not in Guaranteed."""
        is_shared = name in (CPU, MEMORY) or is_hugepage_resource_name(name)
        return is_shared and not self.is_guaranteed

    @property
    def concerns_zones(self) -> bool:
        """Whether zones matter: False for pods without requests, as far as zones count them."""
        return any(self.whole.values())


def _requests(container: Container) -> dict[str, int]:
    resources = container.resources
    amounts = {**resources.limits, **resources.requests}
    found = {name: amount_of(name, raw) for name, raw in amounts.items()}
    return {name: amount for name, amount in found.items() if amount}


def may_be_undivided(name: str) -> bool:
    """Whether a resource that no zone lists belongs to the whole node."""
    return not is_native_resource_name(name) or name == EPHEMERAL_STORAGE
