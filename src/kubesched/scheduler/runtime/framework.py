"""The framework of one profile: runs its plugins at each extension point (docs/reference/04 §8).

The methods of PreFilter to Score return a rejection as a value. They raise PluginError when a
plugin failed or broke its contract, which ends the attempt in an error for that pod alone.
`BindingPoints` has the extension points after a node was chosen.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod, PodSpec
from kubesched.api.access import ApiAccess
from kubesched.errors import PluginError
from kubesched.foundation.metrics.instruments import CounterMetric
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.go_format import format_slice
from kubesched.foundation.util.logging import get_logger
from kubesched.foundation.util.small_cache import SmallCache
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ClaimCache,
    ClusterVersion,
    Code,
    CycleState,
    Diagnosis,
    EventRecorder,
    Extender,
    ExtensionPoint,
    Informer,
    Lister,
    NodeView,
    Nominator,
    OnlyNodes,
    Plugin,
    PodInfo,
    PostFilterResult,
    PreemptionRules,
    QueuedPodInfo,
    SharedState,
    Snapshot,
    Status,
    VictimPreemption,
)
from kubesched.framework.background_calls import ApiDispatcher
from kubesched.framework.pod_groups import PodGroups
from kubesched.scheduler.config.types import BY_NAME, KubeSchedulerProfile
from kubesched.scheduler.runtime.answer_cache import AnswerCache
from kubesched.scheduler.runtime.binding_points import BindingPoints
from kubesched.scheduler.runtime.cached_answers import is_large_spec
from kubesched.scheduler.runtime.dry_run import ProfileDryRun
from kubesched.scheduler.runtime.in_flight_count import InFlightCount
from kubesched.scheduler.runtime.placement_points import PlacementPoints
from kubesched.scheduler.runtime.plugin_calls import (
    PRE_FILTER,
    PRE_SCORE,
    THROWN,
    add_normalized,
    call,
    call_filter,
    call_normalize,
    call_score,
    checked_status,
    fail,
    thrown,
)
from kubesched.scheduler.runtime.plugin_closing import close_plugins
from kubesched.scheduler.runtime.plugin_resources import (
    PluginResources,
    ProfileInformer,
    ProfileLister,
)
from kubesched.scheduler.runtime.plugin_set import ProfilePlugins, Registry
from kubesched.scheduler.runtime.point_metrics import PointMetrics
from kubesched.scheduler.runtime.post_filtering import run_post_filter
from kubesched.scheduler.runtime.queue_order import sort_key_of
from kubesched.scheduler.runtime.search_outcomes import PreFilterOutcome, RejectionSink, Scores
from kubesched.scheduler.runtime.services import Services
from kubesched.scheduler.runtime.ties import FirstByName, Ties
from kubesched.scheduler.runtime.traced_points import TracedPointMetrics
from kubesched.scheduler.runtime.waiting_pods import PodInPreBindEntry, WaitingPodEntry

__all__ = ["Framework"]

log = get_logger(__name__)

T = TypeVar("T", bound=msgspec.Struct)

# Plugins with their names and the counters of their calls. A plugin may return anything.
_CountedPlugins = Sequence[tuple[Any, str, CounterMetric]]
# The PreFilter plugins that concern a pod, and the names of the others.
_Concerned = tuple[_CountedPlugins, Collection[str]]
_ANY_NODE = PreFilterOutcome(SUCCESS, None, frozenset())


class Framework:
    """The plugins of one profile.

    It is also the `Handle` of the plugin contract, which those plugins call.
    """

    def __init__(
        self,
        profile: KubeSchedulerProfile,
        registry: Registry,
        services: Services,
        resources: PluginResources | None = None,
    ) -> None:
        """Build the plugins; `resources` gets their resources, even if one of them fails.

        Raises:
            ConfigError: a plugin cannot be built.
        """
        self.profile = profile
        self.profile_name = profile.scheduler_name
        self._services = services
        self._resources = resources or PluginResources(services.shared)
        self.pods_in_flight = InFlightCount()
        self._recorder = services.recorder_of(self.profile_name)
        self.percentage_of_nodes_to_score = profile.percentage_of_nodes_to_score
        # The rule among nodes with the same total; None: a random one.
        self.own_ties: Ties | None = FirstByName() if profile.tie_break == BY_NAME else None
        plugins = self.plugins = ProfilePlugins(profile, registry, self, self._resources)
        measured = (services.metrics, self.profile_name, plugins, services.clock.monotonic_ns)
        metrics = self.point_metrics = (
            PointMetrics(*measured)
            if services.tracer is None
            else TracedPointMetrics(*measured, services.tracer)
        )
        at = plugins.at
        self.queue_sort_plugin = at(ExtensionPoint.QUEUE_SORT)[0]
        self._sort_key = sort_key_of(self.queue_sort_plugin)
        self.pre_enqueue_plugins = at(ExtensionPoint.PRE_ENQUEUE)
        self.pre_filter_plugins = at(ExtensionPoint.PRE_FILTER)
        self.filter_plugins = at(ExtensionPoint.FILTER)
        self.post_filter_plugins = at(ExtensionPoint.POST_FILTER)
        self.pre_score_plugins = at(ExtensionPoint.PRE_SCORE)
        self.score_plugins = at(ExtensionPoint.SCORE)
        # The plugins that are called for every pod, with the other inputs of the calls.
        self._pre_filters = _with_counters(self.pre_filter_plugins, metrics.pre_filters)
        self._pre_scores = _with_counters(self.pre_score_plugins, metrics.pre_scores)
        self._all_pre_filters: _Concerned = (self._pre_filters, ())
        self._pre_filters_by_spec: SmallCache[PodSpec, _Concerned] = SmallCache()
        self.answer_cache = AnswerCache(plugins, services, metrics, self.version)
        self.binding = BindingPoints(plugins, services, metrics)
        self.placements = PlacementPoints(plugins, metrics)
        self._dry_run = ProfileDryRun(
            plugins, services, metrics, self.version, self.answer_cache.uncached_filters
        )

    @property
    def snapshot(self) -> Snapshot:
        return self._services.snapshot

    @property
    def nominator(self) -> Nominator:
        return self._services.nominator()

    @property
    def api(self) -> ApiAccess:
        return self._services.api

    @property
    def api_dispatcher(self) -> ApiDispatcher | None:
        return self._services.api_dispatcher

    @property
    def recorder(self) -> EventRecorder:
        return self._recorder

    @property
    def clock(self) -> Clock:
        return self._services.clock

    @property
    def random(self) -> Random:
        return self._services.random

    def lister(self, kind: type[T]) -> Lister[T]:
        return ProfileLister(self._services.lister(kind), self._resources)

    @property
    def claims(self) -> ClaimCache:
        return self._services.claims

    @property
    def shared(self) -> SharedState:
        return self._services.shared

    def informer(self, kind: type[T]) -> Informer[T]:
        return ProfileInformer(self._services.informer(kind), self._resources)

    @property
    def extenders(self) -> Sequence[Extender]:
        return self._services.extenders

    @property
    def kubeconfig(self) -> Any:
        return self._services.kubeconfig

    @property
    def component_config_version(self) -> str:
        return self._services.component_config_version

    def feature_enabled(self, gate: str) -> bool:
        return self._services.feature_enabled(gate)

    @property
    def metrics(self) -> SchedulerMetrics:
        return self._services.metrics

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._services.spawn(work, name)

    def activate(self, pods: Mapping[str, Pod]) -> None:
        self._services.activate(pods)

    def waiting_pod(self, uid: str) -> WaitingPodEntry | None:
        return self._services.waiting_pods.get(uid)

    def waiting_pods(self) -> Iterable[WaitingPodEntry]:
        return self._services.waiting_pods

    def pod_in_pre_bind(self, uid: str) -> PodInPreBindEntry | None:
        return self._services.pods_in_pre_bind.get(uid)

    def add_pod_in_pre_bind(self, pod: Pod, task: asyncio.Task[Any]) -> PodInPreBindEntry:
        entry = PodInPreBindEntry(pod, task)
        self._services.pods_in_pre_bind.add(entry)
        return entry

    def remove_pod_in_pre_bind(self, uid: str) -> None:
        self._services.pods_in_pre_bind.remove(uid)

    @property
    def pod_groups(self) -> PodGroups | None:
        return self._services.pod_groups

    def version(self) -> ClusterVersion:
        """The version of the cluster that the snapshot shows."""
        services = self._services
        table = services.snapshot.nodes.table
        return ClusterVersion(
            table.changes.position,
            table.node_version,
            table.membership_version,
            table.pod_changes.position,
            services.nominator().position,
            services.object_versions.total,
        )

    async def read_page(
        self, url: str, *, token: str = "", verify_tls: bool = True, timeout_ns: int = 10**10
    ) -> bytes:
        read = self._services.read_page
        return await read(url, token=token, verify_tls=verify_tls, timeout_ns=timeout_ns)

    def preemption(
        self, plugin: str, rules: PreemptionRules, *, percentage: int = 10, absolute: int = 100
    ) -> VictimPreemption:
        return self._services.preemption(self, plugin, rules, percentage, absolute)

    @property
    def dry_run(self) -> ProfileDryRun:
        return self._dry_run

    async def close(self) -> None:
        """Close the plugins in order, and remove the handlers that they registered."""
        await close_plugins(self._resources)

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        return self._sort_key(queued)

    def run_pre_filter(self, state: CycleState, pod_info: PodInfo) -> PreFilterOutcome:
        """Run the PreFilter plugins that concern the pod.

        Raises:
            PluginError: a plugin failed.
        """
        nodes = self.snapshot.nodes
        verdict: _PreFilterVerdict | None = None
        skipped = state.skip_filter
        is_timed = state.plugin_timer is not None
        plugins = self._pre_filters
        if not is_timed:
            plugins, unconcerned = self._pre_filters_of(pod_info.pod)
            skipped.update(unconcerned)
        for plugin, name, evaluations in plugins:
            # As `call`, without its cost: this runs for every pod and plugin.
            try:
                answer = (
                    call(PRE_FILTER, plugin, plugin.pre_filter, state, pod_info, nodes)
                    if is_timed
                    else plugin.pre_filter(state, pod_info, nodes)
                )
            except PluginError:
                raise
            except THROWN as exc:
                raise thrown(PRE_FILTER, plugin, exc) from exc
            if answer is SUCCESS:
                evaluations.value += 1
            elif answer is SKIP or _is_skip(plugin, answer):
                skipped.add(name)
            else:
                evaluations.value += 1
                verdict = verdict or _PreFilterVerdict()
                if verdict.add(plugin, answer):
                    skipped.difference_update(self._not_run_after(name))
                    break
        return _ANY_NODE if verdict is None else verdict.outcome()

    def _not_run_after(self, name: str) -> Iterator[str]:
        """Return the plugins whose PreFilter does not run after this plugin rejects the pod.

        They have not skipped the pod, whether or not they concern it: PostFilter plugins read that.
        """
        names = (each[1] for each in self._pre_filters)
        return itertools.dropwhile(name.__ne__, names)

    def _pre_filters_of(self, pod: Pod) -> _Concerned:
        """Return the PreFilter plugins that concern the pod, and the names of the others.

        The plugins are asked about a spec from its second pod on: for a spec that is not repeated,
        the calls would cost more than they save.
        """
        spec = pod.spec
        cached = self._pre_filters_by_spec.get(spec)
        if cached is None:
            if not is_large_spec(spec):
                self._pre_filters_by_spec.store(spec, self._all_pre_filters)
            return self._all_pre_filters
        if pod.status.container_statuses:  # after a resize the requests differ from the spec
            return self._all_pre_filters
        if cached is self._all_pre_filters:
            concerned = [each for each in self._pre_filters if each[0].concerns(spec)]
            others = [each[1] for each in self._pre_filters if each not in concerned]
            cached = concerned, others
            self._pre_filters_by_spec.store(spec, cached)
        return cached

    def run_filter(
        self, state: CycleState, pod: Pod, nodes: NodeView, diagnosis: Diagnosis
    ) -> NodeView:
        """Return the nodes that pass every filter; record the others in the diagnosis.

        Each plugin is called only about the nodes that passed all plugins before it.
        """
        return self.filter_by(self.filter_plugins, state, pod, nodes, diagnosis)

    def filter_by(
        self,
        plugins: Sequence[Plugin],
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        rejected: RejectionSink | None,
    ) -> NodeView:
        """Run some of the filters as `run_filter` does; `rejected` takes the rejections."""
        for plugin in plugins:
            if not len(nodes):
                break
            if plugin.name in state.skip_filter:
                continue
            self.point_metrics.filters[plugin.name].value += len(nodes)
            rejections = call_filter(plugin, state, pod, nodes)
            if rejections.codes is not None and np.count_nonzero(rejections.codes):
                if rejected is not None:
                    rejected.add_rejections(plugin.name, nodes.rows, rejections)
                nodes = nodes.subset(rejections.codes == 0)
        return nodes

    def run_post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Call the PostFilter plugins in order until one makes room for the pod."""
        return run_post_filter(self.post_filter_plugins, state, pod_info, diagnosis)

    def run_pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> None:
        is_timed = state.plugin_timer is not None
        for plugin, name, evaluations in self._pre_scores:
            try:
                answer = (
                    call(PRE_SCORE, plugin, plugin.pre_score, state, pod_info, nodes)
                    if is_timed
                    else plugin.pre_score(state, pod_info, nodes)
                )
            except PluginError:
                raise
            except THROWN as exc:
                raise thrown(PRE_SCORE, plugin, exc) from exc
            if answer is SUCCESS:
                evaluations.value += 1
                continue
            if answer is SKIP or checked_status(PRE_SCORE, plugin, answer).is_skip:
                state.skip_score.add(name)
                continue
            evaluations.value += 1
            if not answer.is_success:
                fail(PRE_SCORE, plugin, answer)

    def run_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Scores:
        """Return the normalised, weighted scores. A score out of range is a PluginError."""
        total = np.zeros(len(nodes), dtype=np.int64)
        self.add_scores(total, self.score_plugins, state, pod, nodes)
        return Scores(total, lambda: self.score_by_plugin(state, pod, nodes))

    def add_scores(
        self,
        total: NDArray[np.int64],
        plugins: Sequence[Plugin],
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
    ) -> None:
        """Add the weighted scores of some plugins to the totals."""
        weights = self.plugins.score_weights
        for plugin in plugins:
            name = plugin.name
            if name not in state.skip_score:
                self.point_metrics.scores[name].value += len(nodes)
                scores = call_score(plugin, state, pod, nodes)
                add_normalized(total, weights[name], plugin, state, pod, nodes, scores)

    def score_by_plugin(
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
        self.point_metrics.scores[plugin.name].value += len(nodes)
        scores = call_score(plugin, state, pod, nodes)
        normalized = call_normalize(plugin, state, pod, nodes, scores)
        return normalized * self.plugins.score_weights[plugin.name]


def _with_counters(
    plugins: Sequence[Plugin], counters: Mapping[str, CounterMetric]
) -> _CountedPlugins:
    return [(plugin, plugin.name, counters[plugin.name]) for plugin in plugins]


class _PreFilterVerdict:
    """The combined verdict of PreFilter plugins that did more than accept or skip the pod."""

    def __init__(self) -> None:
        self._rejection: Status | None = None
        self._only_nodes: frozenset[str] | None = None
        self._narrowing: set[str] = set()

    def add(self, plugin: Plugin, answer: Any) -> bool:
        """Add the answer of one plugin; return whether no other plugin may run.

        Raises:
            PluginError: the answer is an error, or not allowed at this extension point.
        """
        if isinstance(answer, OnlyNodes):
            self._narrowing.add(plugin.name)
            names = answer.names
            self._only_nodes = names if self._only_nodes is None else self._only_nodes & names
            if not self._only_nodes:
                self._rejection = _no_common_node(self._narrowing)
                return True
            return False
        if answer.is_success:
            return False
        if answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            # The plugins that narrowed the nodes before do not reject it (docs/reference/04 §8.3).
            self._rejection, self._only_nodes = answer.blame(plugin.name), None
            self._narrowing.clear()
            return True
        if answer.code is not Code.UNSCHEDULABLE:
            fail(PRE_FILTER, plugin, answer)
        # The other plugins still run: preemption needs what they write to the state.
        self._rejection = answer.blame(plugin.name)
        return False

    def outcome(self) -> PreFilterOutcome:
        status = self._rejection or SUCCESS
        return PreFilterOutcome(status, self._only_nodes, frozenset(self._narrowing))


def _is_skip(plugin: Plugin, answer: Any) -> bool:
    """Whether PreFilter's answer is a skip status.

    Raises:
        PluginError: PreFilter may not return this answer.
    """
    if isinstance(answer, OnlyNodes) and isinstance(answer.names, frozenset):
        return False
    return checked_status(PRE_FILTER, plugin, answer).is_skip


def _no_common_node(narrowing: set[str]) -> Status:
    if len(narrowing) == 1:
        return Status.unresolvable(f"node(s) didn't satisfy plugin {next(iter(narrowing))}")
    names = format_slice(sorted(narrowing))
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) {names} simultaneously")
