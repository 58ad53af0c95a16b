"""Explains rejections by taints: which taint rejects the pod, and its usual meaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kubesched.api import Node, Pod, Taint, Toleration
from kubesched.api.taints import UNSCHEDULABLE_TAINT
from kubesched.framework import Cause
from kubesched.framework.causes import NodeCordoned, UntoleratedTaint
from kubesched.framework.explaining import (
    Detail,
    Explaining,
    RejectedNodes,
    Remedy,
    RuleKind,
)
from kubesched.scheduler.plugins.helpers.pod_edits import (
    with_toleration,
)
from kubesched.scheduler.plugins.helpers.taint_rules import HEALTH, uncordon_remedy, untolerated
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
    nearest,
    plural,
    shown_taint,
)

__all__ = ["TaintTolerationExplaining"]


_CONTROL_PLANE: Final = "node-role.kubernetes.io/"

# Taints that report a problem of the node: a pod that tolerates them would not run well.
_OF_CONDITIONS = "node.kubernetes.io/"

_MOST = 6


class TaintTolerationExplaining(Explaining):
    """Names the taints, and proposes to tolerate or remove them."""

    kind = RuleKind.CLOSED

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        return _describe(rejected)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return _remedies(rejected)

    def repeats(self, pod: Pod, node: Node, other: Cause) -> bool:
        """A cordoned node carries a taint as well."""
        return isinstance(other, NodeCordoned) and all(
            taint.key == UNSCHEDULABLE_TAINT.key for taint in untolerated(pod, node)
        )


def _describe(rejected: RejectedNodes) -> Detail:
    counts: Counter[Taint] = Counter()
    unhealthy: dict[str, list[str]] = {}
    for node in rejected.by_name:
        assert node.node is not None
        taints = untolerated(rejected.pod, node.node)
        counts.update(taints)
        for key in dict.fromkeys(taint.key for taint in taints if taint.key in HEALTH):
            unhealthy.setdefault(key, []).append(node.name)
    if not counts:
        return Detail()
    shown = listed(f"{shown_taint(taint)} ({count})" for taint, count in counts.most_common())
    sentences = [_health_sentence(names, key) for key, names in unhealthy.items()]
    others = [taint for taint, _ in counts.most_common() if taint.key not in HEALTH]
    others.sort(key=lambda taint: taint.key.startswith(_CONTROL_PLANE))
    if others:
        sentences.append(_taint_sentence(rejected.pod, others, counts, len(rejected.positions)))
    brief = f"untolerated taint {shown_taint(others[0])}" if others else "not healthy"
    if len(others) + len(unhealthy) > 1:
        brief = "closed by taints"
    return Detail(
        detail=f"not tolerated: {shown}",
        sentence="; ".join(sentences),
        brief=brief,
        cause=UntoleratedTaint(tuple(shown_taint(taint) for taint, _ in counts.most_common())),
    )


def _health_sentence(names: list[str], key: str) -> str:
    if len(names) == 1:
        return f"{names[0]} is {HEALTH[key]} (taint {key})"
    state = HEALTH[key].replace("its kubelet does", "their kubelets do")
    return f"{listed(names)} are {state} (taint {key})"


def _taint_sentence(pod: Pod, taints: list[Taint], counts: Counter[Taint], total: int) -> str:
    numbered = [
        shown_taint(taint)
        if counts[taint] == total
        else f"{shown_taint(taint)} on {plural(counts[taint], 'node')}"
        for taint in taints
    ]
    word = "taint" if len(taints) == 1 else "taints"
    return f"untolerated {word} {listed(numbered)}{_near_toleration(pod, taints)}"


def _near_toleration(pod: Pod, taints: list[Taint]) -> str:
    """Return a toleration that was probably intended for one of the taints."""
    for taint in taints:
        for each in pod.spec.tolerations:
            if each.key == taint.key:
                value = f"={each.value}" if each.value else ""
                effect = f":{each.effect}" if each.effect else ""
                return f" (the pod tolerates {each.key}{value}{effect}, which does not match)"
    for taint in taints:
        if meant := _misspelt_key(pod, taint):
            return f" (the pod tolerates the key {meant}: is {taint.key} meant?)"
    return ""


def _misspelt_key(pod: Pod, taint: Taint) -> str:
    """Return the key of a toleration that is similar to that of the taint."""
    keys = [each.key for each in pod.spec.tolerations if each.key and each.key not in HEALTH]
    return nearest(taint.key, keys)


def _remedies(rejected: RejectedNodes) -> Iterator[Remedy]:
    seen: set[tuple[Taint, ...]] = set()
    for node in rejected.by_name:
        assert node.node is not None
        taints = tuple(untolerated(rejected.pod, node.node))
        if not 1 <= len(taints) <= 2 or taints in seen or len(seen) >= _MOST:
            continue
        seen.add(taints)
        yield _without_taints(rejected, node.node, taints)
        if not any(taint.key.startswith(_OF_CONDITIONS) for taint in taints):
            yield _tolerating(rejected, taints)


def _tolerating(rejected: RejectedNodes, taints: tuple[Taint, ...]) -> Remedy:
    pod = rejected.pod
    for taint in taints:
        operator = "Equal" if taint.value else "Exists"
        pod = with_toleration(
            pod,
            Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect),
        )
    parts = tuple(f"tolerate {shown_taint(taint)}" for taint in taints)
    # Tolerating the taint of control-plane nodes is seldom a good idea.
    size = float(len(taints) + 2 * sum(taint.key.startswith(_CONTROL_PLANE) for taint in taints))
    if all(_near_toleration(rejected.pod, [taint]) for taint in taints):
        size -= 0.1  # The pod was meant to tolerate it.
    return Remedy(", and ".join(parts), size, pod, parts=parts if len(parts) > 1 else ())


def _without_taints(rejected: RejectedNodes, node: Node, taints: tuple[Taint, ...]) -> Remedy:
    name = node.metadata.name
    left = tuple(taint for taint in node.spec.taints if taint not in taints)
    spec = replace(node.spec, taints=left)
    if all(taint.key == UNSCHEDULABLE_TAINT.key for taint in taints):
        return uncordon_remedy(rejected.pod, node)
    # An unhealthy node has a taint for each effect, and repairing it removes both.
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
    return Remedy(
        ", and ".join(parts),
        len(parts) + 0.1,
        rejected.pod,
        (replace(node, spec=spec),),
        command=f"kubectl {'describe node' if is_health else 'taint nodes'} {name}"
        + ("" if is_health else f" {shown}"),
        parts=parts if len(parts) > 1 else (),
        node=name,
        edits=() if is_health else None,  # the taint is set again until the node is repaired
    )
