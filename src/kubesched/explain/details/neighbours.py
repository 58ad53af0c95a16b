"""Spread and pod affinity: which constraint, which domains, which pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubesched.api import LabelSelector, Pod, TopologySpreadConstraint
from kubesched.api.labels import Selector
from kubesched.api.pod_facts import is_terminating
from kubesched.explain.details.context import DetailContext
from kubesched.framework import NodeInfo
from kubesched.framework.affinity_terms import AffinityTerm

__all__ = ["describe_affinity", "describe_spread", "hard_constraints", "shown_selector"]

_SHOWN = 4
_DO_NOT_SCHEDULE = "DoNotSchedule"


def hard_constraints(pod: Pod) -> list[tuple[int, TopologySpreadConstraint]]:
    """Constraints that may reject nodes, with their places in the pod's list."""
    return [
        (place, each)
        for place, each in enumerate(pod.spec.topology_spread_constraints)
        if each.when_unsatisfiable == _DO_NOT_SCHEDULE
    ]


def domain_counts(
    nodes: Iterable[NodeInfo], pod: Pod, constraint: TopologySpreadConstraint
) -> Counter[str]:
    """Pods that count towards a constraint in each domain; domains without any are there too."""
    selector = Selector.from_label_selector(constraint.label_selector)
    counts: Counter[str] = Counter()
    for node in nodes:
        domain = node.labels.get(constraint.topology_key)
        if domain is None:
            continue
        counts[domain] += sum(
            other.pod.metadata.namespace == pod.metadata.namespace
            and not is_terminating(other.pod)
            and selector.matches(other.pod.metadata.labels)
            for other in node.pods
        )
    return counts


def describe_spread(context: DetailContext, reason: str) -> tuple[str, str, str]:
    pod, node = context.pod, context.example
    constraints = [each for _, each in hard_constraints(pod)]
    if "missing required label" in reason:
        missing = [
            each.topology_key for each in constraints if each.topology_key not in node.labels
        ]
        return "", "", f"{node.name} has no label {', '.join(missing)}" if missing else ""
    for each in constraints:
        counts = domain_counts(context.nodes, pod, each)
        domain = node.labels.get(each.topology_key)
        if domain is None or not counts:
            continue
        lowest, emptiest = min((count, name) for name, count in counts.items())
        if counts[domain] + 1 - lowest <= each.max_skew:
            continue
        shown = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())[:_SHOWN])
        return (
            f"maxSkew {each.max_skew} over {each.topology_key}",
            f"skew {counts[domain] + 1 - lowest} in {domain}",
            f"pods per domain: {shown}; {emptiest} has the fewest",
        )
    return "", "", ""


def describe_affinity(context: DetailContext, reason: str) -> tuple[str, str, str]:
    info, node = context.pod_info, context.example
    if "existing pods anti-affinity" in reason:
        owners = sorted(
            f"{other.pod.metadata.namespace}/{other.pod.metadata.name}"
            for each in context.nodes
            for other in each.pods_with_required_anti_affinity
            if any(
                _shares_domain(each, node, term) and term.matches(info.pod, {})
                for term in other.required_anti_affinity_terms
            )
        )
        return "", "", f"kept away from {node.name} by {_some(owners)}" if owners else ""
    if "anti-affinity" in reason:
        for term in info.required_anti_affinity_terms:
            found = _matching(context.nodes, node, term)
            if found:
                return (
                    f"no such pod in the same {term.topology_key}",
                    "",
                    (f"in the {term.topology_key} of {node.name}: {_some(found)}"),
                )
        return "", "", ""
    wanted = [
        f"a pod like {_term(term)} in the same {term.topology_key}"
        for term in info.required_affinity_terms
        if not _matching(context.nodes, node, term)
    ]
    return " and ".join(wanted), "", f"none in reach of {node.name}" if wanted else ""


def _matching(nodes: Iterable[NodeInfo], near: NodeInfo, term: AffinityTerm) -> list[str]:
    """Names of pods that a term selects in the domain of a node."""
    return sorted(
        f"{other.pod.metadata.namespace}/{other.pod.metadata.name}"
        for node in nodes
        if _shares_domain(node, near, term)
        for other in node.pods
        if term.matches(other.pod, {})
    )


def _shares_domain(node: NodeInfo, other: NodeInfo, term: AffinityTerm) -> bool:
    value = other.labels.get(term.topology_key)
    return value is not None and node.labels.get(term.topology_key) == value


def _term(term: AffinityTerm) -> str:
    return str(term.selector) or "any"


def shown_selector(selector: LabelSelector | None) -> str:
    return str(Selector.from_label_selector(selector))


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
