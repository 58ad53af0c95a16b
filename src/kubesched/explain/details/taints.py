"""Taints and cordons: which one it is that keeps the pod away, and what it stands for."""

from __future__ import annotations

from collections import Counter
from typing import Final

from kubesched.api import Node, Pod, Taint
from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE, is_tolerated
from kubesched.explain.details.context import Detail, DetailContext, listed, plural

__all__ = ["HEALTH", "describe_taints", "describe_unschedulable", "shown_taint", "untolerated"]

_KEEPS_AWAY = (NO_SCHEDULE, NO_EXECUTE)
_CORDON: Final = "node.kubernetes.io/unschedulable"
_CONTROL_PLANE: Final = "node-role.kubernetes.io/"
# What the node controller says of a node by tainting it.
HEALTH: Final = {
    "node.kubernetes.io/not-ready": "not ready",
    "node.kubernetes.io/unreachable": "unreachable (its kubelet does not answer)",
    "node.kubernetes.io/memory-pressure": "short of memory",
    "node.kubernetes.io/disk-pressure": "short of disk space",
    "node.kubernetes.io/pid-pressure": "short of process ids",
    "node.kubernetes.io/network-unavailable": "without network",
    "node.kubernetes.io/out-of-service": "out of service",
    "node.cloudprovider.kubernetes.io/uninitialized": "not yet set up by the cloud provider",
    "node.cloudprovider.kubernetes.io/shutdown": "shut down",
}


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


def describe_taints(context: DetailContext, _reason: str) -> Detail:
    counts: Counter[Taint] = Counter()
    unwell: dict[str, list[str]] = {}
    for node in sorted(context.rejected, key=lambda each: each.name):
        assert node.node is not None
        taints = untolerated(context.pod, node.node)
        counts.update(taints)
        for key in dict.fromkeys(taint.key for taint in taints if taint.key in HEALTH):
            unwell.setdefault(key, []).append(node.name)
    if not counts:
        return Detail()
    shown = listed(f"{shown_taint(taint)} ({count})" for taint, count in counts.most_common())
    says = [_unwell(names, key) for key, names in unwell.items()]
    others = [taint for taint, _ in counts.most_common() if taint.key not in HEALTH]
    others.sort(key=lambda taint: taint.key.startswith(_CONTROL_PLANE))
    if others:
        says.append(_says_others(context.pod, others, counts, len(context.positions)))
    brief = f"untolerated taint {shown_taint(others[0])}" if others else "not healthy"
    if len(others) + len(unwell) > 1:
        brief = "closed by taints"
    return Detail("", "", f"not tolerated: {shown}", "; ".join(says), brief)


def _unwell(names: list[str], key: str) -> str:
    if len(names) == 1:
        return f"{names[0]} is {HEALTH[key]} (taint {key})"
    state = HEALTH[key].replace("its kubelet does", "their kubelets do")
    return f"{listed(names)} are {state} (taint {key})"


def _says_others(pod: Pod, taints: list[Taint], counts: Counter[Taint], total: int) -> str:
    numbered = [
        shown_taint(taint)
        if counts[taint] == total
        else f"{shown_taint(taint)} on {plural(counts[taint], 'node')}"
        for taint in taints
    ]
    word = "taint" if len(taints) == 1 else "taints"
    return f"untolerated {word} {listed(numbered)}{_near_toleration(pod, taints)}"


def _near_toleration(pod: Pod, taints: list[Taint]) -> str:
    """A toleration that was probably meant for one of the taints."""
    for taint in taints:
        for each in pod.spec.tolerations:
            if each.key == taint.key:
                value = f"={each.value}" if each.value else ""
                effect = f":{each.effect}" if each.effect else ""
                return f" (the pod tolerates {each.key}{value}{effect}, which does not match)"
    return ""


def describe_unschedulable(context: DetailContext, _reason: str) -> Detail:
    names = sorted(node.name for node in context.rejected)
    shown = listed(names)
    verb = "is" if len(names) == 1 else "are"
    return Detail(
        "", "", f"cordoned: {shown}", f"{shown} {verb} cordoned (unschedulable)", "cordoned"
    )
