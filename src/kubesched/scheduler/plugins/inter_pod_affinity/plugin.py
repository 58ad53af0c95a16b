"""InterPodAffinity: place pods near other pods, or away from them.

docs/reference/06 §2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Namespace, Pod
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
from kubesched.framework.engine import kernels
from kubesched.framework.explaining import Explaining
from kubesched.framework.pod_index import TermKind
from kubesched.scheduler.config.args import InterPodAffinityArgs
from kubesched.scheduler.config.plugin_names import INTER_POD_AFFINITY
from kubesched.scheduler.plugins.helpers.missing_state import reject_all
from kubesched.scheduler.plugins.inter_pod_affinity.filtering import RequiredTerms
from kubesched.scheduler.plugins.inter_pod_affinity.hints import AffinityHints
from kubesched.scheduler.plugins.inter_pod_affinity.nominated_terms import NominatedTerms
from kubesched.scheduler.plugins.inter_pod_affinity.scoring import Preferences

__all__ = ["InterPodAffinity"]

_APART = TermKind.REQUIRED_ANTI_AFFINITY
_PRE_FILTER_KEY = "PreFilterInterPodAffinity"
_PRE_SCORE_KEY = "PreScoreInterPodAffinity"


class InterPodAffinity(Plugin):
    """Filter and score nodes by affinity and anti-affinity terms between pods."""

    name = INTER_POD_AFFINITY
    args_type = InterPodAffinityArgs

    def __init__(
        self, args: InterPodAffinityArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(InterPodAffinityArgs() if args is None else args, handle)
        self._hard_weight: int = self.args.hard_pod_affinity_weight
        self._ignore_existing: bool = self.args.ignore_preferred_terms_of_existing_pods
        self._namespaces = None if handle is None else handle.lister(Namespace)
        self._hints = AffinityHints()
        self._nominated = None if handle is None else NominatedTerms(handle)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pod_actions = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
        node_actions = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, pod_actions), self._hints.after_pod_change
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_actions), self._hints.after_node_change
            ),
        )

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        if pod_info.affinity_errors:
            return Status.unresolvable(f"parsing pod: {_joined(pod_info.affinity_errors)}")
        has_nominated_terms = self._has_nominated_terms()
        if not (
            has_nominated_terms
            or pod_info.has_affinity
            or (nodes.pods.has_terms and nodes.pods.has_terms_of(_APART))
        ):
            return SKIP
        terms = RequiredTerms.of(
            pod_info, nodes.pods, self._namespaces, has_nominated_terms=has_nominated_terms
        )
        if terms is None:
            return SKIP
        state.write(_PRE_FILTER_KEY, terms)
        return SUCCESS

    def _has_nominated_terms(self) -> bool:
        return self._nominated is not None and self._nominated.exist()

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        return self._change(state, pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        return self._change(state, pod, removed, node, -1)

    def _change(
        self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo, step: int
    ) -> Status:
        terms = _required_terms(state)
        if isinstance(terms, Status):
            return terms
        terms.change(pod, other, node, step)
        return SUCCESS

    def ignores(self, state: CycleState, pod: Pod, other: PodInfo) -> bool:
        terms = _required_terms(state)
        return not isinstance(terms, Status) and not terms.concerns(pod, other)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        terms = _required_terms(state)
        return terms if isinstance(terms, Status) else terms.verdict(node)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        terms = _required_terms(state)
        return reject_all(nodes, terms) if isinstance(terms, Status) else terms.verdicts(nodes)

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        has_preferences = bool(
            pod_info.preferred_affinity_terms or pod_info.preferred_anti_affinity_terms
        )
        if self._ignore_existing and not has_preferences:
            return SKIP
        if pod_info.affinity_errors:
            return Status.failure(f"failed to parse pod: {_joined(pod_info.affinity_errors)}")
        if not has_preferences and not nodes.pods.has_terms:
            return SKIP
        preferences = Preferences.of(pod_info, nodes.pods, self._namespaces, self._hard_weight)
        if preferences is None:
            return SKIP
        state.write(_PRE_SCORE_KEY, preferences)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return _preferences(state).score(node)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return _preferences(state).scores(nodes)

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return kernels.spread_shares(scores)

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.inter_pod_affinity.explaining import (
            InterPodAffinityExplaining,
        )

        return InterPodAffinityExplaining()


def _required_terms(state: CycleState) -> RequiredTerms | Status:
    try:
        terms = state.read(_PRE_FILTER_KEY)
    except StateNotFoundError as exc:
        return Status.failure(f'error reading "{_PRE_FILTER_KEY}" from cycleState: {exc}')
    assert isinstance(terms, RequiredTerms)
    return terms


def _preferences(state: CycleState) -> Preferences:
    preferences = state.read(_PRE_SCORE_KEY)
    assert isinstance(preferences, Preferences)
    return preferences


def _joined(errors: Sequence[str]) -> str:
    """Format errors as the reference does: distinct texts in brackets."""
    distinct = tuple(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
