"""Explains rejections by node selectors and affinity: which label is missing or mistyped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from kubesched.api import NodeSelectorRequirement, NodeSelectorTerm, Pod
from kubesched.api.labels import Requirement
from kubesched.api.runtime_class import RuntimeClass
from kubesched.framework import Cause, NodeInfo
from kubesched.framework.explaining import (
    Detail,
    Explaining,
    RejectedNodes,
    Remedy,
    RuleKind,
)
from kubesched.scheduler.plugins.helpers.pod_edits import (
    with_required_terms,
    without_node_selector,
)
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
    nearest,
    plural,
    shown_requirement,
)

__all__ = ["NodeAffinityExplaining"]


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}

_NAME_FIELD = "metadata.name"

_MOST_LABELLED = 2

# Labels that kubelets and cloud controllers set. Another value would not change the machine.
_OF_THE_MACHINE = frozenset(
    {
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)


class NodeAffinityExplaining(Explaining):
    """Names the label that no node has, and proposes to correct, drop or add labels."""

    kind = RuleKind.SELECTION

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        return _describe(rejected)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return _remedies(rejected)


def _required_terms(pod: Pod) -> tuple[NodeSelectorTerm, ...]:
    """Return the terms of required node affinity; a node has to match one of them."""
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return required.node_selector_terms if required else ()


def _describe(rejected: RejectedNodes) -> Detail:
    pod, node = rejected.pod, rejected.example
    selector = pod.spec.node_selector or {}
    terms = _required_terms(pod)
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
    who = "no node matches" if rejected.are_all else "they do not match"
    if len(rejected.positions) == 1 < len(rejected.nodes):
        who = "it does not match"
    sentence = _impossible(rejected, selector, terms) or f"{who} {_selection(selector, wanted)}"
    selects = _selection(selector, wanted)
    return Detail(
        asked,
        detail=detail,
        sentence=sentence,
        brief=f"do not match {selects}",
        selects=selects,
    )


def _selection(selector: dict[str, str], wanted: str) -> str:
    parts = []
    if selector:
        parts.append("nodeSelector " + ", ".join(f"{k}={v}" for k, v in selector.items()))
    if wanted:
        parts.append(f"node affinity {wanted}")
    return " and ".join(parts) or "its node selection"


def _impossible(
    rejected: RejectedNodes, selector: dict[str, str], terms: Sequence[NodeSelectorTerm]
) -> str:
    """Describe the one condition that no node meets; empty if there is no such condition."""
    nodes = list(rejected.nodes)
    for key, value in selector.items():
        if not any(node.labels.get(key) == value for node in nodes):
            return f"no node has the label {key}={value}{_hint(nodes, key, (value,))}"
    impossible = [found for term in terms if (found := _impossible_term(rejected, nodes, term))]
    if terms and len(impossible) == len(terms):
        return "; ".join(impossible)
    if selector and len(selector) > 1 and not terms:
        return f"no node has all of {', '.join(f'{k}={v}' for k, v in selector.items())}"
    return ""


def _impossible_term(
    rejected: RejectedNodes, nodes: Sequence[NodeInfo], term: NodeSelectorTerm
) -> str:
    """Describe the one requirement of a term that no node meets; empty if there is none."""
    for field in term.match_fields:
        if field.key == _NAME_FIELD and field.operator == "In":
            if any(node.name in field.values for node in nodes):
                continue
            owner = next((each for each in rejected.pod.metadata.owner_references), None)
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
            return f"no node has the label {wanted}{_hint(nodes, each.key, each.values)}"
        if each.operator == "Exists":
            return f"no node has a label {each.key}{_hint(nodes, each.key, ())}"
        present = _values(nodes, each.key)
        values = listed(f"{value} ({count})" for value, count in present.most_common())
        there = f"; there is {each.key}={values}" if present else f"; no node has any {each.key}"
        return f"no node meets {shown_requirement(each)}{there}"
    return ""


def _hint(nodes: Sequence[NodeInfo], key: str, values: Sequence[str]) -> str:
    """Suggest the value or key that was probably meant, or list the values that nodes have."""
    present = _values(nodes, key)
    for value in values:
        near = nearest(value, sorted(present))
        if near and not _is_well_known(key):
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


def _is_well_known(key: str) -> bool:
    """Whether Kubernetes defines the label's values: then arm64 is not a misspelling of amd64."""
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


def _remedies(rejected: RejectedNodes) -> Iterator[Remedy]:
    pod = rejected.pod
    selector = pod.spec.node_selector or {}
    enforced = _selector_of_runtime_class(rejected)
    for key in selector:
        if key in enforced:
            continue
        yield from _other_value(rejected, key, selector[key])
        yield Remedy(
            f"drop nodeSelector {key}={selector[key]}", 1.0, without_node_selector(pod, key)
        )
    yield from _relax_affinity(rejected)
    labelled = 0
    for node in rejected.by_name:
        assert node.node is not None
        missing = {k: v for k, v in selector.items() if node.labels.get(k) != v}
        missing |= _labels_for_terms(rejected.pod, node.labels)
        if not 1 <= len(missing) <= 2 or labelled >= _MOST_LABELLED:
            continue
        if any(key in _OF_THE_MACHINE and key in node.labels for key in missing):
            continue
        labelled += 1
        labels = {**node.labels, **missing}
        shown = " ".join(f"{key}={value}" for key, value in missing.items())
        metadata = replace(node.node.metadata, labels=labels)
        yield Remedy(
            f"label {node.name} {shown}",
            # Nodes with this label exist, so it is a node label that this node may lack.
            len(missing) + 0.1 + sum(_has_some_node(rejected, each) for each in missing.items()),
            pod,
            (replace(node.node, metadata=metadata),),
            command=f"kubectl label node {node.name} --overwrite {shown}",
            node=node.name,
        )


def _selector_of_runtime_class(rejected: RejectedNodes) -> Mapping[str, str]:
    """Return the labels that an admission check adds to the selector of every such pod."""
    name = rejected.pod.spec.runtime_class_name
    found = rejected.objects.get(RuntimeClass, name) if name else None
    if found is None or found.scheduling is None:
        return {}
    return found.scheduling.node_selector


def _has_some_node(rejected: RejectedNodes, label: tuple[str, str]) -> bool:
    key, value = label
    return any(node.labels.get(key) == value for node in rejected.nodes)


def _other_value(rejected: RejectedNodes, key: str, value: str) -> Iterator[Remedy]:
    """Propose the label value that was probably intended, if no node has the requested one."""
    values = _values_of(key, rejected)
    if value in values:
        return
    # A label such as node-role.kubernetes.io/worker has any value, often none.
    is_flag = len(values) == 1 and (not value or values == {""})
    if _is_well_known(key) and not is_flag:
        return
    name = key if values else nearest(key, _label_keys(rejected))
    if not name:
        return
    present = sorted(_values_of(name, rejected))
    meant = present[0] if is_flag else nearest(value, present)
    if not meant and not is_flag:
        return
    pod = without_node_selector(rejected.pod, key)
    chosen = {**(pod.spec.node_selector or {}), name: meant}
    yield Remedy(
        f"use nodeSelector {name}={meant} instead of {key}={value}",
        0.9,
        replace(pod, spec=replace(pod.spec, node_selector=chosen)),
    )


def _values_of(key: str, rejected: RejectedNodes) -> set[str]:
    return {node.labels[key] for node in rejected.nodes if key in node.labels}


def _label_keys(rejected: RejectedNodes) -> list[str]:
    return sorted({key for node in rejected.nodes for key in node.labels})


def _relax_affinity(rejected: RejectedNodes) -> Iterator[Remedy]:
    pod = rejected.pod
    terms = _required_terms(pod)
    for place, term in enumerate(terms):
        others = (*terms[:place], *terms[place + 1 :])
        for requirement, relaxed in _relaxed(pod, term):
            if relaxed is None and others:
                continue  # without it the others would still have to match
            left = others if relaxed is None else (*others, relaxed)
            yield Remedy(
                f"drop the required node affinity {shown_requirement(requirement)}",
                1.0,
                with_required_terms(pod, left),
            )


def _relaxed(
    pod: Pod, term: NodeSelectorTerm
) -> Iterator[tuple[NodeSelectorRequirement, NodeSelectorTerm | None]]:
    """Yield each requirement with the term without it; None if the term has no other."""
    parts = ["match_expressions"]
    if not any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references):
        parts.append("match_fields")  # the controller sets them for its pods
    for part in parts:
        requirements = getattr(term, part)
        for number, requirement in enumerate(requirements):
            left = (*requirements[:number], *requirements[number + 1 :])
            relaxed = replace(term, **{part: left})
            is_empty = not relaxed.match_expressions and not relaxed.match_fields
            yield requirement, None if is_empty else relaxed


def _labels_for_terms(pod: Pod, labels: dict[str, str]) -> dict[str, str]:
    """Return labels with which a node matches the only required term, if labels are enough."""
    terms = _required_terms(pod)
    if len(terms) != 1:
        return {}
    missing: dict[str, str] = {}
    for requirement in terms[0].match_expressions:
        value = labels.get(requirement.key)
        if requirement.operator == "In" and value not in requirement.values:
            missing[requirement.key] = requirement.values[0] if requirement.values else ""
        elif requirement.operator == "Exists" and value is None:
            missing[requirement.key] = "true"
    return missing
