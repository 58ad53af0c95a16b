"""Builders of selectors and affinities, with short arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubesched.api import (
    Affinity,
    LabelSelector,
    LabelSelectorRequirement,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PreferredSchedulingTerm,
    WeightedPodAffinityTerm,
)

__all__ = [
    "Expression",
    "Labels",
    "make_affinity",
    "make_node_selector",
    "make_node_term",
    "make_pod_term",
    "make_selector",
]

Labels = Mapping[str, str]

# A requirement as (key, operator, value, …), such as `("zone", "In", "a", "b")`.
Expression = tuple[str, str, *tuple[str, ...]]


def make_selector(
    labels: Labels | LabelSelector | None = None, *expressions: Expression
) -> LabelSelector:
    """Build a label selector; without arguments it selects everything."""
    if isinstance(labels, LabelSelector):
        return labels
    return LabelSelector(
        match_labels=dict(labels or {}),
        match_expressions=tuple(
            LabelSelectorRequirement(key=key, operator=operator, values=tuple(values))
            for key, operator, *values in expressions
        ),
    )


def make_node_term(*expressions: Expression, fields: Iterable[Expression] = ()) -> NodeSelectorTerm:
    """Build a node selector term: all expressions and all fields must match."""
    return NodeSelectorTerm(
        match_expressions=tuple(map(_requirement, expressions)),
        match_fields=tuple(map(_requirement, fields)),
    )


def make_node_selector(*terms: NodeSelectorTerm | Expression) -> NodeSelector:
    """Build a node selector: one term must match. A bare expression is a term of its own."""
    return NodeSelector(
        node_selector_terms=tuple(
            term if isinstance(term, NodeSelectorTerm) else make_node_term(term) for term in terms
        )
    )


def make_pod_term(
    topology_key: str,
    labels: Labels | LabelSelector | None = None,
    *expressions: Expression,
    namespaces: Iterable[str] = (),
    namespace_selector: Labels | LabelSelector | None = None,
    match_label_keys: Iterable[str] = (),
    mismatch_label_keys: Iterable[str] = (),
) -> PodAffinityTerm:
    """Build a pod affinity term for these labels; None and no expressions select no pods."""
    about_none = labels is None and not expressions
    return PodAffinityTerm(
        topology_key=topology_key,
        label_selector=None if about_none else make_selector(labels, *expressions),
        namespaces=tuple(namespaces),
        namespace_selector=(
            make_selector(namespace_selector) if namespace_selector is not None else None
        ),
        match_label_keys=tuple(match_label_keys),
        mismatch_label_keys=tuple(mismatch_label_keys),
    )


def make_affinity(
    *,
    node: NodeSelector | NodeSelectorTerm | Expression | None = None,
    node_preferred: Iterable[tuple[int, NodeSelectorTerm | Expression]] | None = None,
    near: Iterable[PodAffinityTerm] | None = None,
    near_preferred: Iterable[tuple[int, PodAffinityTerm]] | None = None,
    apart: Iterable[PodAffinityTerm] | None = None,
    apart_preferred: Iterable[tuple[int, PodAffinityTerm]] | None = None,
) -> Affinity:
    """Make an affinity from node affinity, pod affinity (`near`) and anti-affinity (`apart`).

    A part that is None is absent. A section without parts is absent as well; an empty part makes
    its section present, which the reference distinguishes. Preferences are (weight, term).
    """
    return Affinity(
        node_affinity=_node_affinity(node, node_preferred),
        pod_affinity=(
            None
            if near is None and near_preferred is None
            else PodAffinity(
                required_during_scheduling_ignored_during_execution=tuple(near or ()),
                preferred_during_scheduling_ignored_during_execution=_weighted(near_preferred),
            )
        ),
        pod_anti_affinity=(
            None
            if apart is None and apart_preferred is None
            else PodAntiAffinity(
                required_during_scheduling_ignored_during_execution=tuple(apart or ()),
                preferred_during_scheduling_ignored_during_execution=_weighted(apart_preferred),
            )
        ),
    )


def _node_affinity(
    node: NodeSelector | NodeSelectorTerm | Expression | None,
    preferred: Iterable[tuple[int, NodeSelectorTerm | Expression]] | None,
) -> NodeAffinity | None:
    if node is None and preferred is None:
        return None
    required = node if node is None or isinstance(node, NodeSelector) else make_node_selector(node)
    return NodeAffinity(
        required_during_scheduling_ignored_during_execution=required,
        preferred_during_scheduling_ignored_during_execution=(
            None
            if preferred is None
            else tuple(
                PreferredSchedulingTerm(
                    weight=weight,
                    preference=(
                        term if isinstance(term, NodeSelectorTerm) else make_node_term(term)
                    ),
                )
                for weight, term in preferred
            )
        ),
    )


def _weighted(
    terms: Iterable[tuple[int, PodAffinityTerm]] | None,
) -> tuple[WeightedPodAffinityTerm, ...]:
    return tuple(
        WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term)
        for weight, term in terms or ()
    )


def _requirement(expression: Expression) -> NodeSelectorRequirement:
    key, operator, *values = expression
    return NodeSelectorRequirement(key=key, operator=operator, values=tuple(values))
