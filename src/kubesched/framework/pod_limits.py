"""Limits for lists of a pod, and of objects that it needs, which are compared with nodes or pods.

The API does not bound these lists, so one pod could delay all others (decisions 0018 and 0028).
The plugin that reads a list rejects a pod beyond its limit, with a reason that names the limit.
Real pods have less than a tenth of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubesched.api import Affinity, LabelSelector, NodeAffinity, Pod
from kubesched.api.node_selector import MOST_REQUIREMENTS

__all__ = [
    "MOST_AFFINITY_TERMS",
    "MOST_NODE_REQUIREMENTS",
    "MOST_RESOURCES",
    "MOST_SELECTED_LABELS",
    "MOST_SELECTOR_EXPRESSIONS",
    "MOST_SPREAD_CONSTRAINTS",
    "MOST_TOLERATIONS",
    "affinity_excess",
    "node_selection_excess",
    "requirements_of",
    "spread_excess",
]

# Pod affinity terms of all four kinds: each may have to be compared with every pod.
MOST_AFFINITY_TERMS: Final = 64
MOST_SPREAD_CONSTRAINTS: Final = 32
# In the selectors of all terms, or of all constraints, labels to be equal included.
MOST_SELECTOR_EXPRESSIONS: Final = 512
# In node selector and node affinity.
MOST_NODE_REQUIREMENTS: Final = MOST_REQUIREMENTS
# Each may have to be compared with the taints of every node.
MOST_TOLERATIONS: Final = 512
MOST_RESOURCES: Final = 128
# In the selector of a budget, and of a claim for volumes: it is compiled in one piece.
MOST_SELECTED_LABELS: Final = 10_000


def affinity_excess(affinity: Affinity) -> str:
    """Describe what exceeds its limit in a pod's affinity to pods; empty if nothing does."""
    terms = expressions = 0
    for part in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if part is None:
            continue
        required = part.required_during_scheduling_ignored_during_execution
        preferred = part.preferred_during_scheduling_ignored_during_execution
        terms += len(required) + len(preferred)
        if terms > MOST_AFFINITY_TERMS:
            continue  # an invalid selector is reported elsewhere
        for term in (*required, *(each.pod_affinity_term for each in preferred)):
            expressions += _expressions((term.label_selector, term.namespace_selector))
    if terms > MOST_AFFINITY_TERMS:
        return f"{terms} pod affinity terms, of which {MOST_AFFINITY_TERMS} are allowed"
    if expressions > MOST_SELECTOR_EXPRESSIONS:
        return (
            f"{expressions} selector expressions in pod affinity terms, of which "
            f"{MOST_SELECTOR_EXPRESSIONS} are allowed"
        )
    return ""


def spread_excess(pod: Pod) -> str:
    """Describe what exceeds its limit in a pod's spread constraints; empty if nothing does."""
    if (count := len(pod.spec.tolerations)) > MOST_TOLERATIONS:
        return f"{count} tolerations, of which {MOST_TOLERATIONS} are allowed"
    constraints = pod.spec.topology_spread_constraints
    if (count := len(constraints)) > MOST_SPREAD_CONSTRAINTS:
        return (
            f"{count} topology spread constraints, of which {MOST_SPREAD_CONSTRAINTS} are allowed"
        )
    count = _expressions(each.label_selector for each in constraints)
    if count > MOST_SELECTOR_EXPRESSIONS:
        return (
            f"{count} selector expressions in topology spread constraints, of which "
            f"{MOST_SELECTOR_EXPRESSIONS} are allowed"
        )
    return ""


def node_selection_excess(pod: Pod, own: NodeAffinity | None) -> str:
    """Describe what exceeds its limit in a pod's node selection; empty if nothing does."""
    count = len(pod.spec.node_selector or ())
    if own is not None:
        required = own.required_during_scheduling_ignored_during_execution
        preferred = own.preferred_during_scheduling_ignored_during_execution or ()
        terms = [*(required.node_selector_terms if required is not None else ())]
        terms += [each.preference for each in preferred]
        # An empty term costs as much as one requirement.
        count += sum(max(1, len(e.match_expressions) + len(e.match_fields)) for e in terms)
    if count > MOST_NODE_REQUIREMENTS:
        return f"{count} node selector requirements, of which {MOST_NODE_REQUIREMENTS} are allowed"
    return ""


def requirements_of(selector: LabelSelector | None) -> int:
    """Return the number of labels and expressions of a selector."""
    return 0 if selector is None else len(selector.match_expressions) + len(selector.match_labels)


def _expressions(selectors: Iterable[LabelSelector | None]) -> int:
    return sum(map(requirements_of, selectors))
