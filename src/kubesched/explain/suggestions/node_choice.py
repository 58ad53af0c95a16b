"""Taints, cordons, selectors, ports: tolerate, remove, relabel, relax."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kubesched.api import Node, NodeSelectorTerm, Pod, Taint, Toleration
from kubesched.explain.details.context import nearest
from kubesched.explain.details.ports import holders_of
from kubesched.explain.details.selection import is_defined, required_terms, shown_requirement
from kubesched.explain.details.taints import HEALTH, shown_taint, untolerated
from kubesched.explain.model import Removal
from kubesched.explain.suggestions.candidate import CLUSTER, POD, Candidate, Question
from kubesched.explain.suggestions.pod_edits import (
    with_required_terms,
    with_toleration,
    without_host_port,
    without_node_selector,
)

__all__ = ["free_ports", "relax_selection", "tolerate_taints", "uncordon"]

# Taints that say something is wrong with the node: to tolerate them helps nobody.
_OF_CONDITIONS = "node.kubernetes.io/"
_CORDON = "node.kubernetes.io/unschedulable"
_CONTROL_PLANE = "node-role.kubernetes.io/"
_MOST = 6
_MOST_LABELLED = 2


def tolerate_taints(question: Question) -> Iterator[Candidate]:
    seen: set[tuple[Taint, ...]] = set()
    for node in question.infos:
        assert node.node is not None
        taints = tuple(untolerated(question.pod, node.node))
        if not 1 <= len(taints) <= 2 or taints in seen or len(seen) >= _MOST:
            continue
        seen.add(taints)
        yield _without_taints(question, node.node, taints)
        if not any(taint.key.startswith(_OF_CONDITIONS) for taint in taints):
            yield _tolerating(question, taints)


def _tolerating(question: Question, taints: tuple[Taint, ...]) -> Candidate:
    pod = question.pod
    for taint in taints:
        operator = "Equal" if taint.value else "Exists"
        pod = with_toleration(
            pod,
            Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect),
        )
    parts = tuple(f"tolerate {shown_taint(taint)}" for taint in taints)
    # Nodes of the control plane are tainted for a reason, which others seldom are.
    size = len(taints) + 2 * sum(taint.key.startswith(_CONTROL_PLANE) for taint in taints)
    return Candidate(
        ", and ".join(parts), POD, float(size), pod, parts=parts if len(parts) > 1 else ()
    )


def _without_taints(question: Question, node: Node, taints: tuple[Taint, ...]) -> Candidate:
    name = node.metadata.name
    left = tuple(taint for taint in node.spec.taints if taint not in taints)
    spec = replace(node.spec, taints=left)
    if all(taint.key == _CORDON for taint in taints):
        return _uncordoned(question, node)
    # A node that is not well has a taint for each effect: repairing it is one thing to do.
    parts = tuple(
        dict.fromkeys(
            f"repair {name}, which is {HEALTH.get(taint.key, 'unhealthy')}: its taint {taint.key} "
            "goes then"
            if taint.key.startswith(_OF_CONDITIONS)
            else f"remove taint {shown_taint(taint)} from {name}"
            for taint in taints
        )
    )
    shown = " ".join(f"{taint.key}:{taint.effect}-" for taint in taints)
    is_health = any(taint.key.startswith(_OF_CONDITIONS) for taint in taints)
    return Candidate(
        ", and ".join(parts),
        CLUSTER,
        len(parts) + 0.1,
        question.pod,
        (replace(node, spec=spec),),
        command=f"kubectl {'describe node' if is_health else 'taint nodes'} {name}"
        + ("" if is_health else f" {shown}"),
        parts=parts if len(parts) > 1 else (),
        node=name,
    )


def uncordon(question: Question) -> Iterator[Candidate]:
    for node in question.infos[:_MOST]:
        assert node.node is not None
        yield _uncordoned(question, node.node)


def _uncordoned(question: Question, node: Node) -> Candidate:
    taints = tuple(taint for taint in node.spec.taints if taint.key != _CORDON)
    return Candidate(
        f"uncordon {node.metadata.name}",
        CLUSTER,
        1.0,
        question.pod,
        (replace(node, spec=replace(node.spec, unschedulable=False, taints=taints)),),
        command=f"kubectl uncordon {node.metadata.name}",
        node=node.metadata.name,
    )


def relax_selection(question: Question) -> Iterator[Candidate]:
    pod = question.pod
    selector = pod.spec.node_selector or {}
    for key in selector:
        yield from _other_value(question, key, selector[key])
        yield Candidate(
            f"drop nodeSelector {key}={selector[key]}", POD, 1.0, without_node_selector(pod, key)
        )
    yield from _relax_affinity(question)
    labelled = 0
    for node in question.infos:
        assert node.node is not None
        missing = {k: v for k, v in selector.items() if node.labels.get(k) != v}
        missing |= _labels_for_terms(question.pod, node.labels)
        if not 1 <= len(missing) <= 2 or labelled >= _MOST_LABELLED:
            continue
        labelled += 1
        labels = {**node.labels, **missing}
        shown = " ".join(f"{key}={value}" for key, value in missing.items())
        metadata = replace(node.node.metadata, labels=labels)
        yield Candidate(
            f"label {node.name} {shown}",
            CLUSTER,
            # A label that others have means something, which this node then claims to be.
            len(missing) + 0.1 + sum(_is_known(question, each) for each in missing.items()),
            pod,
            (replace(node.node, metadata=metadata),),
            command=f"kubectl label node {node.name} --overwrite {shown}",
            node=node.name,
        )


def _is_known(question: Question, label: tuple[str, str]) -> bool:
    key, value = label
    return any(node.labels.get(key) == value for node in question.nodes)


def _other_value(question: Question, key: str, value: str) -> Iterator[Candidate]:
    """The label that was probably meant, if no node has the one that is asked for."""
    values = {node.labels[key] for node in question.nodes if key in node.labels}
    if value in values or is_defined(key):
        return
    keys = {key}
    if not values:
        keys = {near} if (near := nearest(key, _label_keys(question))) else set()
    for name in keys:
        present = sorted({node.labels[name] for node in question.nodes if name in node.labels})
        meant = nearest(value, present)
        if meant:
            pod = without_node_selector(question.pod, key)
            chosen = {**(pod.spec.node_selector or {}), name: meant}
            yield Candidate(
                f"use nodeSelector {name}={meant} instead of {key}={value}",
                POD,
                0.9,
                replace(pod, spec=replace(pod.spec, node_selector=chosen)),
            )


def _label_keys(question: Question) -> list[str]:
    return sorted({key for node in question.nodes for key in node.labels})


def _relax_affinity(question: Question) -> Iterator[Candidate]:
    pod = question.pod
    terms = required_terms(pod)
    for place, term in enumerate(terms):
        for number, requirement in enumerate(term.match_expressions):
            left = (*term.match_expressions[:number], *term.match_expressions[number + 1 :])
            others = (*terms[:place], *terms[place + 1 :])
            relaxed: tuple[NodeSelectorTerm, ...] = (replace(term, match_expressions=left),)
            if not left and not term.match_fields:
                if others:
                    continue  # without it the others would still have to match
                relaxed = ()
            yield Candidate(
                f"drop the required node affinity {shown_requirement(requirement)}",
                POD,
                1.0,
                with_required_terms(pod, (*others, *relaxed)),
            )


def _labels_for_terms(pod: Pod, labels: dict[str, str]) -> dict[str, str]:
    """Labels that make a node match the pod's only required term, if plain labels can."""
    terms = required_terms(pod)
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


def free_ports(question: Question) -> Iterator[Candidate]:
    pod = question.pod
    ports = question.pod_info.host_ports
    for port in dict.fromkeys((each.protocol, each.port) for each in ports):
        yield Candidate(
            f"give up host port {port[0]} {port[1]}", POD, 1.0, without_host_port(pod, *port)
        )
    for node in question.infos[:_MOST]:
        holders = {each.metadata.uid: each for port in ports for each in holders_of(node, port)}
        if len(holders) != 1:
            continue
        (holder,) = holders.values()
        name = f"{holder.metadata.namespace}/{holder.metadata.name}"
        yield Candidate(
            f"free the port on {node.name} by moving {name}",
            CLUSTER,
            2.0,
            pod,
            (Removal(Pod, holder.metadata.name, holder.metadata.namespace),),
            node=node.name,
        )
