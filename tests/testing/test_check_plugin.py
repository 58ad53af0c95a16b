"""`check_plugin` accepts correct plugins, and detects a plugin that violates each rule."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from kubesched.api import Namespace, Pod, PodSpec, Service
from kubesched.errors import PluginError
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Code,
    CycleState,
    Diagnosis,
    EventResource,
    NodeInfo,
    NodeView,
    Nominating,
    NominatingMode,
    OnlyNodes,
    Plugin,
    PodGroupPlacement,
    PodInfo,
    PodPart,
    PodsOnNode,
    PostFilterResult,
    QueuedPodInfo,
    QueueingHint,
    Reads,
    Rejections,
    Status,
    Wait,
)
from kubesched.testing import check_plugin, make_node, make_view
from tests.testing.plugins import (
    HELD,
    Disks,
    FewOfAKind,
    Halves,
    Limits,
    MakesRoom,
    Patient,
    WithArguments,
)


@pytest.mark.parametrize("plugin", [Disks, FewOfAKind, WithArguments, Patient, MakesRoom, Halves])
@pytest.mark.parametrize("seed", [0, 7])
def test_a_plugin_that_fulfils_the_contract_passes(plugin: type[Plugin], seed: int) -> None:
    check_plugin(plugin, seed=seed)


def test_arguments_reach_the_plugin() -> None:
    check_plugin(WithArguments, args=Limits(pods=0), rounds=5)


class EmptyName(Disks):
    name = ""


class WildcardName(Disks):
    name = "*"


class Idle(Plugin):
    name = "Idle"


class HalfAFilter(Plugin):
    name = "HalfAFilter"

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        return Rejections.none()

    def pre_enqueue(self, pod: Pod) -> Status:
        return SUCCESS


class AddsOnly(Disks):
    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS


class BindsWithoutWaiting(Disks):
    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:  # type: ignore[override]
        return SUCCESS


class WaitsInFilter(Plugin):
    name = "WaitsInFilter"

    async def filter(  # type: ignore[override]
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> Status:
        return SUCCESS


class FiltersUnconcernedPods(Disks):
    """Declares that no pod concerns it, but does not skip them."""

    def concerns(self, spec: PodSpec) -> bool:
        return False


class IgnoresOtherPods(Disks):
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        return Rejections.where(~nodes.label_equals("disk", "ssd"), HELD)


class OtherReason(Disks):
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        return Rejections.where(~nodes.has_label("disk"), Status.unresolvable("another reason"))


class WholeTable(Disks):
    """Correct on the whole table, wrong on a subset of its rows."""

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        return Rejections.where(nodes.table.label_column("disk").ids < 0, HELD)


class ScoresDiffer(Disks):
    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return np.where(nodes.has_label("disk"), 100, 0)


class FractionalScores(Disks):
    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return super().score_nodes(state, pod, nodes) / 1.0  # type: ignore[return-value]


class HalfPoints(Plugin):
    name = "HalfPoints"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 0.5  # type: ignore[return-value]


class ReadsOtherNodes(FewOfAKind):
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)


class ScoresAround(Plugin):
    name = "ScoresAround"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        state.write(self.name, len(nodes))
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(state.read(self.name))


class EditsLabels(Disks):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        pod.metadata.labels["seen"] = "yes"
        return super().filter(state, pod, node)


class EditsNode(Disks):
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        node.labels["seen"] = "yes"
        return super().score(state, pod, node)


class AddsPodToNode(Disks):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        node.requested.milli_cpu += 1
        return super().filter(state, pod, node)


class WritesColumns(Disks):
    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        nodes.table.requested[:] += 1
        return super().score_nodes(state, pod, nodes)


class SkipsInFilter(Disks):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SKIP


class ReturnsNone(Disks):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return None  # type: ignore[return-value]


class SignsItself(Disks):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return HELD.blame(self.name)


class PendingInPreFilter(Disks):
    def pre_filter(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView
    ) -> Status | OnlyNodes:
        return Status.pending("later")


class RejectsInPreScore(Disks):
    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        return HELD


class WaitsWithAStatus(Patient):
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        return Status(Code.WAIT)


class SkipsReserve(Patient):
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SKIP


class SkipsPreBind(Patient):
    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SKIP


class WaitsInBind(Patient):
    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return Status(Code.WAIT)


class RejectsInPreFlight(Patient):
    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return HELD


class NegativeTimeout(Patient):
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        return Wait(-1)


class UnreservesBlindly(Patient):
    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        state.read(self.name)


class NominatesNoNode(MakesRoom):
    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        return PostFilterResult(SUCCESS, Nominating(NominatingMode.OVERRIDE, "nowhere"))


class AnswersAStatus(MakesRoom):
    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        return HELD  # type: ignore[return-value]


class SkipsPostFilter(MakesRoom):
    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        return PostFilterResult(SKIP)


class SkipsInTheQueue(Disks):
    def pre_enqueue(self, pod: Pod) -> Status:
        return SKIP


class FailsToAdd(FewOfAKind):
    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        return HELD


class TooHigh(Disks):
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return super().score(state, pod, node) * 2

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return super().score_nodes(state, pod, nodes) * 2


class SharedState(FewOfAKind):
    """Its state cannot be cloned, so a dry run changes the original."""

    def pre_filter(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView
    ) -> Status | OnlyNodes:
        answer = super().pre_filter(state, pod_info, nodes)
        state.write(self.key, StateWithoutClone(state.read(self.key).counts))
        return answer


class StateWithoutClone(msgspec.Struct):
    counts: dict[str, int]


class KeepsRemovedPods(FewOfAKind):
    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS


def registering(*entries: Any) -> type[Plugin]:
    class Registers(Disks):
        def events_to_register(self) -> Sequence[ClusterEventWithHint]:
            return entries

    return Registers


def on(resource: str, action: ActionType, hint: Any = None) -> ClusterEventWithHint:
    return ClusterEventWithHint(ClusterEvent(resource, action), hint)


def failing_hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
    raise KeyError("no such label")


def speechless_hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
    return True  # type: ignore[return-value]


class Raises(Disks):
    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return HELD if node.labels["disk"] else SUCCESS


class SortsByChance(Disks):
    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return random.random()


class CountsPods(Plugin):
    name = "CountsPods"
    reads = Reads(pods_on_node=PodsOnNode.NOTHING)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return HELD if node.pods else SUCCESS


class ScoresByPods(Plugin):
    name = "ScoresByPods"
    reads = Reads(pods_on_node=PodsOnNode.NOTHING)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return min(100, len(node.pods))


class NamesPods(Plugin):
    name = "NamesPods"
    reads = Reads(pods_on_node=PodsOnNode.TOTALS)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        held = any(other.pod.metadata.labels.get("app") == "web" for other in node.pods)
        return HELD if held else SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        whole = nodes.at_rows(nodes.rows)
        return Rejections.from_statuses([self.filter(state, pod, node) for node in whole])


class ReadsInfosForTotals(Plugin):
    """Counts pods, as declared, but not through columns, although dry runs change only columns."""

    name = "ReadsInfosForTotals"
    reads = Reads(pods_on_node=PodsOnNode.TOTALS)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return HELD if len(node.pods) > 1 else SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        whole = nodes.at_rows(nodes.rows)
        return Rejections.from_statuses([self.filter(state, pod, node) for node in whole])


class ReadsLabelsOfPods(Plugin):
    name = "ReadsLabelsOfPods"
    reads = Reads(pods_on_node=PodsOnNode.SPECS)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return sum(len(other.pod.metadata.labels) for other in node.pods)


class ReadsTolerations(Plugin):
    name = "ReadsTolerations"
    reads = Reads(pod=PodPart.CONTAINERS | PodPart.LABELS)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return HELD if pod.spec.tolerations else SUCCESS


class ReadsName(Plugin):
    name = "ReadsName"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return int(pod.metadata.name < "n")


class ReadsServices(Plugin):
    name = "ReadsServices"
    reads = Reads(objects=(Namespace,))

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return len(self.handle.lister(Service).list())


class TotalsOneByOne(Plugin):
    name = "TotalsOneByOne"
    reads = Reads(pods_on_node=PodsOnNode.TOTALS)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return HELD if len(node.pods) > 1 else SUCCESS


class IgnoresTooMuch(Plugin):
    name = "IgnoresTooMuch"

    def ignores(self, state: CycleState, pod: Pod, other: PodInfo) -> bool:
        return other.pod.metadata.labels.get("app") != "web"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        held = any(other.pod.metadata.labels.get("app") == "db" for other in node.pods)
        return HELD if held else SUCCESS


class FollowsPods(Disks):
    reads = Reads(pods_on_node=PodsOnNode.NOTHING)

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        return SUCCESS


NODE, POD = EventResource.NODE, EventResource.POD


class NamesRacks(Halves):
    def generate_placements(self, state: Any, group: Any, parent: Any) -> Any:
        return ["rack-1", "rack-2"]


class PlacementOfOtherNode(Halves):
    def generate_placements(self, state: Any, group: Any, parent: Any) -> Any:
        return [PodGroupPlacement("else", make_view(make_node("other")))]


class ManyNodes(Halves):
    def score_placement(self, state: Any, group: Any, assignments: Any) -> int:
        return 100 + len(assignments.pods)


class ReadsNodes(Halves):
    placement_score_reads_nodes = False

    def score_placement(self, state: Any, group: Any, assignments: Any) -> int:
        return len(assignments.node_names)


BROKEN: dict[str, tuple[type[Plugin], str]] = {
    "a name is empty": (EmptyName, "a plugin has a legal name: name is ''"),
    "a name means all plugins": (WildcardName, r"a plugin has a legal name: name is '\*'"),
    "no point is extended": (Idle, "a plugin extends a point"),
    "a vector form has no scalar form": (
        HalfAFilter,
        "methods belong together: filter_nodes is there and filter is not",
    ),
    "pods are added and never removed": (
        AddsOnly,
        "methods belong together: only one of add_pod and remove_pod",
    ),
    "bind is not async": (BindsWithoutWaiting, "only binding may wait: bind must be async"),
    "filter is async": (WaitsInFilter, "only binding may wait: filter must not be async"),
    "what is said to be no concern is looked at": (
        FiltersUnconcernedPods,
        "what does not concern a plugin is skipped: pre_filter says",
    ),
    "the filters disagree": (IgnoresOtherPods, "scalar and vector answers agree: on node-"),
    "the filters give other reasons": (OtherReason, "scalar and vector answers agree: on node-"),
    "a filter ignores the selection": (WholeTable, "scalar and vector answers agree"),
    "the scores disagree": (ScoresDiffer, "scalar and vector answers agree: score says"),
    "vector scores are floats": (FractionalScores, "scores are whole numbers: score_nodes"),
    "a scalar score is a float": (HalfPoints, "scores are whole numbers: score answered 0.5"),
    "a filter looks at other nodes that are not declared": (
        ReadsOtherNodes,
        "reads declares all that .* on node-. it returned .* when other nodes changed",
    ),
    "a score looks at other nodes that are not declared": (
        ScoresAround,
        "reads declares all that .* on node-. it returned .* when other nodes changed",
    ),
    "the pod is changed": (EditsLabels, "inputs are not mutated: filter changed the pod"),
    "a node is changed": (EditsNode, "inputs are not mutated: score changed node node-"),
    "a NodeInfo is changed": (AddsPodToNode, "inputs are not mutated: filter changed NodeInfo"),
    "a column is written": (
        WritesColumns,
        "inputs are not mutated: score_nodes changed column requested",
    ),
    "filter skips": (SkipsInFilter, "legal for the extension point: filter answered Skip"),
    "filter answers nothing": (ReturnsNone, "filter answered None, which is not a Status"),
    "a status names its plugin": (SignsItself, "filter filled in the plugin of its status"),
    "pre_filter leaves the pod pending": (PendingInPreFilter, "pre_filter answered Pending"),
    "pre_score rejects": (RejectsInPreScore, "pre_score answered UnschedulableAndUnresolvable"),
    "permit waits by status": (WaitsWithAStatus, "permit answered Wait"),
    "permit waits a negative time": (NegativeTimeout, "a wait has an end"),
    "reserve skips": (SkipsReserve, "reserve answered Skip"),
    "pre_bind skips": (SkipsPreBind, "pre_bind answered Skip"),
    "bind waits": (WaitsInBind, "bind answered Wait"),
    "pre-flight rejects": (RejectsInPreFlight, "pre_bind_pre_flight answered Unschedulable"),
    "unreserve needs a reserve": (UnreservesBlindly, "a method does not raise: unreserve raised"),
    "post_filter nominates a node that does not exist": (
        NominatesNoNode,
        "a nomination names a node: there is no node 'nowhere'",
    ),
    "post_filter answers with a bare status": (AnswersAStatus, "which is not a PostFilterResult"),
    "post_filter skips": (SkipsPostFilter, "post_filter answered Skip"),
    "pre_enqueue skips": (SkipsInTheQueue, "pre_enqueue answered Skip"),
    "add_pod rejects": (FailsToAdd, "add_pod answered UnschedulableAndUnresolvable"),
    "a score is out of range": (TooHigh, r"normalised scores are within 0\.\.100: scores"),
    "a state is shared with its clone": (
        SharedState,
        "a cloned state is independent: (add|remove)_pod on a clone changed the original",
    ),
    "remove_pod does not undo add_pod": (
        KeepsRemovedPods,
        "a cloned state is independent: (add_pod and remove_pod|remove_pod and add_pod) left",
    ),
    "pods matter although it says they do not": (
        CountsPods,
        "on node-. filter returned .* when more of the pods on the node changed than is declared",
    ),
    "pods matter for the score although it says they do not": (
        ScoresByPods,
        "on node-. score returned ., and . when more of the pods on the node changed",
    ),
    "single pods matter although it says only totals do": (
        NamesPods,
        "on node-. filter returned .* when more of the pods on the node changed than is declared",
    ),
    "columns are not read although totals are declared": (
        ReadsInfosForTotals,
        "on node-. without some pods it returned .* when only totals are changed",
    ),
    "labels of pods matter although it says only specs do": (
        ReadsLabelsOfPods,
        "on node-. score returned .* when more of the pods on the node changed than is declared",
    ),
    "a part of the pod matters that is not declared": (
        ReadsTolerations,
        "reads declares all that .* on node-. filter returned .* when TOLERATIONS of the pod",
    ),
    "the pod's name matters": (ReadsName, "on node-. score returned .* when IDENTITY of the pod"),
    "objects matter that are not declared": (
        ReadsServices,
        "on node-. score returned .* when objects of other kinds were gone",
    ),
    "totals are not read through columns": (TotalsOneByOne, "filter_nodes is missing"),
    "a pod that is ignored makes a difference": (
        IgnoresTooMuch,
        "a pod that is ignored makes no difference: without running-",
    ),
    "hooks follow pods that do not matter": (FollowsPods, "add_pod and remove_pod follow single"),
    "an event is not an event": (registering("NodeAdd"), "'NodeAdd' is not a ClusterEventWithHint"),
    "an event has no action": (registering(on(NODE, ActionType.NONE)), "no action is named"),
    "an event is only ever incoming": (
        registering(on(EventResource.ASSIGNED_POD, ActionType.ADD)),
        "AssignedPodAdd: register 'Pod' instead",
    ),
    "an event is of an unknown kind": (
        registering(on("Nodes", ActionType.ADD)),
        "NodesAdd: 'Nodes' is no kind of object",
    ),
    "a node event has a pod's action": (
        registering(on(NODE, ActionType.UPDATE_POD_LABEL)),
        "Node has no such update",
    ),
    "a pod event has a node's action": (
        registering(on(POD, ActionType.ADD | ActionType.UPDATE_NODE_TAINT)),
        "Pod has no such update",
    ),
    "a hint raises": (
        registering(on(NODE, ActionType.ALL, failing_hint)),
        "a method does not raise: hint for NodeAll raised KeyError",
    ),
    "a hint answers something else": (
        registering(on(POD, ActionType.DELETE, speechless_hint)),
        "a hint answers with a QueueingHint: PodDelete: True",
    ),
    "a filter raises": (Raises, "a method does not raise: filter raised KeyError"),
    "placements are no placements": (NamesRacks, "PlacementGenerate returns placements"),
    "a placement has nodes of another cluster": (
        PlacementOfOtherNode,
        "placements are parts of the parent",
    ),
    "the score of a placement is too high": (
        ManyNodes,
        "normalised scores of placements are within 0..100",
    ),
    "the score of a placement reads its nodes": (
        ReadsNodes,
        "a score that reads no nodes does not depend on them",
    ),
    "a sort key is random": (SortsByChance, "a sort key is stable"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_caught(name: str) -> None:
    plugin, message = BROKEN[name]
    with pytest.raises(PluginError, match=message):
        check_plugin(plugin)


def test_a_failure_is_one_line_with_the_plugin_and_the_seed() -> None:
    with pytest.raises(PluginError) as caught:
        check_plugin(TooHigh, seed=42)
    text = str(caught.value)
    assert text.startswith("Disks: normalised scores are within 0..100: ")
    assert "(seed=42, round=" in text
    assert "\n" not in text


def test_a_failure_repeats_with_its_seed() -> None:
    with pytest.raises(PluginError) as first:
        check_plugin(ReadsOtherNodes, seed=3)
    with pytest.raises(PluginError) as second:
        check_plugin(ReadsOtherNodes, seed=3)
    assert str(first.value) == str(second.value)
