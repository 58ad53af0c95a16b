"""The headline of an explanation: the reasons that reject the pod on the relevant nodes.

If a pod selects certain nodes, the reason why it waits is a problem of those nodes, not of all the
others. The headline therefore leaves out nodes in this order, as long as some are left: nodes that
the pod itself excludes, nodes that other pods exclude, closed nodes (`RuleKind`). It names the
reasons that reject the remaining nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.explain.plugin_explanations import PluginExplanations
from kubesched.explain.verdicts import AllVerdicts, PluginVerdicts
from kubesched.framework import Cause, Detail, ObjectReader, PodInfo, RejectedNodes, RuleKind
from kubesched.framework.causes import InsufficientResource
from kubesched.scheduler.plugins.helpers.wording import listed, plural

__all__ = ["Headline", "find_headline"]

# Rules that exclude a smaller share of the nodes are not mentioned.
_WORTH_MENTIONING: Final = 0.2
_REASONS_SHOWN: Final = 3
# The kinds of rules in the order in which the breakdown counts them.
_ORDER: Final = {kind: number for number, kind in enumerate(RuleKind)}


class Headline(NamedTuple):
    """The reasons that reject the pod, and how many nodes each of them excludes."""

    sentence: str
    breakdown: str = ""


def find_headline(
    objects: ObjectReader,
    pod_info: PodInfo,
    verdicts: AllVerdicts,
    explanations: PluginExplanations,
    *,
    is_complete: bool = True,
) -> Headline:
    """Return the headline for verdicts that contain each cause once (`one_cause_each`).

    Incomplete verdicts contain only the first rule that rejects each node. In that case no node is
    left out, because other rules may reject it as well.
    """
    finder = _HeadlineFinder(objects, pod_info, verdicts, explanations)
    about_pod = [each for each in verdicts.by_plugin if each.is_about_pod]
    if not about_pod:
        return finder.about_nodes() if is_complete else finder.of_first_rules()
    sentence = finder.about_pod(about_pod)
    rest = [each for each in verdicts.by_plugin if not each.is_about_pod]
    if is_complete and rest and np.logical_or.reduce([each.rejected for each in rest]).all():
        others = AllVerdicts(verdicts.nodes, verdicts.state, rest)
        then = find_headline(objects, pod_info, others, explanations)
        return Headline(sentence, f"Once that is solved: {then.sentence}")
    return Headline(sentence)


class _Complaint(NamedTuple):
    """One reason of one plugin, and the nodes that have it."""

    plugin: str
    kind: RuleKind
    reason: str
    cause: Cause | None
    mask: NDArray[np.bool_]  # by node

    def count(self, nodes: NDArray[np.bool_]) -> int:
        """How many of these nodes have the reason."""
        return int((self.mask & nodes).sum())


class _Narrowing(NamedTuple):
    """A complaint that excludes nodes before the headline is chosen, and the remaining nodes."""

    complaint: _Complaint
    left: NDArray[np.bool_]


class _HeadlineFinder:
    """Chooses the reasons to show for one pod, and writes the sentence."""

    def __init__(
        self,
        objects: ObjectReader,
        pod_info: PodInfo,
        verdicts: AllVerdicts,
        explanations: PluginExplanations,
    ) -> None:
        self._objects, self._pod_info = objects, pod_info
        self._nodes, self._explanations = verdicts.nodes, explanations
        self._everywhere = np.ones(len(verdicts.nodes), dtype=np.bool_)
        self._complaints = [each for one in verdicts.by_plugin for each in self._of_plugin(one)]

    def about_pod(self, verdicts: Sequence[PluginVerdicts]) -> str:
        """The sentence for plugins that reject the pod as a whole."""
        complaints = [each for one in verdicts for each in self._of_plugin(one)]
        return "; ".join(self._detail(each, self._everywhere).sentence for each in complaints)

    def of_first_rules(self) -> Headline:
        """The headline if only the first rule that rejects each node is known."""
        ordered = _by_weight(self._complaints, self._everywhere)
        return Headline(self._sentence(ordered, self._everywhere))

    def about_nodes(self) -> Headline:
        """The headline from all rules that reject each node."""
        left, narrowings, answer = self._narrowed()
        sentence = "".join(map(self._introduction, narrowings)) + self._sentence(answer, left)
        # A sentence that has counted all nodes needs no breakdown.
        is_counted = left.all() and all(not (each.mask & left).all() for each in answer[:1])
        if is_counted and len(answer) <= _REASONS_SHOWN:
            return Headline(sentence)
        return Headline(sentence, self._breakdown())

    def _of_plugin(self, verdicts: PluginVerdicts) -> list[_Complaint]:
        found: dict[str, _Complaint] = {}
        kind = self._explanations.kind(verdicts.plugin)
        for number, status in enumerate(verdicts.statuses, start=1):
            mask = verdicts.codes == number
            if not mask.any():
                continue
            for reason, cause in status.reasons_with_causes or ((status.code.label, None),):
                if reason in found:
                    found[reason] = found[reason]._replace(mask=found[reason].mask | mask)
                else:
                    found[reason] = _Complaint(verdicts.plugin, kind, reason, cause, mask)
        return list(found.values())

    def _narrowed(
        self,
    ) -> tuple[NDArray[np.bool_], list[_Narrowing], list[_Complaint]]:
        """Return the relevant nodes, what excludes the others, and what rejects the relevant."""
        left = self._everywhere
        narrowings: list[_Narrowing] = []
        for kind in (RuleKind.SELECTION, RuleKind.NEIGHBOURS, RuleKind.CLOSED):
            excluding = [each for each in self._complaints if each.kind is kind]
            kept = left.copy()
            for each in excluding:
                kept &= ~each.mask
            if not kept.any():
                if kind is RuleKind.NEIGHBOURS:
                    continue  # other reasons for these nodes are mentioned together with this one
                return left, narrowings, _by_weight(excluding, left) + self._behind(kind, left)
            if kind is RuleKind.CLOSED and (lacking := self._not_offered(kept, left)):
                offering = left & ~lacking.mask
                closed = _by_weight(excluding, offering)
                return offering, [*narrowings, _Narrowing(lacking, offering)], closed
            share = 1 - int(kept.sum()) / int(left.sum())
            if kind is not RuleKind.CLOSED:
                if share < _WORTH_MENTIONING:
                    continue
                largest = max(excluding, key=lambda each: int(each.mask.sum()))
                narrowings.append(_Narrowing(largest, kept))
            left = kept
        return left, narrowings, _by_weight(self._complaints, left)

    def _not_offered(
        self, open_nodes: NDArray[np.bool_], left: NDArray[np.bool_]
    ) -> _Complaint | None:
        """Return the lack of a resource that closed nodes have, and no open node offers."""
        for each in self._complaints:
            if not isinstance(each.cause, InsufficientResource) or (open_nodes & ~each.mask).any():
                continue
            is_offered = self._nodes.allocatable(each.cause.resource) > 0
            if (left & ~each.mask).any() and not (open_nodes & is_offered).any():
                return each
        return None

    def _behind(self, kind: RuleKind, left: NDArray[np.bool_]) -> list[_Complaint]:
        """Return what would reject all of these nodes even if they were not closed."""
        if kind is not RuleKind.CLOSED:
            return []
        others = [each for each in self._complaints if each.kind is RuleKind.CAPACITY]
        if not others or (left & ~np.logical_or.reduce([each.mask for each in others])).any():
            return []
        return _by_weight(others, left)

    def _detail(self, complaint: _Complaint, where: NDArray[np.bool_]) -> Detail:
        positions = np.flatnonzero(complaint.mask & where)
        rejected = RejectedNodes(self._objects, self._pod_info, self._nodes, positions)
        return self._explanations.detail(
            complaint.plugin, rejected, complaint.reason, complaint.cause
        )

    def _introduction(self, narrowing: _Narrowing) -> str:
        """Return the words for the nodes that the rest of the sentence is about."""
        complaint, left = narrowing
        detail = self._detail(complaint, ~left)
        count = int(left.sum())
        first = self._nodes.names[int(np.flatnonzero(left)[0])]
        if complaint.kind is not RuleKind.SELECTION:
            where = first if count == 1 else f"the other {count} nodes"
            return f"{detail.sentence}; on {where}: "
        what = detail.selects or "it may use"
        if not what.startswith(("can ", "have ", "it ")):
            what = f"match {what}"
        if count > 1:
            return f"{count} nodes {what}: "
        for plural_verb, singular in (("match ", "matches "), ("have ", "has ")):
            if what.startswith(plural_verb):
                what = singular + what.removeprefix(plural_verb)
        return f"{first} is the only node that {what}: "

    def _sentence(self, complaints: Sequence[_Complaint], left: NDArray[np.bool_]) -> str:
        if not complaints:
            return "no node fits"
        total = int(left.sum())
        parts = []
        for each in complaints[:_REASONS_SHOWN]:
            count, sentence = each.count(left), self._detail(each, left).sentence
            parts.append(sentence if count == total else f"{plural(count, 'node')}: {sentence}")
        # If one reason rejects all nodes, the other reasons are additional.
        if complaints[0].count(left) == total:
            first, *rest = parts
            return first if not rest else f"{first}; besides, {'; '.join(rest)}"
        return "; ".join(parts)

    def _breakdown(self) -> str:
        """Count the nodes that each reason excludes, each node once; empty for one reason."""
        left = self._everywhere
        counted = []
        for each in sorted(self._complaints, key=lambda each: _ORDER[each.kind]):
            here = each.mask & left
            if here.any():
                counted.append((self._detail(each, here).brief, int(here.sum())))
                left = left & ~each.mask
        if len(counted) < 2:
            return ""
        parts = listed((f"{count} {brief}" for brief, count in counted), 4)
        return f"Of {plural(len(self._everywhere), 'node')}: {parts}"


def _by_weight(complaints: list[_Complaint], left: NDArray[np.bool_]) -> list[_Complaint]:
    """Sort complaints by how many nodes they alone reject; drop those that reject none."""
    together = np.zeros(len(left), dtype=np.intp)
    for each in complaints:
        together += each.mask & left
    alone = together == 1
    present = [each for each in complaints if (each.mask & left).any()]
    return sorted(
        present,
        key=lambda each: (
            -int((each.mask & left & alone).sum()),
            -int((each.mask & left).sum()),
        ),
    )
