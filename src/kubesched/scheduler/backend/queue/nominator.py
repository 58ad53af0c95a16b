"""The nominator: pods that are expected to occupy a node soon (docs/reference/03 §13).

Nominations are stored by uid and resolved by name: plugins get the nominated pod as it waits in
the queue. A pod that does not wait, because it is in flight, is a stub without a spec, which
requests nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple, Protocol

from kubesched.api import ObjectMeta, Pod
from kubesched.framework import Nominating, NominatingMode, PodInfo

__all__ = ["PodLister", "PodNominator"]

_CHANGES_KEPT = 4096


class PodLister(Protocol):
    """The pods in the informer's cache."""

    def get(self, name: str, namespace: str | None = None) -> Pod | None: ...


class _Reference(NamedTuple):
    name: str
    namespace: str
    uid: str


class PodNominator:
    """The nominations of pods to nodes. `find` returns the waiting pod with a key, if any."""

    def __init__(self, lister: PodLister, find: Callable[[str], PodInfo | None]) -> None:
        self._lister = lister
        self._find = find
        # node -> uid -> pod, in the order of addition
        self._by_node: dict[str, dict[str, _Reference]] = {}
        self._nowhere: dict[str, _Reference] = {}  # nominated to the empty name
        self._node_of: dict[str, str] = {}  # uid -> node
        self._changes: list[str] = []  # nodes, in the order in which their nominations changed
        self._dropped = 0  # the number of changes dropped before self._changes[0]
        self.position = 0  # how many changes there were

    def nominated_pods(self, node_name: str) -> Collection[PodInfo]:
        """Return the pods nominated to the node, in the order of their nominations."""
        references = self._by_node.get(node_name) if node_name else self._nowhere
        if not references:
            return ()
        return [self._resolve(reference) for reference in references.values()]

    def nominated_nodes(self) -> Collection[str]:
        return self._by_node.keys()

    def node_of(self, uid: str) -> str | None:
        """Return the node that the pod is nominated to, if any."""
        return self._node_of.get(uid)

    def changes_since(self, position: int) -> Collection[str] | None:
        start = position - self._dropped
        return None if start < 0 else set(self._changes[start:])

    def touch(self, uid: str) -> None:
        """Record a change of a nominated pod: it was queued, popped or replaced."""
        node_name = self._node_of.get(uid)
        if node_name:
            self._note(node_name)

    def add_nominated_pod(self, pod_info: PodInfo, nominating: Nominating | None) -> None:
        """Nominate the pod to the node of `nominating` or, by default, to that in its status.

        An override without a node clears a nomination; it is stored under the empty name, as in the
        reference.
        """
        pod = pod_info.pod
        self.delete_nominated_pod(pod)
        if nominating is not None and nominating.mode is NominatingMode.OVERRIDE:
            node_name = nominating.node_name
        else:
            node_name = pod.status.nominated_node_name
            if not node_name:
                return
        metadata = pod.metadata
        listed = self._lister.get(metadata.name, metadata.namespace)
        if listed is None or listed.spec.node_name:
            return
        self._node_of[metadata.uid] = node_name
        references = self._by_node.setdefault(node_name, {}) if node_name else self._nowhere
        references[metadata.uid] = _Reference(metadata.name, metadata.namespace, metadata.uid)
        self._note(node_name)

    def update_nominated_pod(self, old: Pod, pod_info: PodInfo) -> None:
        """Update the nomination of a waiting pod that has changed.

        A nomination that is not in the API survives updates of pods without one in their status.
        """
        node_name = self._node_of.get(old.metadata.uid)
        self.delete_nominated_pod(old)
        nominating = None
        if (
            node_name is not None
            and not old.status.nominated_node_name
            and not pod_info.pod.status.nominated_node_name
        ):
            nominating = Nominating(NominatingMode.OVERRIDE, node_name)
        self.add_nominated_pod(pod_info, nominating)

    def delete_nominated_pod(self, pod: Pod) -> None:
        if not self._node_of:
            return
        uid = pod.metadata.uid
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        if not node_name:
            del self._nowhere[uid]
            return
        references = self._by_node[node_name]
        del references[uid]
        if not references:
            del self._by_node[node_name]
        self._note(node_name)

    def check_invariants(self) -> None:
        listed = {
            uid: node_name for node_name, references in self._by_node.items() for uid in references
        }
        listed |= dict.fromkeys(self._nowhere, "")
        assert listed == self._node_of, "nominations by node and by pod differ"
        assert all(self._by_node.values()), "a node without nominated pods is stored"

    def _note(self, node_name: str) -> None:
        self._changes.append(node_name)
        self.position += 1
        if len(self._changes) > 2 * _CHANGES_KEPT:
            del self._changes[:_CHANGES_KEPT]
            self._dropped += _CHANGES_KEPT

    def _resolve(self, reference: _Reference) -> PodInfo:
        waiting = self._find(f"{reference.namespace}/{reference.name}")
        if waiting is not None:
            return waiting
        return PodInfo(
            Pod(
                metadata=ObjectMeta(
                    name=reference.name, namespace=reference.namespace, uid=reference.uid
                )
            )
        )
