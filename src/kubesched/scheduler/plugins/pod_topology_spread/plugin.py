"""PodTopologySpread: spread pods evenly over zones, nodes or other domains.

docs/reference/06 §1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod, PodSpec, TopologySpreadConstraint
from kubesched.errors import SelectorError
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
    Rejections,
    StateNotFoundError,
    Status,
)
from kubesched.framework.explaining import Explaining
from kubesched.framework.pod_limits import spread_excess
from kubesched.scheduler.config.args import SYSTEM_DEFAULTING, PodTopologySpreadArgs
from kubesched.scheduler.config.plugin_names import POD_TOPOLOGY_SPREAD
from kubesched.scheduler.plugins.helpers.missing_state import reject_all
from kubesched.scheduler.plugins.pod_topology_spread.default_selector import DefaultSelectors
from kubesched.scheduler.plugins.pod_topology_spread.filtering import HardSpread
from kubesched.scheduler.plugins.pod_topology_spread.hints import SpreadHints
from kubesched.scheduler.plugins.pod_topology_spread.inclusion import Inclusion
from kubesched.scheduler.plugins.pod_topology_spread.scoring import HOSTNAME, SoftSpread
from kubesched.scheduler.plugins.pod_topology_spread.spread_constraints import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    SpreadConstraint,
    SpreadConstraintReader,
)

__all__ = ["SYSTEM_DEFAULTS", "PodTopologySpread"]

_PRE_FILTER_KEY = "PreFilterPodTopologySpread"
_PRE_SCORE_KEY = "PreScorePodTopologySpread"

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY),
    TopologySpreadConstraint(
        max_skew=5,
        topology_key="topology.kubernetes.io/zone",
        when_unsatisfiable=SCHEDULE_ANYWAY,
    ),
)


class PodTopologySpread(Plugin):
    """Filter nodes by hard spread constraints, and score them by soft ones."""

    name = POD_TOPOLOGY_SPREAD
    args_type = PodTopologySpreadArgs

    def __init__(
        self, args: PodTopologySpreadArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(PodTopologySpreadArgs() if args is None else args, handle)
        self._system_defaulted = self.args.defaulting_type == SYSTEM_DEFAULTING
        self._defaults: tuple[TopologySpreadConstraint, ...] = (
            SYSTEM_DEFAULTS if self._system_defaulted else self.args.default_constraints
        )
        self._defaults_for = {
            action: tuple(each for each in self._defaults if each.when_unsatisfiable == action)
            for action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
        }
        self._default_selectors = (
            DefaultSelectors(handle) if self._defaults and handle is not None else None
        )
        self._reader = SpreadConstraintReader(
            handle is None or handle.feature_enabled("MatchLabelKeysInPodTopologySpread")
        )
        self._comparing = handle is not None and handle.feature_enabled(
            "TaintTolerationComparisonOperators"
        )
        self._hints = SpreadHints(self.hard_constraints)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pod_actions = (
            ActionType.ADD
            | ActionType.UPDATE_POD_LABEL
            | ActionType.UPDATE_POD_TOLERATION
            | ActionType.DELETE
        )
        node_actions = (
            ActionType.ADD
            | ActionType.DELETE
            | ActionType.UPDATE_NODE_LABEL
            | ActionType.UPDATE_NODE_TAINT
        )
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, pod_actions), self._hints.after_pod_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_actions), self._hints.after_node_change
            ),
        )

    def _constraints(self, pod: Pod, action: str) -> tuple[SpreadConstraint, ...]:
        """Return the pod's own constraints with this action, or the default ones."""
        own = pod.spec.topology_spread_constraints
        if own:
            return self._reader.read(pod, own, action)
        defaults = self._defaults_for[action]
        if not defaults or self._default_selectors is None:
            return ()
        selector = self._default_selectors.selector_for(pod)
        if selector.is_empty:
            return ()
        return self._reader.read_defaults(pod, defaults, selector)

    def hard_constraints(self, pod: Pod) -> tuple[SpreadConstraint, ...]:
        """Return the constraints that filter nodes: the pod's own ones, or the default ones.

        Raises:
            SelectorError: a label selector is invalid.
        """
        return self._constraints(pod, DO_NOT_SCHEDULE)

    def inclusion_of(self, pod: Pod, constraints: Sequence[SpreadConstraint]) -> Inclusion:
        """Return the rule that decides which nodes count for the pod's hard constraints."""
        return Inclusion(pod, [each.topology_key for each in constraints], self._comparing)

    def concerns(self, spec: PodSpec) -> bool:
        return bool(spec.topology_spread_constraints or self._defaults_for[DO_NOT_SCHEDULE])

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        pod = pod_info.pod
        if pod.spec.topology_spread_constraints and (excess := spread_excess(pod)):
            return Status.unresolvable(excess)
        try:
            constraints = self.hard_constraints(pod)
        except SelectorError as exc:
            return Status.failure(
                f"get constraints from pod: obtaining pod's hard topology spread constraints: {exc}"
            )
        if not constraints:
            return SKIP
        inclusion = self.inclusion_of(pod, constraints)
        state.write(_PRE_FILTER_KEY, HardSpread.of(constraints, pod, inclusion, nodes.pods))
        return SUCCESS

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        return self._change(state, pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        return self._change(state, pod, removed, node, -1)

    def _change(
        self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo, step: int
    ) -> Status:
        spread = _hard_spread(state)
        if isinstance(spread, Status):
            return spread
        spread.change(pod, other, node, step)
        return SUCCESS

    def ignores(self, state: CycleState, pod: Pod, other: PodInfo) -> bool:
        spread = _hard_spread(state)
        return not isinstance(spread, Status) and not spread.concerns(pod, other)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        spread = _hard_spread(state)
        return spread if isinstance(spread, Status) else spread.verdict(node)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        spread = _hard_spread(state)
        return reject_all(nodes, spread) if isinstance(spread, Status) else spread.verdicts(nodes)

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        pod = pod_info.pod
        if not nodes.table.row_of:
            return SKIP
        try:
            constraints = self._constraints(pod, SCHEDULE_ANYWAY)
        except SelectorError as exc:
            return Status.failure(
                "calculating preScoreState: "
                f"obtaining pod's soft topology spread constraints: {exc}"
            )
        if not constraints:
            return SKIP
        # Only with the built-in defaults can a node without the labels get a score.
        require_all = bool(pod.spec.topology_spread_constraints) or not self._system_defaulted
        keys = [each.topology_key for each in constraints] if require_all else []
        inclusion = Inclusion(pod, keys, self._comparing)
        state.write(_PRE_SCORE_KEY, SoftSpread(constraints, inclusion, nodes, require_all))
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return _soft_spread(state).score(node)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return _soft_spread(state).scores(nodes)

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return _soft_spread(state).normalized(nodes, scores)

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.pod_topology_spread.explaining import (
            PodTopologySpreadExplaining,
        )

        return PodTopologySpreadExplaining()


def _hard_spread(state: CycleState) -> HardSpread | Status:
    try:
        spread = state.read(_PRE_FILTER_KEY)
    except StateNotFoundError as exc:
        return Status.failure(f'reading "{_PRE_FILTER_KEY}" from cycleState: {exc}')
    assert isinstance(spread, HardSpread)
    return spread


def _soft_spread(state: CycleState) -> SoftSpread:
    spread = state.read(_PRE_SCORE_KEY)
    assert isinstance(spread, SoftSpread)
    return spread
