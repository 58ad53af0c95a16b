"""Filters in a dry run over many nodes: which of them can tell from totals of pods alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import (
    CycleState,
    NodeView,
    Plugin,
    PodInfo,
    PodsMatter,
    Rejections,
    Status,
    overrides,
)
from kubesched.runtime.asking import ask_filter

__all__ = ["DryRunFilters"]


class DryRunFilters:
    """The Filter plugins of a profile, as a dry run needs them."""

    def __init__(self, filter_plugins: Sequence[Plugin], hook_plugins: Iterable[Plugin]) -> None:
        """`hook_plugins` follow pods that come and go in a dry run, by AddPod and RemovePod."""
        self._plugins = tuple(filter_plugins)
        # The one-node form would have to be asked, and it is given real pods only.
        self._one_by_one = frozenset(
            plugin.name for plugin in filter_plugins if not overrides(plugin, "filter_nodes")
        )
        self._detailed = {plugin.name: plugin for plugin in hook_plugins} | {
            plugin.name: plugin
            for plugin in filter_plugins
            if plugin.pods_matter is PodsMatter.IN_DETAIL or plugin.name in self._one_by_one
        }

    def totals_suffice(self, state: CycleState) -> bool:
        """Whether no filter that runs for this pod looks at single pods."""
        return self._detailed.keys() <= state.skip_filter

    def indifference(self, state: CycleState, pod: Pod) -> Callable[[PodInfo], bool] | None:
        """Tells whether a pod makes no difference but by its totals; None: nobody can tell."""
        involved = [
            plugin for name, plugin in self._detailed.items() if name not in state.skip_filter
        ]
        if any(
            plugin.name in self._one_by_one or not overrides(plugin, "ignores")
            for plugin in involved
        ):
            return None
        return lambda other: all(plugin.ignores(state, pod, other) for plugin in involved)

    def ask(
        self, state: CycleState, pod: Pod, nodes: NodeView, *, in_full: bool, again: bool
    ) -> Rejections:
        """The verdict of the first filter that rejects a node, for every node.

        Filters run up to the first that looks at single pods, or `in_full`. With `again` all
        those run that see totals: the others have let these very nodes pass.
        """
        plugins: Iterable[Plugin] = (
            plugin for plugin in self._plugins if plugin.name not in state.skip_filter
        )
        if not in_full and not again:
            plugins = takewhile(lambda plugin: plugin.name not in self._detailed, plugins)
        codes: NDArray[np.uint32] | None = None
        statuses: list[Status] = []
        for plugin in plugins:
            if again and plugin.pods_matter is not PodsMatter.AS_TOTALS:
                continue
            if codes is None:
                found = ask_filter(plugin, state, pod, nodes)
            elif codes.all():
                break
            else:
                found = ask_filter(plugin, state, pod, nodes.subset(codes == 0))
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
