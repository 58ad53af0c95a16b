"""NodeDeclaredFeatures: a node must have the features that a pod requires.

docs/reference/05 §7.12.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kubesched.api import Node, Pod, PodSpec
from kubesched.framework import (
    SKIP,
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
    PodInfo,
    PodPart,
    PodsOnNode,
    QueueingHint,
    Reads,
    Rejections,
    StateNotFoundError,
    Status,
)
from kubesched.framework.causes import NodeFeaturesMissing
from kubesched.framework.explaining import Explaining
from kubesched.scheduler.config.plugin_names import NODE_DECLARED_FEATURES
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled
from kubesched.scheduler.plugins.helpers.hints import expect, expect_or_none, queue_if, same_pod
from kubesched.scheduler.plugins.helpers.missing_state import reject_all
from kubesched.scheduler.plugins.node_declared_features.declared_features import (
    declared_features,
    required_features,
)

__all__ = ["NodeDeclaredFeatures"]

STATE_KEY = "PreFilterNodeDeclaredFeatures"
LACKING = Status.unresolvable(
    "node(s) didn't match Pod's required features", causes=(NodeFeaturesMissing(),)
)


class NodeDeclaredFeatures(Plugin):
    """Filter plugin: reject nodes that do not declare a required feature.

    Without its feature gate, the plugin accepts every node.
    """

    name = NODE_DECLARED_FEATURES
    reads = Reads(
        pod=PodPart.CONTAINERS | PodPart.HOST,
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._is_enabled = feature_enabled(handle, NODE_DECLARED_FEATURES)

    def concerns(self, spec: PodSpec) -> bool:
        return self._is_enabled and bool(required_features(spec))

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        required = required_features(pod_info.pod.spec) if self._is_enabled else 0
        if not required:
            return SKIP
        state.write(STATE_KEY, required)
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if not self._is_enabled:
            return SUCCESS
        try:
            required: int = state.read(STATE_KEY)
        except StateNotFoundError as exc:
            return _missing(exc)
        assert node.node is not None
        return (
            LACKING
            if required & ~declared_features(node.node.status.declared_features)
            else SUCCESS
        )

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        if not self._is_enabled:
            return Rejections.none()
        try:
            required: int = state.read(STATE_KEY)
        except StateNotFoundError as exc:
            return reject_all(nodes, _missing(exc))
        table = nodes.table
        lacking = np.array(
            [bool(required & ~declared_features(names)) for names in table.feature_sets.values]
        )
        return Rejections.where(lacking.take(nodes.at(table.feature_set)), LACKING)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        if not self._is_enabled:
            return ()
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes), self._node_changed
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE), self._pod_changed
            ),
        )

    def _node_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        before, after = expect_or_none(Node, old), expect(Node, new)
        return queue_if(
            before is None or before.status.declared_features != after.status.declared_features
        )

    def _pod_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        before, after = expect(Pod, old), expect(Pod, new)
        return queue_if(
            same_pod(pod, after) and required_features(before.spec) != required_features(after.spec)
        )

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.node_declared_features.explaining import (
            NodeDeclaredFeaturesExplaining,
        )

        return NodeDeclaredFeaturesExplaining()


def _missing(exc: StateNotFoundError) -> Status:
    return Status.failure(f'error reading "{STATE_KEY}" from cycle-state: {exc}')
