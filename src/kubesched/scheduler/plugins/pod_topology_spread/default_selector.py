"""Selectors for the default constraints, from services and controllers.

docs/reference/06 §1.3.
"""

from __future__ import annotations

from collections.abc import Hashable

from kubesched.api import (
    LabelSelector,
    OwnerReference,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from kubesched.api.labels import EVERYTHING, Selector
from kubesched.api.sized_caches import MOST_WEIGHT
from kubesched.errors import SelectorError
from kubesched.framework import Handle
from kubesched.framework.pod_limits import MOST_SELECTOR_EXPRESSIONS
from kubesched.scheduler.plugins.pod_topology_spread.spread_constraints import selector_key

__all__ = ["DefaultSelectors"]

_MAX_CACHED = 4096


class DefaultSelectors:
    """Derives a pod's selector from its services and its controller, with a cache."""

    def __init__(self, handle: Handle) -> None:
        self._services = handle.lister(Service)
        self._replication_controllers = handle.lister(ReplicationController)
        self._replica_sets = handle.lister(ReplicaSet)
        self._stateful_sets = handle.lister(StatefulSet)
        self._cache: dict[Hashable, Selector] = {}

    def selector_for(self, pod: Pod) -> Selector:
        """Return a selector for the pods that are spread together.

        The result is empty if there is none, or if its labels are beyond the limit for the
        selectors of a pod's own constraints.
        """
        if not pod.metadata.labels and not pod.metadata.owner_references:
            return EVERYTHING  # no service can select the pod
        namespace = pod.metadata.namespace
        services = self._services.list(namespace)
        if not services and not pod.metadata.owner_references:
            return EVERYTHING
        own_labels = pod.metadata.labels.items()
        labels: dict[str, str] = {}
        for service in services:
            selected = service.spec.selector
            if selected is None or len(selected) > MOST_SELECTOR_EXPRESSIONS:
                continue
            if selected.items() <= own_labels:
                labels.update(selected)
        more: LabelSelector | None = None
        for owner in pod.metadata.owner_references:
            if owner.controller:
                more = self._of_controller(owner, namespace, labels)
                break
        if (not labels and more is None) or len(labels) > MOST_SELECTOR_EXPRESSIONS:
            return EVERYTHING
        key = (frozenset(labels.items()), selector_key(more))
        selector = self._cache.get(key)
        if selector is None:
            selector = _combined(labels, more)
            if selector.weight <= MOST_WEIGHT:
                if len(self._cache) >= _MAX_CACHED:
                    self._cache.clear()
                self._cache[key] = selector
        return selector

    def _of_controller(
        self, owner: OwnerReference, namespace: str, labels: dict[str, str]
    ) -> LabelSelector | None:
        """Return the controller's selector; add it to `labels` if it is a plain map."""
        kind = (owner.api_version, owner.kind)
        if kind == ("v1", "ReplicationController"):
            controller = self._replication_controllers.get(owner.name, namespace)
            if controller is not None:
                labels.update(controller.spec.selector or {})
        elif kind == ("apps/v1", "ReplicaSet"):
            replica_set = self._replica_sets.get(owner.name, namespace)
            return None if replica_set is None else replica_set.spec.selector
        elif kind == ("apps/v1", "StatefulSet"):
            stateful_set = self._stateful_sets.get(owner.name, namespace)
            return None if stateful_set is None else stateful_set.spec.selector
        return None


def _combined(labels: dict[str, str], more: LabelSelector | None) -> Selector:
    selector = Selector.from_map(labels)
    if more is None:
        return selector
    try:
        return selector.add(*Selector.from_label_selector(more).requirements)
    except SelectorError:
        return selector  # a controller with an invalid selector adds nothing
