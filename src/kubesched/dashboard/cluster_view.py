"""Views of nodes and pods for the page: the protocol, and an implementation that counts objects.

`PageView` is the protocol that the page reads. `ClusterView` counts the objects that its owner
adds. If a scheduler runs in this process, `SchedulerView` reads the scheduler's counts instead.
Changes of pods are queued until the next read, so that a pod that is created, bound and started in
between is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import pod_key
from kubesched.api.pod_requests import pod_requested
from kubesched.api.resource_amounts import Resources
from kubesched.dashboard.rows import NodeFacts, NodeShapeCache, RowSource, by_importance

__all__ = ["ChangedNodes", "ClusterView", "PageView"]

_FINISHED = ("Succeeded", "Failed")

_MOST_PENDING = 2_000

PodListener = Callable[[Pod | None, Pod | None], None]  # before, after


class ChangedNodes(NamedTuple):
    """Names of nodes that changed or were removed, and of nodes where only pods changed."""

    nodes: set[str]
    usage: set[str]


class PageView(RowSource, Protocol):
    """Nodes with their requested resources, and pods."""

    @property
    def version(self) -> object:
        """A value that changes whenever the content may have changed."""
        ...

    def names(self) -> Iterable[str]:
        """Return the names of all nodes."""
        ...

    def pod(self, key: str) -> Pod | None:
        """Return a pod that has not finished, by `namespace/name`."""
        ...

    def pods(self) -> Iterable[Pod]:
        """Return the pods that have not finished."""
        ...

    def pods_on(self, name: str) -> list[Pod]: ...

    def waiting(self) -> list[Pod]:
        """Return the pods without a node, by priority and then by age."""
        ...

    def counts(self) -> dict[str, int]: ...

    def follow(self) -> None:
        """Start recording which nodes change."""
        ...

    def take_changes(self) -> ChangedNodes:
        """Return the changes since the last call, and clear them."""
        ...

    def unfollow(self) -> None:
        """Stop recording changes."""
        ...


class ClusterView:
    """A view that counts the nodes and pods that are put into it."""

    def __init__(self) -> None:
        self.pod_listeners: list[PodListener] = []
        self.nodes: dict[str, Node] = {}
        self.shapes = NodeShapeCache()
        self.version = 0
        self._changed: ChangedNodes | None = None  # None: changes are not recorded
        self._pods: dict[str, Pod] = {}
        self._pending: dict[str, Pod | None] = {}  # changes not yet counted; None: deleted
        self._requested: dict[str, Resources] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        self._waiting: dict[str, None] = {}
        self._allocatable: dict[str, Resources] = {}

    def put_node(self, node: Node) -> None:
        name = node.metadata.name
        self.nodes[name] = node
        self._allocatable[name] = Resources.from_resource_list(node.status.allocatable)
        self._node_changed(name)

    def remove_node(self, node: Node) -> None:
        name = node.metadata.name
        self.nodes.pop(name, None)
        self._allocatable.pop(name, None)
        self.shapes.remove(name)
        self._node_changed(name)

    def put_pod(self, pod: Pod) -> None:
        """Add or update a pod; a finished pod is removed, since it uses no resources."""
        key = pod_key(pod)
        old = self._latest(key)
        has_finished = pod.status.phase in _FINISHED
        if has_finished and old is None:
            return
        self._put(key, None if has_finished else pod)
        for listener in self.pod_listeners:
            listener(old, pod)

    def remove_pod(self, pod: Pod) -> None:
        key = pod_key(pod)
        old = self._latest(key)
        if old is not None:
            self._put(key, None)
            for listener in self.pod_listeners:
                listener(old, None)

    def names(self) -> Iterable[str]:
        return self.nodes

    def pod(self, key: str) -> Pod | None:
        return self._latest(key)

    def pods(self) -> Iterable[Pod]:
        return self._counted().values()

    def follow(self) -> None:
        self._count_pending()
        self._changed = ChangedNodes(set(), set())

    def take_changes(self) -> ChangedNodes:
        self._count_pending()
        if self._changed is None:
            return ChangedNodes(set(), set())
        taken, self._changed = self._changed, ChangedNodes(set(), set())
        return taken

    def unfollow(self) -> None:
        self._changed = None

    @property
    def backlog(self) -> int:
        """How many names `take_changes` would return."""
        return 0 if self._changed is None else sum(map(len, self._changed))

    def _counted(self) -> Mapping[str, Pod]:
        self._count_pending()
        return self._pods

    def _latest(self, key: str) -> Pod | None:
        return self._pending[key] if key in self._pending else self._pods.get(key)

    def _put(self, key: str, pod: Pod | None) -> None:
        self.version += 1
        self._pending[key] = pod
        if len(self._pending) >= _MOST_PENDING:
            self._count_pending()

    def _count_pending(self) -> None:
        """Count the pending changes of pods."""
        if not self._pending:
            return
        changes, self._pending = self._pending, {}
        for key, pod in changes.items():
            old = self._pods.pop(key, None)
            if old is not None and pod is not None and _has_same_requests(old, pod):
                self._pods[key] = pod
                continue
            if old is not None:
                self._count(old, key, -1)
            if pod is not None:
                self._pods[key] = pod
                self._count(pod, key, 1)

    def _count(self, pod: Pod, key: str, step: int) -> None:
        name = pod.spec.node_name
        if not name:
            if step > 0:
                self._waiting[key] = None
            else:
                self._waiting.pop(key, None)
            return
        total = self._requested.setdefault(name, Resources())
        if step > 0:
            total.add(pod_requested(pod))
            self._on_node.setdefault(name, {})[key] = None
        else:
            total.subtract(pod_requested(pod))
            self._on_node.get(name, {}).pop(key, None)
        if self._changed is not None:
            self._changed.usage.add(name)

    def _node_changed(self, name: str) -> None:
        self.version += 1
        if self._changed is not None:
            self._changed.nodes.add(name)

    def facts(self, name: str) -> NodeFacts | None:
        self._count_pending()
        node = self.nodes.get(name)
        if node is None:
            return None
        used = self._requested.get(name) or Resources()
        return NodeFacts(node, self._allocatable[name], used, len(self._on_node.get(name, ())))

    def pods_on(self, name: str) -> list[Pod]:
        pods = self._counted()
        return [pods[key] for key in self._on_node.get(name, ())]

    def waiting(self) -> list[Pod]:
        pods = self._counted()
        return by_importance(pods[key] for key in self._waiting)

    def counts(self) -> dict[str, int]:
        pods, waiting = len(self._counted()), len(self._waiting)
        return {
            "nodes": len(self.nodes),
            "pods": pods,
            "placed": pods - waiting,
            "waiting": waiting,
        }


def _has_same_requests(old: Pod, new: Pod) -> bool:
    """Whether node and requests are the same, so that the counts do not change."""
    return old.spec is new.spec or (
        old.spec.node_name == new.spec.node_name and old.spec.containers == new.spec.containers
    )
