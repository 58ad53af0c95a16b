"""Small correct plugins, for the tests of `check_plugin` and the fakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Diagnosis,
    EventResource,
    NodeInfo,
    NodeView,
    Nominating,
    NominatingMode,
    OnlyNodes,
    Plugin,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPlacement,
    PodInfo,
    PodPart,
    PostFilterResult,
    QueuedPodInfo,
    QueueingHint,
    Reads,
    Rejections,
    Status,
    Wait,
)

HELD = Status.unresolvable("node(s) had no disk")


class Disks(Plugin):
    """A node-local plugin with both forms: pods with a tier need a disk, preferably an SSD."""

    name = "Disks"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def pre_filter(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView
    ) -> Status | OnlyNodes:
        return SUCCESS if "tier" in pod_info.pod.metadata.labels else SKIP

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if "disk" in node.labels else HELD

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        return Rejections.where(~nodes.has_label("disk"), HELD)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 100 if node.labels.get("disk") == "ssd" else 0

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return np.where(nodes.label_equals("disk", "ssd"), 100, 0)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        event = ClusterEvent(EventResource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        return [ClusterEventWithHint(event, self.has_disk)]

    def has_disk(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        return QueueingHint.QUEUE if "disk" in new.metadata.labels else QueueingHint.SKIP


class Crowd:
    """The number of pods of the same app on each node; cloned with the state."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts

    def clone(self) -> Crowd:
        return Crowd(dict(self.counts))


class FewOfAKind(Plugin):
    """A plugin with state and only the one-node form: at most two pods of an app per node."""

    name = "FewOfAKind"
    key = "PreFilterFewOfAKind"

    def pre_filter(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView
    ) -> Status | OnlyNodes:
        app = pod_info.pod.metadata.labels.get("app")
        counts = {
            node.name: sum(other.pod.metadata.labels.get("app") == app for other in node.pods)
            for node in nodes
        }
        state.write(self.key, Crowd(counts))
        return SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        return self._count(state, pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        return self._count(state, pod, removed, node, -1)

    def _count(
        self, state: CycleState, pod: Pod, moved: PodInfo, node: NodeInfo, step: int
    ) -> Status:
        if moved.pod.metadata.labels.get("app") == pod.metadata.labels.get("app"):
            state.read(self.key).counts[node.name] += step
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        counts = state.read(self.key).counts
        if counts[node.name] > 1 or sum(counts.values()) > 6:
            return Status.unschedulable("too many of a kind")
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return len(node.pods)

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return scores * 100 // max(int(scores.max()), 1)


class Limits(msgspec.Struct, frozen=True):
    pods: int = 3


class WithArguments(Plugin):
    name = "WithArguments"
    args_type = Limits
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if len(node.pods) < self.args.pods else Status.unschedulable("full")


class Patient(Plugin):
    """A plugin of the binding cycle: Reserve, Permit, PreBind, Bind."""

    name = "example.com/Patient"

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return queued.timestamp_ns

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        state.write(self.name, node_name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        state.delete(self.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        return Wait(1_000_000_000)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        await self.handle.clock.sleep(3_600_000_000_000)
        return SUCCESS

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        await self.handle.api.bind(
            pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, node_name
        )
        return SUCCESS


class MakesRoom(Plugin):
    """A PostFilter plugin that nominates the first node."""

    name = "MakesRoom"

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        node = self.handle.snapshot.nodes.info(0)
        status = self.handle.dry_run.filter_node(state, pod_info, node)
        if status.is_success:
            return PostFilterResult(SUCCESS, Nominating(NominatingMode.OVERRIDE, node.name))
        return PostFilterResult(Status.unschedulable("no room to be made"))


class Halves(Plugin):
    """Generates two placements, and prefers the one with more nodes."""

    name = "Halves"

    def generate_placements(
        self, state: CycleState, group: PodGroupInfo, parent: PodGroupPlacement
    ) -> Sequence[PodGroupPlacement]:
        rows = parent.nodes.rows
        return [
            PodGroupPlacement(f"half-{start}", parent.nodes.at_rows(rows[start::2]))
            for start in (0, 1)
        ]

    def score_placement(
        self, state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int:
        return len(assignments.placement.nodes)
