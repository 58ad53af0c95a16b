"""The scheduler cache: nodes, the pods on them, and assumed pods.

docs/reference/04 §3 to §6. A plain class: informer events and assumptions in, state out. Changes
are appended to a log, and `update_snapshot` applies the log when an attempt begins. So an attempt
costs what changed since the last one, not the size of the cluster.

An assumed pod has been placed by this scheduler, and the informer has not shown it bound yet. It
stays assumed until the informer confirms it or it is forgotten or removed; there is no expiry.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from kubesched.api import Node, Pod
from kubesched.errors import CacheError, KubeschedError
from kubesched.framework import NodeInfo, PodInfo
from kubesched.framework.engine import NodeTable
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.backend.image_table import ImageTable
from kubesched.scheduler.backend.node_tree import NodeTree

__all__ = ["LONGEST_LOG", "Cache", "CacheCorruptedError"]

# A process that waits for the leader lease makes no attempts, so its log is applied at this
# length. No attempt meets as many changes, however long it waits for an extender.
LONGEST_LOG = 100_000


class CacheCorruptedError(CacheError):
    """The cache and the API server disagree about where a pod is: the process must end."""


class _Change(enum.Enum):
    NODE_APPEARED = enum.auto()
    NODE_VANISHED = enum.auto()
    POD_ADDED = enum.auto()
    POD_REMOVED = enum.auto()
    POD_RELABELLED = enum.auto()


# A change, the name of its node, and its pods. A plain tuple: one is created for every placed pod,
# and the constructor of a named tuple costs a function call.
_Entry = tuple[_Change, str, tuple[PodInfo, ...]]
_POD_ADDED = _Change.POD_ADDED


class Cache:
    """Nodes by name and pods by uid, some of them assumed.

    A ghost is a NodeInfo without a node: pods were added before their node, or outlive it.
    """

    def __init__(self, *, pod_updates_change_rows: bool = True) -> None:
        """With `pod_updates_change_rows`, a row changes with every newer version of a pod there.

        That is for plugins whose cached answers depend on more of the pods on a node than their
        specs. API servers and kubelets write to every bound pod, so it is off where no plugin
        needs it.
        """
        self._tree = NodeTree()
        self._images = ImageTable()
        self._nodes: dict[str, NodeInfo] = {}  # ghosts included
        self._pods: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()
        self._hidden: dict[str, bool] = {}  # uid of a hidden pod -> whether it is assumed
        self.snapshot = ClusterSnapshot(NodeTable(), self._tree)
        self._pod_updates_change_rows = pod_updates_change_rows
        self._log: list[_Entry] = []
        self._dirty: set[str] = set()  # names of nodes that changed since the last refresh
        self._written_nodes: dict[str, Node] = {}  # node object that a row shows
        self._written_images: dict[str, int] = {}  # version of the image table a row shows
        self._written_ports: set[str] = set()  # nodes whose row shows used ports

    @property
    def pod_count(self) -> int:
        return len(self._pods)

    @property
    def node_count(self) -> int:
        """Nodes, ghosts included."""
        return len(self._nodes)

    @property
    def nodes(self) -> Mapping[str, NodeInfo]:
        """Nodes by name, ghosts included; read-only."""
        return self._nodes

    @property
    def assumed_count(self) -> int:
        return len(self._assumed)

    def is_assumed(self, pod: Pod) -> bool:
        return _key(pod) in self._assumed

    def get_pod(self, pod: Pod) -> Pod:
        """Return the cached version of a pod."""
        found = self._pods.get(_key(pod))
        if found is None:
            raise CacheError(f"pod {_named(pod)} does not exist in scheduler cache")
        return found.pod

    def assume_pod(self, pod_info: PodInfo) -> None:
        """Add a pod to the node that was chosen for it, before it is bound."""
        uid = _key(pod_info.pod)
        if uid in self._pods:
            raise CacheError(f"pod {_named(pod_info.pod)} is in the cache, so can't be assumed")
        self._place(uid, _counted(pod_info))
        self._assumed.add(uid)

    def forget_pod(self, pod: Pod) -> None:
        """Remove an assumed pod. A pod that is not in the cache is ignored."""
        uid = _key(pod)
        cached = self._pods.get(uid)
        if cached is None:
            return
        if cached.pod.spec.node_name != pod.spec.node_name:
            raise CacheError(
                f"pod {_named(pod)} was assumed on {pod.spec.node_name} "
                f"but assigned to {cached.pod.spec.node_name}"
            )
        if uid not in self._assumed:
            raise CacheError(f"pod {_named(pod)} wasn't assumed so cannot be forgotten")
        self._take_off(uid)

    def add_pod(self, pod: Pod) -> None:
        """Add a pod that the API server shows on a node, or confirm an assumed one."""
        self._bound_log()
        uid = _key(pod)
        cached = self._pods.get(uid)
        if cached is None:
            self._place(uid, _counted(PodInfo(pod)))
        elif uid in self._assumed:
            if cached.pod.spec.node_name == pod.spec.node_name and _same_demand(cached.pod, pod):
                # The pod is where it was assumed: the totals stay, the object is newer.
                self._assumed.discard(uid)
                self._replace(cached, pod)
                return
            counted = _counted(PodInfo(pod))
            self._take_off(uid)
            self._place(uid, counted)
        else:
            raise CacheError(f"pod {_named(pod)} was already in added state")

    def update_pod(self, old: Pod, new: Pod) -> None:
        self._bound_log()
        uid = _key(old)
        cached = self._pods.get(uid)
        if cached is None:
            raise CacheError(
                f"pod {_named(old)} is not added to scheduler cache, so cannot be updated"
            )
        if uid in self._assumed:
            raise CacheError(f"assumed pod {_named(old)} should not be updated")
        if cached.pod.spec.node_name != new.spec.node_name:
            raise CacheCorruptedError(
                f"pod {_named(new)} was on {cached.pod.spec.node_name} in the scheduler cache "
                f"and is on {new.spec.node_name} now"
            )
        if _key(new) == uid and _same_demand(cached.pod, new):
            self._replace(cached, new)
            return
        counted = _counted(PodInfo(new))
        self._take_off(uid)
        self._place(_key(new), counted)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a bound or assumed pod.

        An event without a node name (the informer missed the deletion) removes the cached copy, as
        does one with another node than assumed (another scheduler had bound the pod there).
        """
        self._bound_log()
        uid = _key(pod)
        cached = self._pods.get(uid)
        if cached is None:
            raise CacheError(
                f"pod {_named(pod)} is not found in scheduler cache, so cannot be removed from it"
            )
        is_elsewhere = pod.spec.node_name not in ("", cached.pod.spec.node_name)
        if is_elsewhere and uid not in self._assumed:
            raise CacheCorruptedError(
                f"pod {_named(pod)} was on {cached.pod.spec.node_name} in the scheduler cache "
                f"and was removed from {pod.spec.node_name}"
            )
        self._take_off(uid)

    def _replace(self, cached: PodInfo, pod: Pod) -> None:
        """Replace a pod by a newer version with the same requests."""
        old, cached.pod = cached.pod, pod
        name = pod.spec.node_name
        if self._pod_updates_change_rows:
            self._dirty.add(name)
        if _look_different(old, pod):
            self._log.append((_Change.POD_RELABELLED, name, (cached,)))
        elif old.status.start_time != pod.status.start_time:
            table = self.snapshot.table
            row = table.row_of.get(name)
            if row is not None:
                table.pod_changes.append(row)

    def _place(self, uid: str, pod_info: PodInfo) -> None:
        name = pod_info.pod.spec.node_name
        info = self._nodes.get(name)
        if info is None:
            info = self._nodes[name] = NodeInfo(name)
        info.add_pod(pod_info)
        self._pods[uid] = pod_info
        self._log.append((_POD_ADDED, name, (pod_info,)))
        self._dirty.add(name)

    def _take_off(self, uid: str) -> None:
        pod_info = self._pods.pop(uid)
        self._assumed.discard(uid)
        name = pod_info.pod.spec.node_name
        info = self._nodes[name]
        info.remove_pod(uid)
        if info.node is None and not info.pods:
            del self._nodes[name]
        self._log.append((_Change.POD_REMOVED, name, (pod_info,)))
        self._dirty.add(name)

    def hide_pod(self, pod_info: PodInfo) -> None:
        """Take a pod off its node for a trial; `show_pod` must follow before anything is awaited.

        Members of pod groups stay members.
        """
        uid = _key(pod_info.pod)
        self._hidden[uid] = uid in self._assumed
        self._take_off(uid)

    def show_pod(self, pod_info: PodInfo) -> None:
        """Return a hidden pod to its node."""
        uid = _key(pod_info.pod)
        self._place(uid, pod_info)
        if self._hidden.pop(uid):
            self._assumed.add(uid)

    def add_node(self, node: Node) -> None:
        self._bound_log()
        name = node.metadata.name
        info = self._nodes.get(name) or NodeInfo(name)
        before = info.node
        _show_node(info, node)
        self._nodes[name] = info
        if before is None:
            # Pods that were added before their node become visible with it.
            self._log.append((_Change.NODE_APPEARED, name, tuple(info.pods)))
        else:
            self._images.remove(before)
        self._tree.update(before, node)
        self._images.add(node)
        self._dirty.add(name)

    def update_node(self, node: Node) -> None:
        """Replace a node by a newer version, or add it."""
        self.add_node(node)

    def remove_node(self, node: Node) -> None:
        """Remove a node; the pods on it stay cached until their own deletions arrive."""
        name = node.metadata.name
        info = self._nodes.get(name)
        if info is None or info.node is None:
            raise CacheError(f"node {name} is not found")
        self._tree.remove(info.node)
        self._images.remove(info.node)
        self._log.append((_Change.NODE_VANISHED, name, tuple(info.pods)))
        info.remove_node()
        if not info.pods:
            del self._nodes[name]
        self._dirty.add(name)

    def end_attempt(self) -> None:
        """Release cached data that is too large to be stored until the next attempt."""
        self.snapshot.pod_index.end_attempt()

    def _bound_log(self) -> None:
        if len(self._log) >= LONGEST_LOG:
            self.update_snapshot()

    def update_snapshot(self) -> ClusterSnapshot:
        """Apply all changes since the last call to the snapshot, and return it."""
        if not self._log and not self._dirty:
            return self.snapshot
        snapshot, row_of = self.snapshot, self.snapshot.table.row_of
        shown_before: dict[str, bool] = {}
        for change, name, pods in self._log:
            if change is _POD_ADDED:
                if name in row_of:
                    snapshot.show_pod(row_of[name], pods[0])
            elif change is _Change.NODE_APPEARED or change is _Change.NODE_VANISHED:
                shown_before.setdefault(name, change is _Change.NODE_VANISHED)
                self._apply_node_change(change, name, pods)
            elif name in row_of:
                if change is _Change.POD_REMOVED:
                    snapshot.hide_pod(row_of[name], pods[0])
                else:
                    snapshot.relabel_pod(row_of[name], pods[0])
        self._log.clear()
        for name in self._dirty:
            if name in row_of:
                self._write_row(row_of[name], self._nodes[name])
        self._dirty.clear()
        if not shown_before:
            return snapshot
        if any((name in row_of) != before for name, before in shown_before.items()):
            snapshot.nodes_changed()
        else:
            snapshot.rows_moved()
        return snapshot

    def _apply_node_change(self, change: _Change, name: str, pods: tuple[PodInfo, ...]) -> None:
        """Apply the addition or removal of a node, with the pods on it."""
        snapshot = self.snapshot
        if change is _Change.NODE_APPEARED:
            row = snapshot.show_node(name, self._nodes.get(name) or NodeInfo(name))
            for pod_info in pods:
                snapshot.show_pod(row, pod_info)
            return
        row = snapshot.table.row_of[name]
        for pod_info in pods:
            snapshot.hide_pod(row, pod_info)
        snapshot.hide_node(name)
        self._forget_written(name)

    def _write_row(self, row: int, info: NodeInfo) -> None:
        table, name, node = self.snapshot.table, info.name, info.node
        assert node is not None
        if self._written_nodes.get(name) is not node:
            table.write_node(row, node, info.allocatable, info.allowed_pod_number)
            self._written_nodes[name] = node
            self._written_images.pop(name, None)
        if node.status.images and self._written_images.get(name) != self._images.version:
            info.image_states = self._images.states(node)
            table.write_images(row, info.image_states)
            self._written_images[name] = self._images.version
        elif not node.status.images and info.image_states:
            info.image_states = {}
            table.write_images(row, {})
        if info.used_ports or name in self._written_ports:
            table.write_ports(row, info.used_ports)
            if info.used_ports:
                self._written_ports.add(name)
            else:
                self._written_ports.discard(name)
        table.write_usage(
            row, info.requested, info.nonzero_cpu, info.nonzero_memory, len(info.pods)
        )

    def _forget_written(self, name: str) -> None:
        self._written_nodes.pop(name, None)
        self._written_images.pop(name, None)
        self._written_ports.discard(name)

    def check_invariants(self) -> None:
        """Raise CacheError if parts of the cache disagree. For tests and simulations."""
        if self._hidden:
            raise CacheError(f"pods that are still hidden: {sorted(self._hidden)}")
        placed = {
            pod_info.uid: name for name, info in self._nodes.items() for pod_info in info.pods
        }
        known = {uid: pod_info.pod.spec.node_name for uid, pod_info in self._pods.items()}
        if placed != known:
            raise CacheError(f"pods on nodes and pods by uid differ: {placed} and {known}")
        if not self._assumed <= known.keys():
            raise CacheError(
                f"assumed pods that are not in the cache: {self._assumed - set(known)}"
            )
        real = {name for name, info in self._nodes.items() if info.node is not None}
        names = self._tree.listing().names()
        if len(real) != len(self._tree) or real != set(names):
            raise CacheError(f"nodes and node tree differ: {real} and {names}")
        empty = [name for name, info in self._nodes.items() if not info.pods and not info.node]
        if empty:
            raise CacheError(f"ghost nodes without pods: {empty}")


def _key(pod: Pod) -> str:
    if not pod.metadata.uid:
        raise CacheError("cannot get cache key for pod with empty UID")
    return pod.metadata.uid


def _counted(pod_info: PodInfo) -> PodInfo:
    """Return the pod after checking that its requests and ports can be parsed."""
    try:
        _ = pod_info.requested, pod_info.host_ports
    except KubeschedError as exc:
        raise CacheError(f"pod {_named(pod_info.pod)} cannot be counted: {exc}") from exc
    return pod_info


def _show_node(info: NodeInfo, node: Node) -> None:
    """Set the node; raise CacheError and change nothing if its amounts cannot be parsed."""
    try:
        info.set_node(node)
    except KubeschedError as exc:
        raise CacheError(f"node {node.metadata.name} cannot be counted: {exc}") from exc


def _named(pod: Pod) -> str:
    return f"{pod.metadata.uid}({pod.metadata.namespace}/{pod.metadata.name})"


def _same_demand(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod have the same requests."""
    is_same = old.spec is new.spec or old.spec == new.spec
    return is_same and not _has_resizes(old) and not _has_resizes(new)


def _look_different(old: Pod, new: Pod) -> bool:
    """Whether selectors may match only one of two versions of a pod."""
    before, after = old.metadata, new.metadata
    return before.labels != after.labels or (
        (before.deletion_timestamp is None) != (after.deletion_timestamp is None)
    )


def _has_resizes(pod: Pod) -> bool:
    """Whether a pod's requests may follow its status (in-place resize), not only its spec."""
    status = pod.status
    if status.resources is not None:
        return True
    if not status.container_statuses and not status.init_container_statuses:
        return False
    for each in (*status.container_statuses, *status.init_container_statuses):
        if each.resources is not None:  # `any` with a generator takes twice as long
            return True
    return False
