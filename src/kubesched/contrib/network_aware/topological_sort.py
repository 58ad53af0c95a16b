"""TopologicalSort: place the workloads of an application in the order of their dependencies."""

from __future__ import annotations

from typing import Final

import msgspec

from kubesched.api import Pod
from kubesched.contrib.network_aware.app_groups import (
    APP_GROUP_KIND,
    APP_GROUP_LABEL,
    WORKLOAD_LABEL,
    AppGroups,
    app_groups,
)
from kubesched.framework import Handle, Plugin, QueuedPodInfo

__all__ = ["TopologicalSort", "TopologicalSortArgs"]

_ENDED_PHASES: Final = ("Succeeded", "Failed")


class TopologicalSortArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of TopologicalSort."""

    # Where AppGroups are looked for, in this order.
    namespaces: tuple[str, ...] = ("default",)


class _QueuedApplications:
    """Since when each application has had pods in the queue.

    Its pods take their place in the queue by that, so that they follow each other.
    """

    def __init__(self, handle: Handle) -> None:
        self._since_ns: dict[str, int] = {}
        self._pending: dict[str, set[str]] = {}  # uids by application
        handle.lister(Pod).follow(self._pod_changed)

    def since_ns(self, name: str, queued_ns: int) -> int:
        return self._since_ns.setdefault(name, queued_ns)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for pod, exists in ((old, False), (new, True)):
            name = "" if pod is None else pod.metadata.labels.get(APP_GROUP_LABEL, "")
            if pod is None or not name:
                continue
            pending = self._pending.setdefault(name, set())
            if exists and not pod.spec.node_name and pod.status.phase not in _ENDED_PHASES:
                pending.add(pod.metadata.uid)
            elif exists or new is None or new.metadata.labels.get(APP_GROUP_LABEL) != name:
                pending.discard(pod.metadata.uid)
            if not pending:
                self._since_ns.pop(name, None)
                del self._pending[name]


class TopologicalSort(Plugin):
    """Order pods by priority, then by time; pods of one AppGroup by its topological order."""

    name = "TopologicalSort"
    args_type = TopologicalSortArgs
    custom_kinds = (APP_GROUP_KIND.kind,)

    def __init__(
        self, args: TopologicalSortArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args or TopologicalSortArgs(), handle)
        given: TopologicalSortArgs = self.args
        self._namespaces = given.namespaces or ("default",)
        self._groups: AppGroups | None = None
        self._queued: _QueuedApplications | None = None
        if handle is not None:
            self._groups = app_groups(handle)
            self._queued = handle.shared.get(
                "network-aware queue", lambda: _QueuedApplications(handle)
            )

    def sort_key(self, queued: QueuedPodInfo) -> tuple[int, int, str, int, int]:
        pod, since_ns = queued.pod, queued.timestamp_ns
        priority = -(pod.spec.priority or 0)
        name = pod.metadata.labels.get(APP_GROUP_LABEL)
        if not name or self._groups is None or self._queued is None:
            return priority, since_ns, "", 0, since_ns
        group = self._groups.find(name, self._namespaces)
        if group is None:
            return priority, since_ns, "", 0, since_ns
        # A workload that the AppGroup does not name goes first, as a part of no dependency.
        index = group.order.get(pod.metadata.labels.get(WORKLOAD_LABEL, ""), 0)
        return priority, self._queued.since_ns(name, since_ns), name, index, since_ns
