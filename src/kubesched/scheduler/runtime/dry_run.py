"""Dry runs: filters on nodes with pods removed, or with nominated pods added.

`ProfileDryRun` is the `DryRun` of the plugin contract. Preemption uses it, and the search for nodes
where a pod must leave room for nominated pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_priority
from kubesched.framework import (
    SUCCESS,
    ClusterVersion,
    CycleState,
    NodeInfo,
    NodeView,
    NominatedTotals,
    Plugin,
    PodInfo,
    PodsOnNode,
    Rejections,
    Status,
    overrides,
)
from kubesched.scheduler.runtime.cached_answers import CachedAnswers
from kubesched.scheduler.runtime.nominated_totals import NominatedPods
from kubesched.scheduler.runtime.plugin_calls import (
    ADD_POD,
    REMOVE_POD,
    call_filter,
    call_for_status,
    fail,
    first_rejection,
)
from kubesched.scheduler.runtime.plugin_set import ProfilePlugins
from kubesched.scheduler.runtime.point_metrics import PointMetrics
from kubesched.scheduler.runtime.services import Services

__all__ = ["ProfileDryRun"]


class ProfileDryRun:
    """Dry runs with the plugins of one profile."""

    def __init__(
        self,
        plugins: ProfilePlugins,
        services: Services,
        metrics: PointMetrics,
        version: Callable[[], ClusterVersion],
        uncached_filters: Iterable[Plugin],
    ) -> None:
        self._services = services
        self._version = version
        self._metrics = metrics
        self._profile_name = plugins.profile_name
        self._filters = plugins.filters
        # The filters that do not skip the pod of the last call, and the names of the others.
        self._last_filters: Sequence[Plugin] = self._filters
        self._last_skipped: frozenset[str] = frozenset()
        self._hooks = tuple(
            plugin
            for plugin in plugins.pre_filters
            if overrides(plugin, "add_pod") or overrides(plugin, "remove_pod")
        )
        self._uncached = frozenset(plugin.name for plugin in uncached_filters)
        self._nominated = NominatedPods(services.nominator, version)
        # Filters without a many-node form read the pods of a NodeInfo, not totals.
        self._scalar = frozenset(
            plugin.name for plugin in self._filters if not overrides(plugin, "filter_nodes")
        )
        self._detailed = {plugin.name: plugin for plugin in self._hooks} | {
            plugin.name: plugin
            for plugin in self._filters
            if plugin.reads.pods_on_node > PodsOnNode.TOTALS or plugin.name in self._scalar
        }

    @property
    def version(self) -> ClusterVersion:
        return self._version()

    def fits_now(self, pod_info: PodInfo, since: ClusterVersion) -> bool:
        return self._services.fits_now(self._profile_name, pod_info, since)

    def fits_without(self, pod_info: PodInfo, node_name: str, gone: Collection[PodInfo]) -> bool:
        return self._services.fits_without(self._profile_name, pod_info, node_name, gone)

    def filter_node(self, state: CycleState, pod_info: PodInfo, node: NodeInfo) -> Status:
        """Return the verdict on one node, with and without the pods nominated to it.

        The pod must fit with them, because they may come, and without them, because they may not.
        """
        status = self.filter_beside_nominated(state, pod_info, node)
        if not status.is_success:
            return status
        return self._filter_as_is(state, pod_info.pod, node)

    def fits_on(self, state: CycleState, pod_info: PodInfo, node: NodeInfo) -> bool:
        """Whether `filter_node` would pass. Cheaper, because no rejection is explained."""
        return (
            self._filter_as_is(state, pod_info.pod, node).is_success
            and self.filter_beside_nominated(state, pod_info, node).is_success
        )

    def filter_beside_nominated(
        self, state: CycleState, pod_info: PodInfo, node: NodeInfo
    ) -> Status:
        """Return the verdict on one node with the pods nominated to it; success without any."""
        nominated = self._nominated_to(node.name, pod_info.pod)
        if not nominated:
            return SUCCESS
        with_nominated, state_with = node.clone(), state.clone()
        for other in nominated:
            with_nominated.add_pod(other)
            self.add_pod(state_with, pod_info.pod, other, with_nominated)
        return self._filter_as_is(state_with, pod_info.pod, with_nominated)

    def _filter_as_is(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        skipped = state.skip_filter
        if skipped != self._last_skipped:  # most pods skip the same filters
            self._last_skipped = frozenset(skipped)
            self._last_filters = [each for each in self._filters if each.name not in skipped]
        plugins = self._last_filters
        rejection = first_rejection(plugins, state, pod, node)
        self._metrics.count_filtered(plugins, rejection)
        return rejection or SUCCESS

    def _nominated_to(self, node_name: str, pod: Pod) -> list[PodInfo]:
        """Return the other pods nominated to the node, of at least the pod's priority."""
        priority = pod_priority(pod)
        return [
            other
            for other in self._services.nominator().nominated_pods(node_name)
            if pod_priority(other.pod) >= priority and other.uid != pod.metadata.uid
        ]

    def nominated_totals(self, pod: Pod) -> NominatedTotals:
        return self._nominated.totals(pod, self._services.snapshot.nodes.table)

    def sees_totals_only(
        self, state: CycleState, pod: Pod, rows: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        """Return on which nodes filters read only the totals of the nominated pods: bool[node]."""
        if self.reads_totals_only(state):
            return np.ones(len(rows), dtype=bool)
        is_ignored = self.ignored_pods(state, pod)
        if is_ignored is None:
            return np.zeros(len(rows), dtype=bool)
        table = self._services.snapshot.nodes.table
        nominated = self._nominated.by_node(table)
        seen = [all(map(is_ignored, nominated.get(name, ()))) for name in table.names_of(rows)]
        return np.array(seen, dtype=bool)

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        for plugin in self._hooks:
            if plugin.name not in state.skip_filter:
                status = call_for_status(ADD_POD, plugin, plugin.add_pod, state, pod, added, node)
                if not status.is_success:
                    fail(ADD_POD, plugin, status)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        for plugin in self._hooks:
            if plugin.name not in state.skip_filter:
                status = call_for_status(
                    REMOVE_POD, plugin, plugin.remove_pod, state, pod, removed, node
                )
                if not status.is_success:
                    fail(REMOVE_POD, plugin, status)
        return SUCCESS

    def reads_totals_only(self, state: CycleState) -> bool:
        return self._detailed.keys() <= state.skip_filter

    def ignored_pods(self, state: CycleState, pod: Pod) -> Callable[[PodInfo], bool] | None:
        involved = [
            plugin for name, plugin in self._detailed.items() if name not in state.skip_filter
        ]
        if any(
            plugin.name in self._scalar or not overrides(plugin, "ignores") for plugin in involved
        ):
            return None
        if len(involved) == 1:  # the usual case: volumes, ports or spread
            return partial(involved[0].ignores, state, pod)
        # Any: a plugin may return anything that is true or false.
        ignores: list[Any] = [plugin.ignores for plugin in involved]
        return lambda other: all(method(state, pod, other) for method in ignores)

    def cache_key(self, state: CycleState) -> Hashable | None:
        entry = state.cached_answers
        if not isinstance(entry, CachedAnswers) or not self._uncached <= state.skip_filter:
            return None
        return entry, entry.plugin_versions, entry.filter_objects, frozenset(state.skip_filter)

    def filter_nodes(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        *,
        in_full: bool = False,
        again: bool = False,
    ) -> Rejections:
        """Return, for every node, the verdict of the first filter that rejects it.

        Runs the filters before the first one that reads single pods; all of them if `in_full`;
        only those that read totals if `again`, because the others have accepted these nodes.
        """
        plugins: Iterable[Plugin] = (
            plugin for plugin in self._filters if plugin.name not in state.skip_filter
        )
        if again:
            plugins = (
                plugin for plugin in plugins if plugin.reads.pods_on_node is PodsOnNode.TOTALS
            )
        elif not in_full:
            plugins = takewhile(lambda plugin: plugin.name not in self._detailed, plugins)
        return _first_rejections(list(plugins), state, pod, nodes)


def _first_rejections(
    plugins: Sequence[Plugin], state: CycleState, pod: Pod, nodes: NodeView
) -> Rejections:
    codes: NDArray[np.uint32] | None = None
    statuses: list[Status] = []
    for plugin in plugins:
        if codes is None:
            found = call_filter(plugin, state, pod, nodes)
        elif codes.all():
            break
        else:
            found = call_filter(plugin, state, pod, nodes.subset(codes == 0))
        if found.codes is None or not found.codes.any():
            continue
        rejected = np.flatnonzero(found.codes)
        numbers = found.codes[rejected] + np.uint32(len(statuses))
        statuses += (status.blame(plugin.name) for status in found.statuses)
        if codes is None:
            codes = np.zeros(len(nodes), dtype=np.uint32)
            codes[rejected] = numbers
        else:
            codes[np.flatnonzero(codes == 0)[rejected]] = numbers
    return Rejections.none() if codes is None else Rejections(codes, tuple(statuses))
