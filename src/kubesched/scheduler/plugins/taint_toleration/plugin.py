"""TaintToleration: a tainted node accepts tolerating pods only.

docs/reference/05 §7.5.

Many nodes share few distinct lists of taints. The many-node form evaluates each list once and
looks the verdict of each node up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Node, Pod, Taint, Toleration
from kubesched.api.taints import PREFER_NO_SCHEDULE, first_untolerated, is_tolerated
from kubesched.errors import KubeschedError
from kubesched.framework import (
    MAX_NODE_SCORE,
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
from kubesched.framework.causes import UntoleratedTaint
from kubesched.framework.explaining import Explaining
from kubesched.framework.pod_limits import MOST_TOLERATIONS
from kubesched.scheduler.config.plugin_names import TAINT_TOLERATION
from kubesched.scheduler.plugins.helpers.feature_checks import feature_enabled
from kubesched.scheduler.plugins.helpers.hints import expect, expect_or_none, queue_if, same_pod
from kubesched.scheduler.plugins.helpers.missing_state import reject_all
from kubesched.scheduler.plugins.helpers.normalization import default_normalize
from kubesched.scheduler.plugins.helpers.tolerations import COMPARISON_OPERATORS

__all__ = ["TaintToleration"]

STATE_KEY = "PreScoreTaintToleration"
_FEW_TAINT_SETS = 64
_RELEVANT = frozenset({"", PREFER_NO_SCHEDULE})  # effects of tolerations
UNTOLERATED = Status.unresolvable("node(s) had untolerated taint(s)", causes=(UntoleratedTaint(),))


class TaintToleration(Plugin):
    """Filter nodes by their taints; score by the number of untolerated soft taints."""

    name = TAINT_TOLERATION
    reads = Reads(
        pod=PodPart.TOLERATIONS,
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._comparison_operators = feature_enabled(handle, COMPARISON_OPERATORS)
        # The tolerations of the previous pod, and those of them that PreScore uses.
        self._last_tolerations: tuple[Toleration, ...] = ()
        self._last_relevant: tuple[Toleration, ...] = ()

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        assert node.node is not None
        if (count := len(pod.spec.tolerations)) > MOST_TOLERATIONS:
            return _too_many(count)
        return UNTOLERATED if self._has_untolerated(pod, node.node.spec.taints) else SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        if (count := len(pod.spec.tolerations)) > MOST_TOLERATIONS:
            return reject_all(nodes, _too_many(count))
        taint_set = nodes.taint_set
        if not np.count_nonzero(taint_set):
            return Rejections.none()
        verdicts = [self._has_untolerated(pod, taints) for taints in nodes.taint_sets]
        if not any(verdicts):
            return Rejections.none()
        return Rejections.where(np.array(verdicts).take(taint_set), UNTOLERATED)

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        tolerations = pod_info.pod.spec.tolerations
        if tolerations is not self._last_tolerations:  # pods of one workload share the spec
            self._last_tolerations = tolerations
            self._last_relevant = tuple([each for each in tolerations if each.effect in _RELEVANT])
        state.write(STATE_KEY, self._last_relevant)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        assert node.node is not None
        return self._count_soft_taints(_relevant_tolerations(state), node.node.spec.taints)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        tolerations = _relevant_tolerations(state)
        taint_set = nodes.taint_set
        if not np.count_nonzero(taint_set):
            return np.zeros(len(nodes), dtype=np.int64)
        counts = [self._count_soft_taints(tolerations, taints) for taints in nodes.taint_sets]
        return np.array(counts, dtype=np.int64).take(taint_set)

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return default_normalize(scores, reverse=True)

    def uniform_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> int | None:
        taint_sets = nodes.taint_sets
        if len(taint_sets) > _FEW_TAINT_SETS:
            return None  # evaluating them for every pod would cost more than it saves
        for taints in taint_sets:
            if taints and self._count_soft_taints(_relevant_tolerations(state), taints):
                return None
        return MAX_NODE_SCORE

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
        before, after = expect_or_none(Node, old), expect(Node, new)
        was_rejected = before is None or self._has_untolerated(pod, before.spec.taints)
        return queue_if(was_rejected and not self._has_untolerated(pod, after.spec.taints))

    def _tolerations_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        return queue_if(same_pod(pod, expect(Pod, new)))

    def _has_untolerated(self, pod: Pod, taints: Sequence[Taint]) -> bool:
        """Whether a NoSchedule or NoExecute taint rejects the pod."""
        if len(pod.spec.tolerations) > MOST_TOLERATIONS:
            return True
        found = first_untolerated(
            taints, pod.spec.tolerations, comparison_operators=self._comparison_operators
        )
        return found is not None

    def _count_soft_taints(self, tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> int:
        """How many PreferNoSchedule taints the tolerations do not cover."""
        return sum(
            taint.effect == PREFER_NO_SCHEDULE
            and not is_tolerated(
                taint, tolerations, comparison_operators=self._comparison_operators
            )
            for taint in taints
        )

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.taint_toleration.explaining import (
            TaintTolerationExplaining,
        )

        return TaintTolerationExplaining()


def _too_many(count: int) -> Status:
    return Status.unresolvable(f"{count} tolerations, of which {MOST_TOLERATIONS} are allowed")


def _relevant_tolerations(state: CycleState) -> tuple[Toleration, ...]:
    try:
        tolerations: tuple[Toleration, ...] = state.read(STATE_KEY)
    except StateNotFoundError as exc:
        raise KubeschedError(f'failed to read "{STATE_KEY}" from cycleState: {exc}') from exc
    return tolerations
