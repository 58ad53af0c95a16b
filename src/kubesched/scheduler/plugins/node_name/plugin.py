"""NodeName: a pod that names a node fits only that node (docs/reference/05 §7.4)."""

from __future__ import annotations

import numpy as np

from kubesched.api import Pod
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    NodeInfo,
    NodeView,
    Plugin,
    PodPart,
    PodsOnNode,
    Reads,
    Rejections,
    Status,
)
from kubesched.framework.causes import NodeNameMismatch
from kubesched.framework.explaining import Explaining
from kubesched.scheduler.config.plugin_names import NODE_NAME

__all__ = ["NodeName"]

OTHER_NODE = Status.unresolvable(
    "node(s) didn't match the requested node name", causes=(NodeNameMismatch(),)
)


class NodeName(Plugin):
    """Filter plugin: reject every node but the one in `spec.nodeName`."""

    name = NODE_NAME
    reads = Reads(
        pod=PodPart.NODE_SELECTION,
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(),
    )

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        node_name = pod.spec.node_name
        return SUCCESS if not node_name or node_name == node.name else OTHER_NODE

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        node_name = pod.spec.node_name
        if not node_name:
            return Rejections.none()
        row = nodes.table.row_of.get(node_name, -1)
        return Rejections.where(np.not_equal(nodes.rows, row), OTHER_NODE)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (ClusterEventWithHint(ClusterEvent(EventResource.NODE, ActionType.ADD)),)

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.node_name.explaining import NodeNameExplaining

        return NodeNameExplaining()
