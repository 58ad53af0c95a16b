"""What the page shows of nodes and pods: plain state, fed with changes, read as rows.

Knows nothing of HTTP or viewers. `PageView` is what the page reads; `ClusterView` counts by itself
what it is fed with. Where a scheduler runs in this process, its own counts are read instead
(`scheduler_view.py`). Changes of pods are put aside and worked off when somebody reads, so that a
pod that is created, bound and started in between is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import pod_key
from kubesched.api.pod_requests import pod_requested
from kubesched.api.resource_amounts import Resources
from kubesched.dashboard.rows import NodeFacts, NodeShapeCache, RowSource, in_order_of_importance

__all__ = ["ChangedNodes", "ClusterView", "PageView"]

_FINISHED = ("Succeeded", "Failed")

_MOST_PUT_ASIDE = 2_000

PodListener = Callable[[Pod | None, Pod | None], None]  # before, after


class ChangedNodes(NamedTuple):
    """Names of nodes that are another or gone, and of those on which only pods came and went."""

    nodes: set[str]
    usage: set[str]


class PageView(RowSource, Protocol):
    """Nodes with what is asked of them, and pods."""

    @property
    def version(self) -> object:
        """Another one than before whenever something may have changed."""
        ...

    def names(self) -> Iterable[str]:
        """The names of all nodes."""
        ...

    def pod(self, key: str) -> Pod | None:
        """A pod that has not finished, by namespace and name."""
        ...

    def pods(self) -> Iterable[Pod]:
        """The pods that have not finished."""
        ...

    def pods_on(self, name: str) -> list[Pod]: ...

    def waiting(self) -> list[Pod]:
        """Pods without a node, the most important and then the oldest first."""
        ...

    def counts(self) -> dict[str, int]: ...

    def follow(self) -> None:
        """Note from now on which nodes change."""
        ...

    def take_changes(self) -> ChangedNodes:
        """What was noted since the last call."""
        ...

    def unfollow(self) -> None:
        """Note nothing any more."""
        ...


class ClusterView:
    """A view that counts what it is fed with."""

    def __init__(self) -> None:
        self.pod_listeners: list[PodListener] = []
        self.nodes: dict[str, Node] = {}
        self.shapes = NodeShapeCache()
        self.version = 0
        self._changed: ChangedNodes | None = None  # None: nobody wants to know
        self._pods: dict[str, Pod] = {}
        self._put_aside: dict[str, Pod | None] = {}  # changes to come; None: it is gone
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
        self.shapes.forget(name)
        self._node_changed(name)

    def put_pod(self, pod: Pod) -> None:
        """Take in a pod, or a change of it; one that has finished takes no room any more."""
        key = pod_key(pod)
        old = self._latest(key)
        is_over = pod.status.phase in _FINISHED
        if is_over and old is None:
            return
        self._put(key, None if is_over else pod)
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
        self._work_off()
        self._changed = ChangedNodes(set(), set())

    def take_changes(self) -> ChangedNodes:
        self._work_off()
        if self._changed is None:
            return ChangedNodes(set(), set())
        taken, self._changed = self._changed, ChangedNodes(set(), set())
        return taken

    def unfollow(self) -> None:
        self._changed = None

    @property
    def noted(self) -> int:
        """How many names are kept for `take_changes`."""
        return 0 if self._changed is None else sum(map(len, self._changed))

    def _counted(self) -> Mapping[str, Pod]:
        self._work_off()
        return self._pods

    def _latest(self, key: str) -> Pod | None:
        return self._put_aside[key] if key in self._put_aside else self._pods.get(key)

    def _put(self, key: str, pod: Pod | None) -> None:
        self.version += 1
        self._put_aside[key] = pod
        if len(self._put_aside) >= _MOST_PUT_ASIDE:
            self._work_off()

    def _work_off(self) -> None:
        """Count the pods that were put aside."""
        if not self._put_aside:
            return
        changes, self._put_aside = self._put_aside, {}
        for key, pod in changes.items():
            old = self._pods.pop(key, None)
            if old is not None and pod is not None and _asks_the_same(old, pod):
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
        self._work_off()
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
        return in_order_of_importance(pods[key] for key in self._waiting)

    def counts(self) -> dict[str, int]:
        pods, waiting = len(self._counted()), len(self._waiting)
        return {
            "nodes": len(self.nodes),
            "pods": pods,
            "placed": pods - waiting,
            "waiting": waiting,
        }


def _asks_the_same(old: Pod, new: Pod) -> bool:
    """Whether a pod is where it was, with the same demands: then only its status is another."""
    return old.spec is new.spec or (
        old.spec.node_name == new.spec.node_name and old.spec.containers == new.spec.containers
    )
