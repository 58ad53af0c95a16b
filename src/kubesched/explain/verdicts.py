"""The verdicts of all filter plugins on all nodes.

For a scheduling decision a node is skipped after the first rejection. An explanation needs all
reasons, so every filter runs on all nodes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.errors import PluginError
from kubesched.explain.plugin_explanations import PluginExplanations
from kubesched.framework import Code, CycleState, NodeView, OnlyNodes, Plugin, PodInfo, Status
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_calls import PRE_FILTER, call, call_filter

__all__ = ["AllVerdicts", "PluginVerdicts", "find_all_verdicts", "one_cause_each"]


class PluginVerdicts(NamedTuple):
    """One plugin's verdicts: per node 0, or k for `statuses[k - 1]`."""

    plugin: str
    codes: NDArray[np.intp]
    statuses: tuple[Status, ...]
    is_about_pod: bool = False  # PreFilter rejected the pod as a whole

    @property
    def rejected(self) -> NDArray[np.bool_]:
        hit: NDArray[np.bool_] = self.codes != 0
        return hit


class AllVerdicts:
    """The verdicts of all filters that reject some node, in the order of the filters."""

    def __init__(self, nodes: NodeView, state: CycleState, found: list[PluginVerdicts]) -> None:
        self.nodes = nodes
        self.state = state  # the state that PreFilter wrote
        self.by_plugin = found

    def rejection_counts(self) -> NDArray[np.intp]:
        """Count for each node the plugins that reject it."""
        counts = np.zeros(len(self.nodes), dtype=np.intp)
        for each in self.by_plugin:
            counts += each.rejected
        return counts

    def groups(self) -> list[tuple[NDArray[np.intp], tuple[tuple[str, Status], ...]]]:
        """Return positions of nodes with the same verdicts.

        Those with the fewest rejections first.
        """
        if not self.by_plugin:
            return [(np.arange(len(self.nodes)), ())] if len(self.nodes) else []
        matrix = np.stack([each.codes for each in self.by_plugin], axis=1)
        distinct, inverse = np.unique(matrix, axis=0, return_inverse=True)
        order = np.argsort(inverse.reshape(-1), kind="stable")
        sizes = np.bincount(inverse.reshape(-1), minlength=len(distinct))
        found = []
        start = 0
        for codes, size in zip(distinct, sizes, strict=True):
            verdicts = tuple(
                (each.plugin, each.statuses[code - 1])
                for each, code in zip(self.by_plugin, codes, strict=True)
                if code
            )
            found.append((order[start : start + size], verdicts))
            start += size
        found.sort(key=lambda group: (len(group[1]), -len(group[0])))
        return found


def find_all_verdicts(framework: Framework, pod_info: PodInfo, nodes: NodeView) -> AllVerdicts:
    """Run every filter on every node."""
    state = CycleState()
    found: list[PluginVerdicts] = []
    rejected_before: list[str] = []
    for plugin in framework.pre_filter_plugins:
        verdicts = _pre_filter(plugin, state, pod_info, nodes)
        if verdicts is not None:
            found.append(verdicts)
            if verdicts.is_about_pod:
                rejected_before.append(plugin.name)
    # Verdicts of PreFilter come first: those on the pod as a whole, and those on excluded nodes.
    before = {each.plugin: each for each in found}
    filtered: list[PluginVerdicts] = []
    for plugin in framework.filter_plugins:
        if plugin.name in state.skip_filter or plugin.name in rejected_before:
            continue
        verdicts = _filter(plugin, state, pod_info, nodes)
        if verdicts is None:
            continue
        narrowed = before.get(plugin.name)
        if narrowed is not None:
            before[plugin.name], verdicts = _divided(verdicts, narrowed)
        if verdicts.codes.any():
            filtered.append(verdicts)
    order = [*rejected_before, *before]
    return AllVerdicts(nodes, state, [*(before[name] for name in dict.fromkeys(order)), *filtered])


def _pre_filter(
    plugin: Plugin, state: CycleState, pod_info: PodInfo, nodes: NodeView
) -> PluginVerdicts | None:
    try:
        answer: Any = call(PRE_FILTER, plugin, plugin.pre_filter, state, pod_info, nodes)
    except PluginError as error:
        return _about_pod(plugin, nodes, Status.failure(error))
    if isinstance(answer, OnlyNodes):
        status = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{plugin.name}]")
        left_out = ~np.isin(nodes.rows, nodes.table.rows_of(answer.names))
        return PluginVerdicts(plugin.name, left_out.astype(np.intp), (status,))
    if answer.is_skip:
        state.skip_filter.add(plugin.name)
        return None
    return None if answer.is_success else _about_pod(plugin, nodes, answer)


def _about_pod(plugin: Plugin, nodes: NodeView, status: Status) -> PluginVerdicts:
    codes = np.ones(len(nodes), dtype=np.intp)
    return PluginVerdicts(plugin.name, codes, (status.blame(plugin.name),), is_about_pod=True)


def _filter(
    plugin: Plugin, state: CycleState, pod_info: PodInfo, nodes: NodeView
) -> PluginVerdicts | None:
    try:
        rejections = call_filter(plugin, state, pod_info.pod, nodes)
    except PluginError as error:
        status = Status(Code.ERROR, (), error)
        return PluginVerdicts(plugin.name, np.ones(len(nodes), dtype=np.intp), (status,))
    if rejections.codes is None or not rejections.codes.any():
        return None
    return PluginVerdicts(plugin.name, rejections.codes.astype(np.intp), rejections.statuses)


def _divided(
    verdicts: PluginVerdicts, narrowed: PluginVerdicts
) -> tuple[PluginVerdicts, PluginVerdicts]:
    """Divide verdicts into nodes that PreFilter excludes and nodes that only Filter rejects.

    A node that both reject is in the first group, with Filter's status.
    """
    shift = len(verdicts.statuses)
    left_out = narrowed.codes != 0
    worded = np.where(verdicts.codes != 0, verdicts.codes, narrowed.codes + shift)
    statuses = (*verdicts.statuses, *narrowed.statuses)
    first = PluginVerdicts(verdicts.plugin, np.where(left_out, worded, 0), statuses)
    rest = verdicts._replace(codes=np.where(left_out, 0, verdicts.codes))
    return first, rest


def one_cause_each(
    pod: Pod, verdicts: AllVerdicts, explanations: PluginExplanations
) -> AllVerdicts:
    """Return the verdicts with each cause only once.

    For example, a cordoned node also has a taint, and several plugins reject a missing claim.
    """
    found = _without_repeated_nodes(pod, verdicts, explanations)
    return AllVerdicts(verdicts.nodes, verdicts.state, _one_of_a_topic(found, explanations))


def _without_repeated_nodes(
    pod: Pod, verdicts: AllVerdicts, explanations: PluginExplanations
) -> list[PluginVerdicts]:
    """Remove verdicts that repeat another plugin's cause for the same node."""
    found = verdicts.by_plugin
    for verdict in verdicts.by_plugin:
        if not explanations.may_repeat(verdict.plugin):
            continue
        codes = verdict.codes.copy()
        for other in verdicts.by_plugin:
            if other is verdict:
                continue
            for place in np.flatnonzero((codes != 0) & other.rejected).tolist():
                node = verdicts.nodes.info(place).node
                causes = other.statuses[other.codes[place] - 1].causes
                if node is not None and any(
                    explanations.repeats(verdict.plugin, pod, node, cause) for cause in causes
                ):
                    codes[place] = 0
        if not np.array_equal(codes, verdict.codes):
            left = verdict._replace(codes=codes)
            found = [
                left if each is verdict else each
                for each in found
                if each is not verdict or codes.any()
            ]
    return found


def _one_of_a_topic(
    found: list[PluginVerdicts], explanations: PluginExplanations
) -> list[PluginVerdicts]:
    """Keep only one plugin per topic among those that reject the pod as a whole."""
    first_of: dict[str, PluginVerdicts] = {}
    for each in found:
        if topic := explanations.topic(each.plugin):
            first_of.setdefault(topic, each)
    return [
        each
        for each in found
        if (first := first_of.get(explanations.topic(each.plugin))) is None
        or first is each
        or not first.is_about_pod
    ]
