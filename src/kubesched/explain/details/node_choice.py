"""Taints, cordons, selectors and ports: which one it is that keeps the pod away."""

from __future__ import annotations

from collections import Counter

from kubesched.api import Node, NodeSelectorRequirement, Pod, Taint
from kubesched.api.host_ports import HostPort, ports_conflict
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE, is_tolerated
from kubesched.explain.details.context import DetailContext
from kubesched.framework import NodeInfo

__all__ = [
    "describe_ports",
    "describe_selection",
    "describe_taints",
    "describe_unschedulable",
    "holders_of",
    "shown_requirement",
    "shown_taint",
    "untolerated",
]

_SHOWN = 3
_KEEPS_AWAY = (NO_SCHEDULE, NO_EXECUTE)


def shown_taint(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def untolerated(pod: Pod, node: Node) -> list[Taint]:
    """Taints of the node that keep the pod away."""
    return [
        taint
        for taint in node.spec.taints
        if taint.effect in _KEEPS_AWAY and not is_tolerated(taint, pod.spec.tolerations)
    ]


def describe_taints(context: DetailContext, _reason: str) -> tuple[str, str, str]:
    counts: Counter[str] = Counter()
    for node in context.rejected:
        assert node.node is not None
        counts.update(shown_taint(taint) for taint in untolerated(context.pod, node.node))
    shown = ", ".join(f"{taint} ({count})" for taint, count in counts.most_common(_SHOWN))
    more = f" and {len(counts) - _SHOWN} more" if len(counts) > _SHOWN else ""
    return "", "", f"not tolerated: {shown}{more}" if shown else ""


def describe_unschedulable(context: DetailContext, _reason: str) -> tuple[str, str, str]:
    return "", "", f"cordoned: {_some(sorted(node.name for node in context.rejected))}"


def describe_selection(context: DetailContext, _reason: str) -> tuple[str, str, str]:
    pod, node = context.pod, context.example
    selector = pod.spec.node_selector or {}
    missing = [
        f"{key}={value} ({_is(node, key)})"
        for key, value in selector.items()
        if node.labels.get(key) != value
    ]
    if missing:
        return (
            ", ".join(f"{k}={v}" for k, v in selector.items()),
            "",
            (f"on {node.name}: nodeSelector wants {', '.join(missing)}"),
        )
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not required:
        return "", "", ""
    wanted = [
        shown_requirement(each)
        for term in required.node_selector_terms
        for each in (*term.match_expressions, *term.match_fields)
    ]
    keys = dict.fromkeys(
        each.key for term in required.node_selector_terms for each in term.match_expressions
    )
    has = ", ".join(f"{key} {_is(node, key)}" for key in keys)
    joint = " or " if len(required.node_selector_terms) > 1 else " and "
    return joint.join(wanted), "", f"on {node.name}: {has}" if has else ""


def _is(node: NodeInfo, key: str) -> str:
    value = node.labels.get(key)
    return "is not set" if value is None else f"is {value!r}"


def shown_requirement(requirement: NodeSelectorRequirement) -> str:
    values = ", ".join(requirement.values)
    if requirement.operator in ("Exists", "DoesNotExist"):
        return f"{requirement.key} {requirement.operator}"
    return f"{requirement.key} {requirement.operator} [{values}]"


def describe_ports(context: DetailContext, _reason: str) -> tuple[str, str, str]:
    wanted = context.pod_info.host_ports
    node = context.example
    holders = [
        f"{port.protocol} {port.port} by {_some([_name(pod) for pod in holders_of(node, port)])}"
        for port in wanted
        if holders_of(node, port)
    ]
    asked = ", ".join(f"{port.protocol} {port.port}" for port in wanted)
    return asked, "", f"on {node.name} taken: {'; '.join(holders)}" if holders else ""


def holders_of(node: NodeInfo, port: HostPort) -> list[Pod]:
    """Pods on the node that hold a port which clashes with this one."""
    return [each.pod for each in node.pods if ports_conflict((port,), each.host_ports)]


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown
