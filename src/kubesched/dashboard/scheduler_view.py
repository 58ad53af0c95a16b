"""A view of the nodes and pods of a scheduler in this process.

The view has no counts of its own. It reads amounts from the scheduler's cache, pods from its
informers, and changed rows from the change log of its node table. Without viewers it costs no time.
A pod counts as placed as soon as the scheduler has assumed it on a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kubesched.api import Node, Pod
from kubesched.dashboard.cluster_view import ChangedNodes
from kubesched.dashboard.rows import NodeFacts, NodeShapeCache, by_importance
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["SchedulerView"]


class SchedulerView:
    """The view of a scheduler. `scheduler` may return another one after a replacement."""

    def __init__(self, scheduler: Callable[[], Scheduler]) -> None:
        self._find_scheduler = scheduler
        self._current = scheduler()
        self.shapes = NodeShapeCache()
        self._seen: dict[str, Node] = {}  # nodes at the last call of `take_changes`
        self._membership = -1
        self._position = -1  # in the log of changed rows; -1: anywhere

    @property
    def scheduler(self) -> Scheduler:
        """The present scheduler; a replacement counts from when its informers have synced."""
        found = self._find_scheduler()
        if found is not self._current and found.synced.is_set():
            self._current, self._membership, self._position = found, -1, -1
        return self._current

    @property
    def version(self) -> object:
        scheduler = self.scheduler
        informers = scheduler.informers
        return (
            id(scheduler),
            informers.informer(Pod).resource_version,
            informers.informer(Node).resource_version,
        )

    def names(self) -> Iterable[str]:
        cache = self.scheduler.cache
        return [name for name, info in cache.nodes.items() if info.node is not None]

    def facts(self, name: str) -> NodeFacts | None:
        info = self._current.cache.nodes.get(name)
        if info is None or info.node is None:
            return None
        return NodeFacts(info.node, info.allocatable, info.requested, len(info.pods))

    def pod(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        return self.scheduler.informers.lister(Pod).get(name, namespace)

    def pods(self) -> Iterable[Pod]:
        return self.scheduler.informers.lister(Pod).list()

    def pods_on(self, name: str) -> list[Pod]:
        info = self.scheduler.cache.nodes.get(name)
        return [] if info is None else [each.pod for each in info.pods]

    def waiting(self) -> list[Pod]:
        is_assumed = self.scheduler.cache.is_assumed
        without = (pod for pod in self.pods() if not pod.spec.node_name)
        return by_importance(pod for pod in without if not is_assumed(pod))

    def counts(self) -> dict[str, int]:
        scheduler = self.scheduler
        placed = scheduler.cache.pod_count
        pods = max(placed, len(scheduler.informers.lister(Pod)))
        return {
            "nodes": len(scheduler.cache.snapshot.table),
            "pods": pods,
            "placed": placed,
            "waiting": pods - placed,
        }

    def follow(self) -> None:
        self.take_changes()

    def take_changes(self) -> ChangedNodes:
        cache = self.scheduler.cache
        cache.update_snapshot()
        table = cache.snapshot.table
        changed = ChangedNodes(set(), set())
        # After a replacement of the scheduler there is another log.
        rows = None if self._position < 0 else table.changes.since(self._position)
        self._position = table.changes.position
        if self._membership != table.membership_version:
            self._membership = table.membership_version
            for name in self._seen.keys() - table.row_of.keys():
                del self._seen[name]
                self.shapes.remove(name)
                changed.nodes.add(name)
        touched = table.row_of if rows is None else map(table.names.__getitem__, rows.tolist())
        for name in touched:
            info = cache.nodes.get(name)
            if info is None or info.node is None:
                continue
            if self._seen.get(name) is info.node:
                changed.usage.add(name)
            else:
                self._seen[name] = info.node
                changed.nodes.add(name)
        return changed

    def unfollow(self) -> None:
        self.shapes.clear()
        self._seen.clear()
        self._membership = self._position = -1
