"""NodeUnschedulable: a cordoned node accepts tolerating pods only.

docs/reference/05 §7.3.

A cordon counts as a taint, whether or not the node has that taint.
"""

from __future__ import annotations

from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.taints import tolerates_unschedulable
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    NodeView,
    Plugin,
    PodPart,
    PodsOnNode,
    QueueingHint,
    Reads,
    Rejections,
    Status,
)
from kubesched.framework.causes import NodeCordoned
from kubesched.framework.explaining import Explaining
from kubesched.scheduler.config.plugin_names import NODE_UNSCHEDULABLE
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled
from kubesched.scheduler.plugins.helpers.hints import expect, expect_or_none, queue_if, same_pod
from kubesched.scheduler.plugins.helpers.tolerations import COMPARISON_OPERATORS

__all__ = ["NodeUnschedulable"]

CORDONED = Status.unresolvable("node(s) were unschedulable", causes=(NodeCordoned(),))


class NodeUnschedulable(Plugin):
    """Filter plugin: reject cordoned nodes, unless the pod tolerates the cordon."""

    name = NODE_UNSCHEDULABLE
    reads = Reads(
        pod=PodPart.TOLERATIONS,
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._comparison_operators = feature_enabled(handle, COMPARISON_OPERATORS)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        assert node.node is not None
        if not node.node.spec.unschedulable or self._tolerates_cordon(pod):
            return SUCCESS
        return CORDONED

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        cordoned = nodes.unschedulable
        if not cordoned.any() or self._tolerates_cordon(pod):
            return Rejections.none()
        # A copy, because the caller may store the verdict after the column has changed.
        return Rejections.where(cordoned.copy(), CORDONED)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes), self._node_changed
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_TOLERATION),
                self._tolerations_changed,
            ),
        )

    def _node_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        # Does not check whether the pod tolerates the cordon, as in the reference.
        before, after = expect_or_none(Node, old), expect(Node, new)
        was_usable = before is not None and not before.spec.unschedulable
        return queue_if(not was_usable and not after.spec.unschedulable)

    def _tolerations_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        updated = expect(Pod, new)
        return queue_if(same_pod(pod, updated) and self._tolerates_cordon(updated))

    def _tolerates_cordon(self, pod: Pod) -> bool:
        return tolerates_unschedulable(
            pod.spec.tolerations, comparison_operators=self._comparison_operators
        )

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.node_unschedulable.explaining import (
            NodeUnschedulableExplaining,
        )

        return NodeUnschedulableExplaining()
