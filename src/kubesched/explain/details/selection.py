"""Node selectors and affinity: which label it is that no node has, and which was meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kubesched.api import NodeSelectorRequirement, NodeSelectorTerm, Pod
from kubesched.api.labels import Requirement
from kubesched.explain.details.context import Detail, DetailContext, listed, nearest, plural
from kubesched.framework import NodeInfo

__all__ = ["describe_selection", "is_defined", "required_terms", "shown_requirement"]

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_NAME_FIELD = "metadata.name"


def required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """Terms of required node affinity, of which one has to match."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return required.node_selector_terms if required else ()


def describe_selection(context: DetailContext, _reason: str) -> Detail:
    pod, node = context.pod, context.example
    selector = pod.spec.node_selector or {}
    terms = required_terms(pod)
    wanted = " or ".join(map(_shown_term, terms))
    asked = " and ".join(
        part for part in (", ".join(f"{k}={v}" for k, v in selector.items()), wanted) if part
    )
    missing = [
        f"{key}={value} ({_is(node, key)})"
        for key, value in selector.items()
        if node.labels.get(key) != value
    ]
    keys = dict.fromkeys(each.key for term in terms for each in term.match_expressions)
    if missing:
        detail = f"on {node.name}: nodeSelector wants {', '.join(missing)}"
    elif keys:
        detail = f"on {node.name}: {', '.join(f'{key} {_is(node, key)}' for key in keys)}"
    else:
        detail = ""
    who = "no node matches" if context.is_about_all else "they do not match"
    if len(context.positions) == 1 < len(context.nodes):
        who = "it does not match"
    says = _says(context, selector, terms) or f"{who} {_narrowing(selector, wanted)}"
    return Detail(
        asked,
        "",
        detail,
        says,
        f"do not match {_narrowing(selector, wanted)}",
        _narrowing(selector, wanted),
    )


def _narrowing(selector: dict[str, str], wanted: str) -> str:
    parts = []
    if selector:
        parts.append("nodeSelector " + ", ".join(f"{k}={v}" for k, v in selector.items()))
    if wanted:
        parts.append(f"node affinity {wanted}")
    return " and ".join(parts) or "its node selection"


def _says(
    context: DetailContext, selector: dict[str, str], terms: Sequence[NodeSelectorTerm]
) -> str:
    """The one condition that no node meets, if there is such a one."""
    nodes = list(context.nodes)
    for key, value in selector.items():
        if not any(node.labels.get(key) == value for node in nodes):
            return f"no node has the label {key}={value}{_meant(nodes, key, (value,))}"
    hopeless = [found for term in terms if (found := _hopeless(context, nodes, term))]
    if terms and len(hopeless) == len(terms):
        return "; ".join(hopeless)
    if selector and len(selector) > 1 and not terms:
        return f"no node has all of {', '.join(f'{k}={v}' for k, v in selector.items())}"
    return ""


def _hopeless(context: DetailContext, nodes: Sequence[NodeInfo], term: NodeSelectorTerm) -> str:
    """Why no node meets a term, if it is because of one requirement."""
    for field in term.match_fields:
        if field.key == _NAME_FIELD and field.operator == "In":
            if any(node.name in field.values for node in nodes):
                continue
            owner = next((each for each in context.pod.metadata.owner_references), None)
            tied = ""
            if owner is not None:
                tied = f" ({owner.kind} {owner.name} made it for that node: delete the pod)"
            return f"it may only run on node {listed(field.values)}, which does not exist{tied}"
    for each in term.match_expressions:
        requirement = Requirement(
            each.key, _OPERATORS.get(each.operator, each.operator.lower()), each.values
        )
        if any(requirement.matches(node.labels) for node in nodes):
            continue
        if each.operator == "In":
            wanted = f"{each.key}={listed(each.values)}"
            return f"no node has the label {wanted}{_meant(nodes, each.key, each.values)}"
        if each.operator == "Exists":
            return f"no node has a label {each.key}{_meant(nodes, each.key, ())}"
        return f"no node meets {shown_requirement(each)}"
    return ""


def _meant(nodes: Sequence[NodeInfo], key: str, values: Sequence[str]) -> str:
    """What was probably meant, or what there is instead."""
    present = _values(nodes, key)
    for value in values:
        near = nearest(value, sorted(present))
        if near and not is_defined(key):
            count = present[near]
            have = "has" if count == 1 else "have"
            return f"; did you mean {key}={near}? {plural(count, 'node')} {have} it"
    if present:
        shown = listed(f"{value} ({count})" for value, count in present.most_common())
        return f"; there is {key}={shown}"
    other = nearest(key, sorted({each for node in nodes for each in node.labels}))
    if not other:
        return f"; no node has any {key}"
    found = _values(nodes, other)
    shown = listed(f"{value} ({count})" for value, count in found.most_common())
    return f"; did you mean the label {other}? There is {shown}"


def is_defined(key: str) -> bool:
    """Whether Kubernetes gives the label its values: arm64 is no slip of the pen for amd64."""
    return key.partition("/")[0].endswith(("kubernetes.io", "k8s.io"))


def _values(nodes: Iterable[NodeInfo], key: str) -> Counter[str]:
    return Counter(node.labels[key] for node in nodes if key in node.labels)


def _is(node: NodeInfo, key: str) -> str:
    value = node.labels.get(key)
    return "is not set" if value is None else f"is {value!r}"


def _shown_term(term: NodeSelectorTerm) -> str:
    return " and ".join(
        shown_requirement(each) for each in (*term.match_expressions, *term.match_fields)
    )


def shown_requirement(requirement: NodeSelectorRequirement) -> str:
    values = ", ".join(requirement.values)
    if requirement.operator in ("Exists", "DoesNotExist"):
        return f"{requirement.key} {requirement.operator}"
    return f"{requirement.key} {requirement.operator} [{values}]"
