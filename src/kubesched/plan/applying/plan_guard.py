"""Watches a cluster while a plan is carried out, and records the first unplanned change.

The relevant changes are: a pod that is still to be moved ends or is deleted; a node of the plan is
deleted, becomes unready, or is cordoned by another client; a pod is placed on a node that is to be
emptied. Changes of other pods and nodes are ignored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import is_terminating, pod_key
from kubesched.plan.applying.plan_document import PlanDocument
from kubesched.plan.applying.plan_journal import PlanJournal
from kubesched.plan.moving.pod_follower import EvictedPod
from kubesched.plan.moving.wave_player import WaveWatch
from kubesched.plan.reading.pinned_pods import follows_node

__all__ = ["PlanGuard", "PlanLine", "is_unready"]

_ENDED = ("Succeeded", "Failed")

# Receives each step: its kind, a sentence, and the names of the pod and the node it concerns.
PlanLine = Callable[[str, str, str, str], None]


class PlanGuard(WaveWatch):
    """Writes each step to the journal and to `line`, and stops the plan if the cluster changes.

    Connect the handlers with informers.
    """

    def __init__(self, plan: PlanDocument, journal: PlanJournal, line: PlanLine) -> None:
        self._plan, self._journal, self._line = plan, journal, line
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}  # by uid
        self._surprise = ""
        self._is_guarding = False
        self._waiting: set[str] = set()  # uids of pods that are still to be evicted
        self._emptied = frozenset(plan.emptied)
        # Changes of `unschedulable` that the plan has made and the watch has not yet shown.
        self._own: dict[str, deque[bool]] = {}
        self._cordoned: dict[str, bool] = {}  # the expected state of each node
        self._move_of: Mapping[str, str] = {move.uid: move.pod for move in plan.moves}
        self._refused: set[str] = set()
        self._initially_waiting: set[str] = set()

    def start(self) -> None:
        """Begin to check changes. Call it when the informers have synced."""
        self._is_guarding = True
        done = self._journal.waves_done
        self._initially_waiting = {uid for uid, pod in self.pods.items() if _is_rejected(pod)}
        self._waiting = {
            move.uid
            for move in self._plan.moves
            if move.wave > done and move.uid not in self._journal.evicted
        }

    def problem(self) -> str:
        return self._surprise

    def on_cordon(self, node: str, *, unschedulable: bool) -> None:
        if self._cordoned.get(node) == unschedulable:
            return
        self._own.setdefault(node, deque()).append(unschedulable)
        self._cordoned[node] = unschedulable
        self._journal.cordon(node, unschedulable=unschedulable)
        kind = "cordon" if unschedulable else "uncordon"
        self._line(kind, f"{kind} node {node}", "", node)

    def on_evict(self, pod: EvictedPod) -> None:
        self._waiting.discard(pod.uid)
        if pod.uid in self._refused:
            return  # the same step is repeated
        self._journal.evict(pod.key, pod.uid)
        source = self._plan.move_of[pod.key].source
        self._line("evict", f"evict pod {pod.key} from node {source}", pod.key, source)

    def on_refusal(self, pod: EvictedPod, refusal: str) -> None:
        if pod.uid not in self._refused:
            self._refused.add(pod.uid)
            self._line("wait", f"pod {pod.key} is not evicted yet: {refusal}", pod.key, "")

    def is_evicted(self, pod: EvictedPod) -> bool:
        return pod.uid in self._journal.evicted

    # Handlers of informers

    def on_pod_add(self, pod: Pod) -> None:
        self.pods[pod.metadata.uid] = pod
        self._check_place(pod)

    def on_pod_update(self, old: Pod, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.pods[uid] = pod
        if uid in self._waiting:
            if is_terminating(pod):
                self._note(f"pod {pod_key(pod)} is deleted by another client")
            elif pod.status.phase in _ENDED:
                self._note(f"pod {pod_key(pod)} has ended")
        elif old.spec.node_name != pod.spec.node_name:
            self._check_place(pod)

    def on_pod_delete(self, pod: Pod, _is_missed: bool) -> None:
        uid = pod.metadata.uid
        self.pods.pop(uid, None)
        if uid in self._waiting:
            self._note(f"pod {pod_key(pod)} was deleted by another client")

    def on_node_add(self, node: Node) -> None:
        self.nodes[node.metadata.name] = node
        self._cordoned.setdefault(node.metadata.name, node.spec.unschedulable)

    def on_node_update(self, old: Node, node: Node) -> None:
        name = node.metadata.name
        self.nodes[name] = node
        if old.spec.unschedulable != node.spec.unschedulable:
            self._check_cordon(name, is_cordoned=node.spec.unschedulable)
        if name in self._plan.nodes and is_unready(node) and not is_unready(old):
            self._note(f"node {name} is not ready")

    def on_node_delete(self, node: Node, _is_missed: bool) -> None:
        name = node.metadata.name
        self.nodes.pop(name, None)
        if name in self._plan.nodes:
            self._note(f"node {name} was deleted")

    def occupied(self) -> set[str]:
        """Return the nodes with pods that keep them in use."""
        return {
            pod.spec.node_name
            for pod in self.pods.values()
            if pod.status.phase not in _ENDED and not follows_node(pod)
        }

    def newly_waiting(self) -> str:
        """Return a pod that became unschedulable since the plan began; None without one."""
        for uid, pod in self.pods.items():
            if uid not in self._initially_waiting and _is_rejected(pod):
                return pod_key(pod)
        return ""

    def _check_cordon(self, name: str, *, is_cordoned: bool) -> None:
        own = self._own.get(name)
        if own and own[0] == is_cordoned:
            own.popleft()
            return
        self._cordoned[name] = is_cordoned
        if name in self._plan.nodes:
            done = "cordoned" if is_cordoned else "uncordoned"
            self._note(f"node {name} was {done} by another client")

    def _check_place(self, pod: Pod) -> None:
        """Check that no pod is placed on a node that is to be emptied."""
        name, uid = pod.spec.node_name, pod.metadata.uid
        if name in self._emptied and uid not in self._move_of and not follows_node(pod):
            self._note(f"pod {pod_key(pod)} came to node {name}, which is to be emptied")

    def _note(self, surprise: str) -> None:
        if self._is_guarding and not self._surprise:
            self._surprise = surprise


def is_unready(node: Node) -> bool:
    """Whether the node is reported as not ready; nodes from files may lack conditions."""
    return any(
        each.type == "Ready" and each.status not in ("True", "") for each in node.status.conditions
    )


def _is_rejected(pod: Pod) -> bool:
    return not pod.spec.node_name and any(
        each.type == "PodScheduled" and each.reason == "Unschedulable"
        for each in pod.status.conditions
    )
