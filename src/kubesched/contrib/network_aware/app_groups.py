"""AppGroups of appgroup.diktyo.x-k8s.io/v1alpha1: the workloads of an application, and which of
them depend on which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from kubesched.api import Pod
from kubesched.api.custom_kinds import CustomObject, custom_resource
from kubesched.contrib.network_aware.workload_order import workload_order
from kubesched.framework import Handle

__all__ = [
    "APP_GROUPS",
    "APP_GROUP_KIND",
    "APP_GROUP_LABEL",
    "MOST_DEPENDENCIES",
    "MOST_WORKLOADS",
    "WORKLOAD_LABEL",
    "AppGroup",
    "AppGroups",
    "WorkloadDependency",
    "app_groups",
    "read_app_group",
]

APP_GROUPS: Final = "appgroups.v1alpha1.appgroup.diktyo.x-k8s.io"
APP_GROUP_KIND: Final = custom_resource(APP_GROUPS, "AppGroup")
# An attempt counts the pods of each workload that its pod depends on. The others are ignored.
MOST_WORKLOADS: Final = 1_000
MOST_DEPENDENCIES: Final = 100
APP_GROUP_LABEL: Final = "appgroup.diktyo.x-k8s.io"
WORKLOAD_LABEL: Final = "appgroup.diktyo.x-k8s.io.workload"


class WorkloadDependency(msgspec.Struct, frozen=True):
    """A workload that another one sends requests to."""

    workload: str  # the value of the label of its pods
    max_cost: int
    # Where it is in the spec of the AppGroup: the index of the workload, and of the dependency.
    position: tuple[int, int] = (0, 0)


class AppGroup(msgspec.Struct, frozen=True):
    """An application. Workloads are named by the value of their pods' label."""

    name: str
    namespace: str
    dependencies: Mapping[str, tuple[WorkloadDependency, ...]]
    # The place of each workload in the queue, from 1.
    order: Mapping[str, int]


class AppGroups:
    """The AppGroups of a cluster. All plugins and profiles of a scheduler share them."""

    def __init__(self, handle: Handle) -> None:
        self._groups: dict[tuple[str, str], AppGroup] = {}
        handle.lister(APP_GROUP_KIND.type).follow(self._group_changed)

    def __iter__(self) -> Iterator[AppGroup]:
        return iter(self._groups.values())

    def _group_changed(self, old: CustomObject | None, new: CustomObject | None) -> None:
        if old is not None:
            self._groups.pop((old.metadata.namespace, old.metadata.name), None)
        if new is not None:
            self._groups[new.metadata.namespace, new.metadata.name] = read_app_group(new)

    def find(self, name: str, namespaces: Sequence[str]) -> AppGroup | None:
        """Return the AppGroup of this name in the first namespace that has one."""
        for namespace in namespaces:
            if (group := self._groups.get((namespace, name))) is not None:
                return group
        return None

    def group_of(self, pod: Pod, namespaces: Sequence[str]) -> AppGroup | None:
        """Return the AppGroup that a pod names."""
        name = pod.metadata.labels.get(APP_GROUP_LABEL)
        return self.find(name, namespaces) if name else None


def app_groups(handle: Handle) -> AppGroups:
    """Return the AppGroups that all plugins share."""
    return handle.shared.get("network-aware app groups", lambda: AppGroups(handle))


def read_app_group(stored: CustomObject) -> AppGroup:
    """Read an AppGroup. What the schema of the resource would refuse counts as absent."""
    found: dict[str, list[WorkloadDependency]] = {}
    for index, each in enumerate(_entries(stored.spec.get("workloads"))[:MOST_WORKLOADS]):
        workload = _selector(each)
        if workload:
            own = found.setdefault(workload, [])
            for number, entry in enumerate(_entries(each.get("dependencies"))):
                if len(own) >= MOST_DEPENDENCIES:
                    break
                if name := _selector(entry):
                    cost = _cost(entry.get("maxNetworkCost"))
                    own.append(WorkloadDependency(name, cost, (index, number)))
    dependencies = {workload: tuple(own) for workload, own in found.items()}
    return AppGroup(
        stored.metadata.name,
        stored.metadata.namespace,
        dependencies,
        _order(stored, dependencies),
    )


def _order(
    stored: CustomObject, dependencies: Mapping[str, tuple[WorkloadDependency, ...]]
) -> dict[str, int]:
    """Return the order in the status, which a controller may write, or compute it."""
    written = {
        _selector(each): each["index"]
        for each in _entries(stored.status.get("topologyOrder"))
        if isinstance(each.get("index"), int)
    }
    if dependencies.keys() <= written.keys():
        return written
    names = {workload: [each.workload for each in of] for workload, of in dependencies.items()}
    ordered = workload_order(str(stored.spec.get("topologySortingAlgorithm", "")), names)
    return {workload: number for number, workload in enumerate(ordered, start=1)}


def _entries(given: Any) -> list[dict[str, Any]]:
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _selector(entry: Mapping[str, Any]) -> str:
    workload = entry.get("workload")
    name = workload.get("selector") if isinstance(workload, dict) else None
    return name if isinstance(name, str) else ""


def _cost(given: Any) -> int:
    return given if isinstance(given, int) and not isinstance(given, bool) else 0
