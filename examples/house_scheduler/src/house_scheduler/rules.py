"""Two plugins with the rules of the company.

SpareNodes reserves labelled nodes for the pods that request them. NightShift gates batch pods until
the evening.
"""

from __future__ import annotations

import msgspec

from kubesched.api import Pod
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    Plugin,
    PodPart,
    PodsOnNode,
    Reads,
    Status,
)

HELD = Status.unresolvable("node(s) were held as spare")
BY_DAY = Status.unresolvable("batch pods wait for the night")
_HOUR_NS = 3_600_000_000_000


class SpareNodesArgs(msgspec.Struct, rename="camel"):
    """`args` of SpareNodes in the configuration file."""

    label_key: str = "example.com/spare"


class SpareNodes(Plugin):
    """A node with the label takes only pods that have it too."""

    name = "SpareNodes"
    args_type = SpareNodesArgs
    # Of the pod its labels, of the cluster the node alone: answers are cached by that.
    reads = Reads(
        pod=PodPart.LABELS, pods_on_node=PodsOnNode.NOTHING, other_nodes=False, objects=()
    )

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        key = self.args.label_key
        return HELD if key in node.labels and key not in pod.metadata.labels else SUCCESS

    def events_to_register(self) -> list[ClusterEventWithHint]:
        changes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [ClusterEventWithHint(ClusterEvent(EventResource.NODE, changes))]


class NightShift(Plugin):
    """Pods labelled `shift: night` enter the queue at night only."""

    name = "NightShift"

    def __init__(self, args: object, handle: Handle, opens: int, closes: int) -> None:
        super().__init__(args, handle)
        self._opens, self._closes = opens, closes

    def pre_enqueue(self, pod: Pod) -> Status:
        if pod.metadata.labels.get("shift") != "night":
            return SUCCESS
        hour = self.handle.clock.now_ns() // _HOUR_NS % 24  # UTC
        return SUCCESS if hour >= self._opens or hour < self._closes else BY_DAY
