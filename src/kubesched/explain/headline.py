"""The sentence that matters: what keeps a pod from the nodes that it could have been meant for.

A pod that asks for certain nodes waits because of what is wrong with those, and not because of
all the others. So nodes that the pod itself rules out are set aside first, then those that are
closed to it, as long as some are left; what rejects the rest is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.explain.details import DetailContext, describe_reason
from kubesched.explain.details.context import Detail, listed, plural
from kubesched.explain.objects import Objects
from kubesched.explain.verdicts import AllVerdicts, PluginVerdicts
from kubesched.framework import PodInfo
from kubesched.scheduler.config import plugin_names

__all__ = ["Headline", "find_headline"]

_CHOSEN: Final = (
    plugin_names.NODE_NAME,
    plugin_names.NODE_AFFINITY,
    plugin_names.VOLUME_ZONE,
    plugin_names.VOLUME_BINDING,
    plugin_names.NODE_DECLARED_FEATURES,
)
# Where others of its kind, or pods that it wants or shuns, already are.
_SPREAD: Final = (plugin_names.POD_TOPOLOGY_SPREAD, plugin_names.INTER_POD_AFFINITY)
_CLOSED: Final = (plugin_names.NODE_UNSCHEDULABLE, plugin_names.TAINT_TOLERATION)
# Rules that set aside a smaller part of the nodes are not what the pod is about.
_WORTH_MENTIONING: Final = 0.2
_CAUSES_SHOWN: Final = 3


class Headline(NamedTuple):
    """What is wrong, and how many nodes are out for what."""

    sentence: str
    breakdown: str = ""


class _Cause(NamedTuple):
    """One reason of one plugin, and the nodes that it keeps away."""

    plugin: str
    reason: str
    mask: NDArray[np.bool_]  # by node


def find_headline(
    objects: Objects, pod_info: PodInfo, verdicts: AllVerdicts, *, is_complete: bool = True
) -> Headline:
    """Say it in one sentence; the verdicts have each cause once (`one_cause_each`).

    If they are not complete, but those of the first rule that rejects a node, no node can be set
    aside: who knows what else is wrong with it.
    """
    nodes = verdicts.nodes
    about_pod = [each for each in verdicts.by_plugin if each.is_about_pod]
    everywhere = np.ones(len(nodes), dtype=np.bool_)

    def described(cause: _Cause, where: NDArray[np.bool_]) -> Detail:
        positions = np.flatnonzero(cause.mask & where)
        context = DetailContext(objects, pod_info, nodes, positions)
        return describe_reason(context, cause.plugin, cause.reason)

    if about_pod:
        causes = [cause for each in about_pod for cause in _causes(each)]
        sentence = "; ".join(described(cause, everywhere).says for cause in causes)
        rest = [each for each in verdicts.by_plugin if not each.is_about_pod]
        if is_complete and rest and np.logical_or.reduce([each.rejected for each in rest]).all():
            others = AllVerdicts(nodes, verdicts.state, rest)
            then = find_headline(objects, pod_info, others)
            return Headline(sentence, f"Once that is solved: {then.sentence}")
        return Headline(sentence)
    causes = [cause for each in verdicts.by_plugin for cause in _causes(each)]
    if not is_complete:
        weighed = _by_weight(causes, everywhere)
        counted = [(described(each, everywhere), int(each.mask.sum())) for each in weighed]
        return Headline(_sentence(counted, len(nodes)))
    left, narrowed, answering = _left_to_explain(causes, everywhere)
    sentence = ""
    for cause, kept in narrowed:
        detail = described(cause, ~kept)
        if cause.plugin in _CHOSEN:
            sentence += _which(detail, kept, nodes.names)
        else:
            sentence += f"{detail.says}; on {_the_rest(kept, nodes.names)}: "
    sentence += _sentence(
        [(described(cause, left), int((cause.mask & left).sum())) for cause in answering],
        int(left.sum()),
    )
    # Where the sentence has counted all nodes already, nothing is said twice.
    is_told = left.all() and all(not (cause.mask & left).all() for cause in answering[:1])
    if is_told and len(answering) <= _CAUSES_SHOWN:
        return Headline(sentence)
    return Headline(sentence, _breakdown(causes, described, everywhere))


def _causes(verdicts: PluginVerdicts) -> list[_Cause]:
    masks: dict[str, NDArray[np.bool_]] = {}
    for number, status in enumerate(verdicts.statuses, start=1):
        hit = verdicts.codes == number
        if not hit.any():
            continue
        for reason in status.all_reasons or (status.code.label,):
            masks[reason] = masks[reason] | hit if reason in masks else hit
    return [_Cause(verdicts.plugin, reason, mask) for reason, mask in masks.items()]


def _left_to_explain(
    causes: list[_Cause], everywhere: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], list[tuple[_Cause, NDArray[np.bool_]]], list[_Cause]]:
    """Nodes that matter, what set the others aside and left which, and what rejects these."""
    left = everywhere
    narrowed: list[tuple[_Cause, NDArray[np.bool_]]] = []
    for plugins in (_CHOSEN, _SPREAD, _CLOSED):
        setting_aside = [cause for cause in causes if cause.plugin in plugins]
        kept = left.copy()
        for cause in setting_aside:
            kept &= ~cause.mask
        if not kept.any():
            if plugins is _SPREAD:
                continue  # what else is wrong with these nodes is said as well
            return left, narrowed, _by_weight(setting_aside, left)
        share = 1 - int(kept.sum()) / int(left.sum())
        if plugins is not _CLOSED:
            if share < _WORTH_MENTIONING:
                continue
            narrowed.append((max(setting_aside, key=lambda each: int(each.mask.sum())), kept))
        left = kept
    return left, narrowed, _by_weight(causes, left)


def _by_weight(causes: list[_Cause], left: NDArray[np.bool_]) -> list[_Cause]:
    """Those that reject most nodes by themselves first; without those that reject none."""
    together = np.zeros(len(left), dtype=np.intp)
    for cause in causes:
        together += cause.mask & left
    alone = together == 1
    present = [cause for cause in causes if (cause.mask & left).any()]
    return sorted(
        present,
        key=lambda cause: (
            -int((cause.mask & left & alone).sum()),
            -int((cause.mask & left).sum()),
        ),
    )


def _which(narrowing: Detail, left: NDArray[np.bool_], names: Sequence[str]) -> str:
    """Which nodes the pod could have been meant for."""
    count = int(left.sum())
    what = narrowing.narrows or "it may use"
    if not what.startswith(("can ", "have ", "it ")):
        what = f"match {what}"
    name = names[int(np.flatnonzero(left)[0])]
    if count == 1:
        for plain, singular in (("match ", "matches "), ("have ", "has ")):
            if what.startswith(plain):
                what = singular + what.removeprefix(plain)
        return f"{name} is the only node that {what}: "
    return f"{count} nodes {what}: "


def _the_rest(kept: NDArray[np.bool_], names: Sequence[str]) -> str:
    count = int(kept.sum())
    return names[int(np.flatnonzero(kept)[0])] if count == 1 else f"the other {count} nodes"


def _sentence(found: list[tuple[Detail, int]], total: int) -> str:
    if not found:
        return "no node fits"
    parts = []
    for detail, count in found[:_CAUSES_SHOWN]:
        says = detail.says
        parts.append(says if count == total else f"{plural(count, 'node')}: {says}")
    # If one cause rejects all of them, the others come second, whatever they are.
    if found[0][1] == total:
        first, *rest = parts
        return first if not rest else f"{first}; besides, {'; '.join(rest)}"
    return "; ".join(parts)


def _breakdown(
    causes: list[_Cause],
    described: Callable[[_Cause, NDArray[np.bool_]], Detail],
    everywhere: NDArray[np.bool_],
) -> str:
    """How many nodes are out for what, each counted once."""
    order = [
        *(cause for cause in causes if cause.plugin in _CHOSEN),
        *(cause for cause in causes if cause.plugin in _SPREAD),
        *(cause for cause in causes if cause.plugin in _CLOSED),
        *(cause for cause in causes if cause.plugin not in (*_CHOSEN, *_SPREAD, *_CLOSED)),
    ]
    left = everywhere
    counted = []
    for cause in order:
        here = cause.mask & left
        if here.any():
            counted.append((described(cause, here).brief, int(here.sum())))
            left = left & ~cause.mask
    if len(counted) < 2:
        return ""
    parts = listed((f"{count} {brief}" for brief, count in counted), 4)
    return f"Of {plural(len(everywhere), 'node')}: {parts}"
