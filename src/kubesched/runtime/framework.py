"""One profile at work: runs the plugins of each extension point (docs/reference/04 §8).

Methods that look for a node return values for an expected "no" and raise PluginError when a
plugin failed or broke its contract: the attempt then ends in an error for that pod alone.
`BindingPoints` holds what runs after a node was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.config.types import BY_NAME, KubeSchedulerProfile
from kubesched.framework import (
    SUCCESS,
    ClusterVersion,
    Code,
    CycleState,
    Diagnosis,
    ExtensionPoint,
    NodeView,
    OnlyNodes,
    Plugin,
    PodInfo,
    PostFilterResult,
    QueuedPodInfo,
    Status,
)
from kubesched.runtime.asking import (
    PRE_FILTER,
    PRE_SCORE,
    ask,
    ask_filter,
    ask_score,
    ask_to_normalize,
    fail,
    first_rejection,
)
from kubesched.runtime.binding_points import BindingPoints
from kubesched.runtime.dry_run import ProfileDryRun
from kubesched.runtime.evaluation import Evaluation
from kubesched.runtime.evaluations import Evaluations
from kubesched.runtime.outcomes import PreFilterOutcome, QuickChoice, Scores
from kubesched.runtime.plugin_set import ProfilePlugins, Registry
from kubesched.runtime.point_metrics import PointMetrics
from kubesched.runtime.post_filtering import run_post_filter
from kubesched.runtime.profile_handle import ProfileHandle
from kubesched.runtime.services import Services
from kubesched.runtime.ties import FirstByName, Ties
from kubesched.util.errors import PluginError
from kubesched.util.go_format import format_slice

__all__ = ["Framework"]

_FEWEST_TO_SCORE = 2  # a single node is taken without being scored
_TRIES = 32  # so many nodes are asked about one by one before all are asked about at once


class Framework(ProfileHandle):
    """The plugins of one profile. It is also the Handle that those plugins hold."""

    def __init__(
        self,
        profile: KubeSchedulerProfile,
        registry: Registry,
        services: Services,
        *,
        keeps_evaluations: bool = True,
    ) -> None:
        """Without `keeps_evaluations` every plugin is asked about every node, every time."""
        super().__init__(profile.scheduler_name, services)
        self.keeps_evaluations = keeps_evaluations
        self.percentage_of_nodes_to_score = profile.percentage_of_nodes_to_score
        # None: by chance.
        self.own_ties: Ties | None = FirstByName() if profile.tie_break == BY_NAME else None
        plugins = self.plugins = ProfilePlugins(profile, registry, self)
        points = self.points = PointMetrics(
            services.metrics, profile.scheduler_name, plugins, services.clock.monotonic_ns
        )
        at = plugins.at
        self.queue_sort_plugin = at(ExtensionPoint.QUEUE_SORT)[0]
        self.pre_enqueue_plugins = at(ExtensionPoint.PRE_ENQUEUE)
        self.pre_filter_plugins = at(ExtensionPoint.PRE_FILTER)
        self.filter_plugins = at(ExtensionPoint.FILTER)
        self.post_filter_plugins = at(ExtensionPoint.POST_FILTER)
        self.pre_score_plugins = at(ExtensionPoint.PRE_SCORE)
        self.score_plugins = at(ExtensionPoint.SCORE)
        self._other_score_plugins = tuple(
            plugin for plugin in self.score_plugins if not plugin.reads.is_cacheable
        )
        self._evaluations = Evaluations(
            self.filter_plugins,
            self.score_plugins,
            plugins.score_weights,
            points,
            services.object_versions,
        )
        self._other_filter_plugins = self.filter_plugins[len(self._evaluations.filters) :]
        self._other_filters = frozenset(plugin.name for plugin in self._other_filter_plugins)
        self._not_summed = (
            *(plugin for plugin, _ in self._evaluations.normalizing),
            *self._other_score_plugins,
        )
        self.binding = BindingPoints(plugins, services, points)
        self._dry_run = ProfileDryRun(plugins, services, points, self._other_filter_plugins)

    @property
    def dry_run(self) -> ProfileDryRun:
        return self._dry_run

    # -- in the queue ------------------------------------------------------------------

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return self.queue_sort_plugin.sort_key(queued)

    # -- finding nodes that fit --------------------------------------------------------

    def run_pre_filter(self, state: CycleState, pod_info: PodInfo) -> PreFilterOutcome:
        nodes = self.snapshot.nodes
        rejection: Status | None = None
        only_nodes: frozenset[str] | None = None
        narrowing: set[str] = set()
        evaluations = self.points.pre_filters
        for plugin in self.pre_filter_plugins:
            answer = ask(PRE_FILTER, plugin, plugin.pre_filter, state, pod_info, nodes)
            if isinstance(answer, OnlyNodes):
                evaluations[plugin.name].value += 1
                narrowing.add(plugin.name)
                only_nodes = answer.names if only_nodes is None else only_nodes & answer.names
                if not only_nodes:
                    return PreFilterOutcome(_none_left(narrowing), only_nodes, frozenset(narrowing))
                continue
            if answer.is_skip:
                state.skip_filter.add(plugin.name)
                continue
            evaluations[plugin.name].value += 1
            if answer.is_success:
                continue
            if answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFilterOutcome(answer.blame(plugin.name), None, frozenset(narrowing))
            elif answer.code is Code.UNSCHEDULABLE:
                # The others still run: preemption needs what they note.
                rejection = answer.blame(plugin.name)
            else:
                fail(PRE_FILTER, plugin, answer)
        return PreFilterOutcome(rejection or SUCCESS, only_nodes, frozenset(narrowing))

    def run_filter(
        self, state: CycleState, pod: Pod, nodes: NodeView, diagnosis: Diagnosis
    ) -> NodeView:
        """Nodes that pass every filter; the others are noted in the diagnosis.

        Each plugin looks only at the nodes that all plugins before it let pass.
        """
        plugins = self.filter_plugins
        if nodes.is_whole and (known := self._known(state, pod, nodes)) is not None:
            nodes = self._evaluations.filter(known, state, pod, nodes, diagnosis)
            plugins = self._other_filter_plugins
        return self._filter_by(plugins, state, pod, nodes, diagnosis)

    def _filter_by(
        self,
        plugins: Sequence[Plugin],
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        diagnosis: Diagnosis | None,
    ) -> NodeView:
        for plugin in plugins:
            if not len(nodes):
                break
            if plugin.name in state.skip_filter:
                continue
            self.points.filters[plugin.name].value += len(nodes)
            rejections = ask_filter(plugin, state, pod, nodes)
            if rejections.codes is not None and rejections.codes.any():
                if diagnosis is not None:
                    diagnosis.add_rejections(plugin.name, nodes.rows, rejections)
                nodes = nodes.subset(rejections.codes == 0)
        return nodes

    def _known(self, state: CycleState, pod: Pod, nodes: NodeView) -> Evaluation | None:
        """What is kept from pods of the same shape; noted for Score of the same attempt."""
        if not self.keeps_evaluations:
            return None
        known = state.evaluation
        if not isinstance(known, Evaluation):
            known = state.evaluation = self._evaluations.find(pod, nodes)
        return known

    def rows_judged_anew(self, state: CycleState, since: ClusterVersion) -> NDArray[np.intp] | None:
        """Rows on which filters may have changed their mind since; None: on any of them."""
        table = self.snapshot.nodes.table
        if not self._other_filters <= state.skip_filter:
            return None
        if self._services.object_versions.total != since.objects:
            return None
        rows = table.changes.since(since.rows)
        nodes = self.nominator.changes_since(since.nominations)
        if rows is None or nodes is None:
            return None
        # Mostly few: sorting a set then beats starting up NumPy.
        alive = rows[table.is_live[rows]].tolist()
        return np.array(sorted({*alive, *table.rows_of(nodes).tolist()}), dtype=np.intp)

    def run_post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Ask the plugins in turn to make room; the first that succeeds ends it."""
        return run_post_filter(self.post_filter_plugins, state, pod_info, diagnosis)

    # -- choosing among them -----------------------------------------------------------

    def run_pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> None:
        for plugin in self.pre_score_plugins:
            status = ask(PRE_SCORE, plugin, plugin.pre_score, state, pod_info, nodes)
            if status.is_skip:
                state.skip_score.add(plugin.name)
                continue
            self.points.pre_scores[plugin.name].value += 1
            if not status.is_success:
                fail(PRE_SCORE, plugin, status)

    def run_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Scores:
        """Score, normalise and weigh. A score out of range is an error of its plugin."""
        known = state.evaluation
        if isinstance(known, Evaluation) and self._has_kept_scores(known, state, pod, nodes):
            total = self._total(known, state, pod, nodes)
        else:
            total = np.zeros(len(nodes), dtype=np.int64)
            for plugin in self.score_plugins:
                if plugin.name not in state.skip_score:
                    total += self._weighted_score(plugin, state, pod, nodes)
        return Scores(total, lambda: self._score_by_plugin(state, pod, nodes))

    def _has_kept_scores(
        self, known: Evaluation, state: CycleState, pod: Pod, nodes: NodeView
    ) -> bool:
        """Bring kept scores up to date, unless a plugin fails on one of all the nodes.

        That may be one that other filters rejected, and nobody was to ask about it.
        """
        try:
            self._evaluations.refresh_scores(known, state, pod, nodes.whole, None)
        except PluginError:
            return False
        return True

    def _total(
        self, known: Evaluation, state: CycleState, pod: Pod, nodes: NodeView
    ) -> NDArray[np.int64]:
        """The weighted sum of all scores, from kept ones that are up to date."""
        total = self._evaluations.total(known, state, pod, nodes)
        for plugin in self._other_score_plugins:
            if plugin.name not in state.skip_score:
                total += self._weighted_score(plugin, state, pod, nodes)
        return total

    def choose_at_once(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView, ties: Ties
    ) -> QuickChoice | None:
        """The best of all nodes from what was kept, asking only about nodes that changed.

        None when that is not possible for this pod now: too much has changed, or no node fits.
        """
        pod, points = pod_info.pod, self.points
        known = self._known(state, pod, nodes)
        if known is None:
            return None
        filter_ns = points.now_ns()
        missing = self._evaluations.refresh_verdicts(known, state, pod, nodes)
        others = [
            plugin for plugin in self._other_filter_plugins if plugin.name not in state.skip_filter
        ]
        if known.index is None or missing is None:
            feasible = self._filter_by(others, state, pod, known.passing(nodes), None)
            fitting = len(feasible)
        else:
            feasible = nodes.deferred(
                lambda: self._filter_by(others, state, pod, known.passing(nodes), None).selection
            )
            fitting = len(known.index) + len(missing)
        if fitting < _FEWEST_TO_SCORE:
            return None
        pre_score_ns = points.observe("Filter", Code.SUCCESS, filter_ns)
        row: int | None = None
        try:
            self.run_pre_score(state, pod_info, feasible)
            score_ns = points.observe("PreScore", Code.SUCCESS, pre_score_ns)
            self._evaluations.refresh_scores(known, state, pod, nodes, missing)
            row = self._best_row(known, state, pod, feasible, others, ties)
        except PluginError:
            # Perhaps about nodes, or a lack of them, that a full search does not ask about.
            if not others:
                raise
        if row is None:
            state.skip_score.clear()
            return None
        points.observe("Score", Code.SUCCESS, score_ns)
        return QuickChoice(row, missing is not None, feasible)

    def _best_row(
        self,
        known: Evaluation,
        state: CycleState,
        pod: Pod,
        feasible: NodeView,
        other_filters: Sequence[Plugin],
        ties: Ties,
    ) -> int | None:
        """The best of the feasible nodes by kept scores that are up to date; None: there is none.

        Looks at all of them only if something else than kept scores tells them apart.
        """
        whole = self.snapshot.nodes
        are_summed = self._are_summed(state, pod, whole)
        if are_summed and known.index is not None:
            if not other_filters:
                return ties.best_in(known.index, whole.table)
            accepts = self._acceptance(other_filters, state, pod, whole)
            row = ties.best_accepted(known.index, whole.table, accepts, _TRIES)
            if row is not None:
                return row
        if not len(feasible):
            return None
        if are_summed:
            total: NDArray[np.signedinteger] = feasible.at(known.static_total)
        else:
            total = self._total(known, state, pod, feasible)
        return int(feasible.rows[ties.best_of(total, feasible)])

    def _are_summed(self, state: CycleState, pod: Pod, nodes: NodeView) -> bool:
        """Whether no other score than the summed ones tells nodes apart."""
        return all(
            plugin.name in state.skip_score or plugin.uniform_score(state, pod, nodes) is not None
            for plugin in self._not_summed
        )

    def _acceptance(
        self, plugins: Sequence[Plugin], state: CycleState, pod: Pod, nodes: NodeView
    ) -> Callable[[int], bool]:
        """Tells whether filters let the node in a row pass."""

        def accepts(row: int) -> bool:
            rejection = first_rejection(plugins, state, pod, nodes.info_at(row))
            self.points.count_filtered(plugins, rejection)
            return rejection is None

        return accepts

    def _score_by_plugin(
        self, state: CycleState, pod: Pod, nodes: NodeView
    ) -> dict[str, NDArray[np.int64]]:
        return {
            plugin.name: self._weighted_score(plugin, state, pod, nodes)
            for plugin in self.score_plugins
            if plugin.name not in state.skip_score
        }

    def _weighted_score(
        self, plugin: Plugin, state: CycleState, pod: Pod, nodes: NodeView
    ) -> NDArray[np.int64]:
        self.points.scores[plugin.name].value += len(nodes)
        scores = ask_score(plugin, state, pod, nodes)
        normalized = ask_to_normalize(plugin, state, pod, nodes, scores)
        return normalized * self.plugins.score_weights[plugin.name]


def _none_left(narrowing: set[str]) -> Status:
    if len(narrowing) == 1:
        return Status.unresolvable(f"node(s) didn't satisfy plugin {next(iter(narrowing))}")
    names = format_slice(sorted(narrowing))
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) {names} simultaneously")
