"""NodeAffinity: node selectors and node affinity, required and preferred.

docs/reference/05 §7.6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Node, NodeSelectorTerm, Pod, PodSpec
from kubesched.api import NodeAffinity as NodeAffinitySpec
from kubesched.api.node_selector import NodeMatcher, PreferredNodeTerms, RequiredNodeAffinity
from kubesched.errors import ConfigError, SelectorError
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
    OnlyNodes,
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
from kubesched.framework.causes import NodeSelectorMismatch
from kubesched.framework.explaining import Explaining
from kubesched.framework.pod_limits import node_selection_excess
from kubesched.scheduler.config.args import NodeAffinityArgs
from kubesched.scheduler.config.plugin_names import NODE_AFFINITY
from kubesched.scheduler.plugins.helpers.hints import expect, expect_or_none, queue_if
from kubesched.scheduler.plugins.helpers.node_matching import (
    match_any_term,
    match_required,
    match_term,
)
from kubesched.scheduler.plugins.helpers.normalization import default_normalize

__all__ = ["NodeAffinity"]

PRE_FILTER_KEY = "PreFilterNodeAffinity"
PRE_SCORE_KEY = "PreScoreNodeAffinity"

MISMATCH = Status.unresolvable(
    "node(s) didn't match Pod's node affinity/selector", causes=(NodeSelectorMismatch(),)
)
ENFORCED_MISMATCH = Status.unresolvable(
    "node(s) didn't match scheduler-enforced node affinity", causes=(NodeSelectorMismatch(),)
)
CONFLICT = Status.unresolvable("pod affinity terms conflict", causes=(NodeSelectorMismatch(),))

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NONE_PREFERRED = PreferredNodeTerms(())


class NodeAffinity(Plugin):
    """Filter and score nodes by the pod's node selector and node affinity.

    A profile may define an additional affinity (`addedAffinity`), which applies to every pod.
    """

    name = NODE_AFFINITY
    args_type = NodeAffinityArgs
    reads = Reads(
        pod=PodPart.NODE_SELECTION,
        pods_on_node=PodsOnNode.NOTHING,
        other_nodes=False,
        objects=(),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        added = args.added_affinity if args is not None else None
        self._added_required = _parse_added_required(added)
        self._added_preferred = _parse_added_preferred(added)

    def concerns(self, spec: PodSpec) -> bool:
        return (
            self._added_required is not None
            or spec.node_selector is not None
            or (spec.affinity is not None and spec.affinity.node_affinity is not None)
        )

    def pre_filter(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView
    ) -> Status | OnlyNodes:
        pod = pod_info.pod
        own = _own_affinity(pod)
        if excess := node_selection_excess(pod, own):
            return Status.unresolvable(excess)
        required = own.required_during_scheduling_ignored_during_execution if own else None
        if required is None and self._added_required is None and pod.spec.node_selector is None:
            return SKIP
        state.write(PRE_FILTER_KEY, RequiredNodeAffinity.of(pod))
        if required is None or not required.node_selector_terms:
            return SUCCESS
        names = _named_nodes(required.node_selector_terms)
        if names is None:
            return SUCCESS
        return OnlyNodes(names) if names else CONFLICT

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        added = self._added_required
        if added is not None and not added.matches(node.labels, node.name):
            return ENFORCED_MISMATCH
        return SUCCESS if _required(state, pod).matches(node.labels, node.name) else MISMATCH

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        mismatch = ~match_required(_required(state, pod), nodes)
        if self._added_required is None:
            return Rejections.where(mismatch, MISMATCH)
        codes = mismatch.view(np.uint8)
        codes[~match_any_term(self._added_required, nodes)] = 2
        return Rejections(codes, (MISMATCH, ENFORCED_MISMATCH))

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        try:
            preferred = _parse_preferred(pod_info.pod)
        except SelectorError as exc:
            return Status.failure(exc)
        if preferred is None and not self._added_preferred.terms:
            return SKIP
        state.write(PRE_SCORE_KEY, preferred or _NONE_PREFERRED)
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return self._added_preferred.score(node.labels, node.name) + _preferred(state, pod).score(
            node.labels, node.name
        )

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        scores = np.zeros(len(nodes), dtype=np.int64)
        for term, weight in (*self._added_preferred.terms, *_preferred(state, pod).terms):
            scores += match_term(term, nodes) * np.int64(weight)
        return scores

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return default_normalize(scores)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        node_changes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.NODE, node_changes), self._node_changed
            ),
        )

    def _node_changed(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        before, after = expect_or_none(Node, old), expect(Node, new)
        if self._added_required is not None and not self._added_required.matches_node(after):
            return QueueingHint.SKIP
        if node_selection_excess(pod, _own_affinity(pod)):
            return QueueingHint.SKIP  # PreFilter rejects the pod for every node
        required = RequiredNodeAffinity.of(pod)
        if not required.check(after.metadata.labels, after.metadata.name):
            return QueueingHint.SKIP
        # The added affinity is not compared with the old node, as in the reference.
        return queue_if(
            before is None or not required.check(before.metadata.labels, before.metadata.name)
        )

    def explaining(self) -> Explaining:
        from kubesched.scheduler.plugins.node_affinity.explaining import NodeAffinityExplaining

        return NodeAffinityExplaining()


def _own_affinity(pod: Pod) -> NodeAffinitySpec | None:
    affinity = pod.spec.affinity
    return affinity.node_affinity if affinity is not None else None


def _named_nodes(terms: tuple[NodeSelectorTerm, ...]) -> frozenset[str] | None:
    """The names of the only nodes that can match, or None if some term names none.

    The values are not validated, even where they make a term invalid.
    """
    union: set[str] = set()
    for term in terms:
        named: set[str] | None = None
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In":
                named = set(field.values) if named is None else named.intersection(field.values)
        if named is None:
            return None
        union |= named
    return frozenset(union)


def _required(state: CycleState, pod: Pod) -> RequiredNodeAffinity:
    try:
        required: RequiredNodeAffinity = state.read(PRE_FILTER_KEY)
    except StateNotFoundError:
        return RequiredNodeAffinity.of(pod)
    return required


def _parse_preferred(pod: Pod) -> PreferredNodeTerms | None:
    own = _own_affinity(pod)
    preferred = own.preferred_during_scheduling_ignored_during_execution if own else None
    return PreferredNodeTerms.parse(preferred) if preferred is not None else None


def _preferred(state: CycleState, pod: Pod) -> PreferredNodeTerms:
    try:
        preferred: PreferredNodeTerms = state.read(PRE_SCORE_KEY)
    except StateNotFoundError:
        return _parse_preferred(pod) or _NONE_PREFERRED
    return preferred


def _parse_added_required(added: NodeAffinitySpec | None) -> NodeMatcher | None:
    required = added.required_during_scheduling_ignored_during_execution if added else None
    if required is None:
        return None
    try:
        return NodeMatcher.parse_strictly(required)
    except SelectorError as exc:
        raise ConfigError(f"parsing addedAffinity.{_REQUIRED}: {exc}") from exc


def _parse_added_preferred(added: NodeAffinitySpec | None) -> PreferredNodeTerms:
    preferred = added.preferred_during_scheduling_ignored_during_execution if added else None
    try:
        return PreferredNodeTerms.parse(preferred or ())
    except SelectorError as exc:
        raise ConfigError(f"parsing addedAffinity.{_PREFERRED}: {exc}") from exc
