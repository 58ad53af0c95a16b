"""The scheduler: builds its parts, and runs the loop that places one pod after another.

All code that changes scheduling state runs on one event loop. The scheduling loop pops a pod,
places it without awaiting (`SchedulingCycle`), and starts a task that binds it (`BindingCycle`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Unpack

from kubesched.api import Node, Pod, PodGroup
from kubesched.api.access import ApiAccess
from kubesched.foundation.client.event_recorder import Broadcaster, EventBroadcaster
from kubesched.foundation.client.informer_factory import NON_TERMINAL_PODS, InformerFactory
from kubesched.foundation.client.late_informers import LateInformers
from kubesched.foundation.client.traced_api import TracedApi
from kubesched.foundation.client.web_pages import WebPages
from kubesched.foundation.util.clock import MICROSECOND, SECOND, Clock, RealClock, SteadyClock
from kubesched.foundation.util.components import BackgroundTasks, StopSwitch, running
from kubesched.foundation.util.logging import get_logger
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.spans import Tracer
from kubesched.framework import ClusterVersion, PodInfo, PodsOnNode, QueuedPodInfo
from kubesched.framework.pod_calls import DispatchingStatusWriter
from kubesched.framework.pod_groups import group_name_of
from kubesched.framework.pod_status_writer import PodStatusWriter, StatusWriter
from kubesched.framework.status_writes import status_writes
from kubesched.scheduler.backend.cache import Cache, CacheCorruptedError
from kubesched.scheduler.backend.grouping_cache import GroupingCache
from kubesched.scheduler.backend.queue import (
    QueueProfile,
    SchedulingQueue,
)
from kubesched.scheduler.backend.queue.grouping_queue import GroupingQueue
from kubesched.scheduler.backend.queue_flusher import QueueFlusher
from kubesched.scheduler.config.configuration_completion import as_written
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.cycles.binding_cycle import BindingCycle, PodPlacement
from kubesched.scheduler.cycles.broken_attempts import BrokenAttempts
from kubesched.scheduler.cycles.decision_watch import (
    DecisionRecorder,
    DecisionWatcher,
    FailureWatcher,
)
from kubesched.scheduler.cycles.extender_attempt import ExtenderContext
from kubesched.scheduler.cycles.extender_cycle import ExtenderCycle
from kubesched.scheduler.cycles.extender_tasks import ExtenderTasks
from kubesched.scheduler.cycles.failure import FailureHandler
from kubesched.scheduler.cycles.scheduling_cycle import (
    AttemptPausedError,
    SchedulingCycle,
    skip_reason,
)
from kubesched.scheduler.cycles.traced_cycles import (
    TracedBindingCycle,
    TracedExtenderCycle,
    TracedSchedulingCycle,
)
from kubesched.scheduler.events.event_handlers import EventHandlers
from kubesched.scheduler.events.event_subscriptions import EventSubscriptions
from kubesched.scheduler.events.pod_level_resources import pod_level_transform
from kubesched.scheduler.extenders.chain import Extenders
from kubesched.scheduler.extenders.extender import HTTPExtender
from kubesched.scheduler.extenders.extender_building import build_extenders, document_cache
from kubesched.scheduler.live_profiles import LiveProfiles, registered_actions
from kubesched.scheduler.options import (
    DEFAULT_OPTIONS,
    SchedulerOptions,
    all_plugins,
    check_options,
    scheduler_configuration,
)
from kubesched.scheduler.plugins.default_preemption.ruled_preemption import RuledPreemption
from kubesched.scheduler.pod_groups.extender_answers import AnsweredSearch
from kubesched.scheduler.pod_groups.extender_groups import ExtenderGroups
from kubesched.scheduler.pod_groups.group_building import build_group_cycle
from kubesched.scheduler.pod_groups.group_cycle import PodGroupCycle
from kubesched.scheduler.pod_groups.group_event_handlers import GroupEventHandlers
from kubesched.scheduler.profile_reload import ProfileReload
from kubesched.scheduler.runtime.api_dispatcher import BackgroundApiDispatcher
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_registry import Registry, plugin_type_of
from kubesched.scheduler.runtime.services import Services
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.scheduler.search.fit_checks import FitChecks
from kubesched.scheduler.search.verification import EngineMismatchError, VerifyingSearch

__all__ = ["Scheduler"]

log = get_logger(__name__)

# The number of pods that are placed before other tasks on the event loop run. Yielding after every
# pod would cost a tenth of a placement; yielding by the clock would make runs differ.
_PODS_PER_TURN = 8
_MICROSECOND = timedelta(microseconds=1)
_NO_POD_GROUPS = (
    "Feature gate GenericWorkload is on, but the API server does not serve PodGroups, so no pod is "
    "scheduled. Start the API server with --feature-gates=GenericWorkload=true and "
    "--runtime-config=scheduling.k8s.io/v1alpha2=true, or turn the gate off"
)


class Scheduler:
    """Schedules the pods of one API server. A component: `run` runs until `stop`."""

    def __init__(
        self, api: ApiAccess, clock: Clock | None = None, **options: Unpack[SchedulerOptions]
    ) -> None:
        """Build a scheduler for the pods of `api`; `clock` is the machine's clock by default.

        Raises:
            ConfigError: no scheduler can be built from these options.
        """
        check_options(options)
        options = {**DEFAULT_OPTIONS, **options}
        self._clock = clock = clock or RealClock()
        # For the queue: if the wall clock were set back, pods would wait too long.
        self._steady = SteadyClock(clock)
        configuration = scheduler_configuration(**options)
        self._stopping = False
        self._ready = asyncio.Event()
        self._tasks = BackgroundTasks()
        tracer = self._tracer = self._build_tracer(options)
        if tracer is not None:
            api = TracedApi(api, tracer)
        # With an in-process API most bindings never wait, and need no task of their own.
        at_once = getattr(api, "completes_at_once", False)
        self._start_binding = self._tasks.spawn_soon if at_once else self._tasks.spawn
        self._late_informers = LateInformers()
        self._corruption: CacheCorruptedError | None = None
        plugins = all_plugins(**options)
        gates = options["feature_gates"]
        self._schedules_groups = gates.enabled("GenericWorkload")
        self._schedules_gangs = gates.enabled("GangScheduling")
        cache_kind = GroupingCache if self._schedules_groups else Cache
        self.cache = cache_kind(pod_updates_change_rows=_caches_by_pod_details(plugins))
        self.synced = asyncio.Event()
        self._begins = options["begins"]
        self._next_pod = options["next_pod"] or _pop
        self._beginning = StopSwitch()
        extenders = build_extenders(configuration.extenders, options["extender_transport"])
        self._documents = document_cache(api, extenders) if extenders else None
        self._runs_informers = options["informer_factory"] is None
        self.informers = options["informer_factory"] or self._build_informers(api, options)
        seed = options["seed"]
        self._broadcaster: Broadcaster = options["broadcaster"] or EventBroadcaster(
            api, clock, derive(seed, "events")
        )
        self._pages = WebPages()
        self.services = self._build_services(api, options, extenders)
        writes = self._status_writes = status_writes(self.services.shared, self.services.lister)
        plain_writer = PodStatusWriter(api, clock, derive(seed, "status"), writes)
        writer: StatusWriter = plain_writer
        if gates.enabled("SchedulerAsyncAPICalls"):
            writer = self._build_dispatcher(api, plain_writer, configuration.parallelism)
        self._extenders = None
        if extenders:
            self._extenders = Extenders(extenders, self.services.metrics, options["may_act"])
        self._live_profiles = LiveProfiles(
            plugins,
            self.services,
            self._tasks.spawn,
            with_extenders=bool(extenders),
            with_pod_groups=self._schedules_groups,
        )
        built = self._live_profiles.build_first(configuration.profiles)
        self._live_profiles.use(built)
        # By scheduler name. The mapping changes when profiles are replaced.
        self.profiles: Mapping[str, Framework] = self._live_profiles.by_name
        if (on_profile := options["on_profile"]) is not None:
            for profile in as_written(configuration).profiles:
                on_profile(profile)
        self.queue = self._build_queue(built.queue_profiles, configuration, options)
        self.queue.on_ready = self._ready.set
        self.services.metrics.before_collect.append(self._report_cache_size)
        kind = VerifyingSearch if options["verify_engine"] else CachedSearch
        self._search = kind(
            self.cache.snapshot,
            derive(seed, "ties"),
            configuration.percentage_of_nodes_to_score,
            extenders_choose=self._extenders is not None and self._extenders.narrow_or_rank,
        )
        self._fit_checks = FitChecks(self.cache.snapshot, self._search.filtering)
        self._build_cycles(writer, options)
        self._add_handlers(built.queue_profiles, configuration)

    def _build_tracer(self, options: SchedulerOptions) -> Tracer | None:
        if (sink := options["spans"]) is None:
            return None
        clock = self._steady
        return Tracer(sink, clock.wall_ns, clock.monotonic_ns, ratio=options["trace_ratio"])

    def _build_informers(self, api: ApiAccess, options: SchedulerOptions) -> InformerFactory:
        watched: Any = api if self._documents is None else self._documents
        change = pod_level_transform(options["feature_gates"].enabled)
        return InformerFactory(
            watched,
            self._clock,
            options["seed"],
            options={Pod: NON_TERMINAL_PODS},
            stream_lists=options["stream_lists"],
            share_parts=options["share_parts"],
            change=None if change is None else {Pod: change},
        )

    def _build_services(
        self, api: ApiAccess, options: SchedulerOptions, extenders: tuple[HTTPExtender, ...]
    ) -> Services:
        events, hostname = self._broadcaster, options["hostname"]
        return Services(
            snapshot=self.cache.snapshot,
            api=api,
            recorder_of=lambda profile: events.recorder(profile, hostname),
            clock=self._clock,
            random=derive(options["seed"], "plugins"),
            lister=self.informers.lister,
            feature_enabled=options["feature_gates"].enabled,
            nominator=lambda: self.queue.nominator,
            activate=self._activate,
            spawn=self._tasks.spawn,
            fits_now=self._fits_now,
            fits_without=self._fits_without,
            metrics=options["metrics"],
            informer=self.informers.informer,
            extenders=extenders,
            kubeconfig=options["kubeconfig"],
            component_config_version=options["component_config_version"],
            preemption=RuledPreemption,
            read_page=self._pages.read,
            tracer=self._tracer,
            pod_groups=self.cache.groups if isinstance(self.cache, GroupingCache) else None,
        )

    def _build_dispatcher(
        self, api: ApiAccess, writer: PodStatusWriter, limit: int
    ) -> StatusWriter:
        """Build the dispatcher of API calls; return the writer that gives patches to it."""
        dispatcher = BackgroundApiDispatcher(
            api, self.services.metrics, self._tasks.spawn, self._clock.monotonic_ns, limit
        )
        self.services.api_dispatcher = dispatcher
        self.informers.informer(Pod).add_handler(on_update=lambda _, pod: dispatcher.sync(pod))
        return DispatchingStatusWriter(dispatcher, writer)

    def _build_cycles(self, writer: StatusWriter, options: SchedulerOptions) -> None:
        """Build the cycles: scheduling, binding, pod groups, and attempts with extenders."""
        cache, queue, clock = self.cache, self.queue, self._steady
        pods = self.informers.lister(Pod)
        failures = self._failures = FailureHandler(
            queue,
            pods,
            writer,
            clock,
            self._tasks.spawn,
            options["failure_handler"],
            options["failure_note"],
        )
        broken = self._broken_attempts = BrokenAttempts(cache, queue, clock)
        search = self._search
        schedule_pod = options["schedule_pod"] or search.schedule_pod
        answered = AnsweredSearch(cache.snapshot, search.filtering, search.scoring, schedule_pod)
        if self._extenders is not None and self._schedules_groups:
            schedule_pod = answered.schedule_pod
        tracer, metrics = self._tracer, self.services.metrics
        placing = (cache, queue, schedule_pod, failures, metrics, clock)
        binding = (cache, queue, self.services, writer, failures, clock, self._extenders)
        if tracer is None:
            self._scheduling = SchedulingCycle(*placing)
            self._binding = BindingCycle(*binding)
        else:
            self._scheduling = TracedSchedulingCycle(tracer, *placing)
            self._binding = TracedBindingCycle(tracer, *binding)
        self._group_cycle: PodGroupCycle | None = None
        if isinstance(cache, GroupingCache) and isinstance(queue, GroupingQueue):
            self._group_cycle = build_group_cycle(
                cache,
                queue,
                self.profiles,
                self.services,
                self._scheduling,
                failures,
                broken,
                self._bind,
                clock,
                derive(options["seed"], "groups"),
            )
        self._extender_tasks: ExtenderTasks | None = None
        self._extender_groups: ExtenderGroups | None = None
        if self._extenders is not None and self._documents is not None:
            context = ExtenderContext(
                cache,
                self._search.filtering,
                self._search.scoring,
                self._fit_checks,
                self._extenders,
                self._documents,
                pods,
                refused={},
            )
            asking = (context, self._scheduling, queue, broken, clock)
            cycle = (
                ExtenderCycle(*asking) if tracer is None else TracedExtenderCycle(tracer, *asking)
            )
            self._extender_tasks = ExtenderTasks(context, cycle, self._bind, self._ready.set)
            if self._group_cycle is not None:
                together = options["feature_gates"].enabled("WorkloadAwarePreemption")
                self._extender_groups = ExtenderGroups(
                    context,
                    self._extender_tasks,
                    answered,
                    self._group_cycle,
                    preempts_together=together,
                )

    def _build_queue(
        self,
        profiles: Mapping[str, QueueProfile],
        configuration: KubeSchedulerConfiguration,
        options: SchedulerOptions,
    ) -> SchedulingQueue:
        extenders = self._extenders
        longest = options["pod_max_in_unschedulable_pods_duration"]
        kind = GroupingQueue if self._schedules_groups else SchedulingQueue
        return kind(
            profiles,
            lister=self.informers.lister(Pod),
            random=derive(options["seed"], "queue"),
            metrics=self.services.metrics,
            monotonic_ns=self._clock.monotonic_ns,
            initial_backoff_ns=configuration.pod_initial_backoff_seconds * SECOND,
            max_backoff_ns=configuration.pod_max_backoff_seconds * SECOND,
            max_in_unschedulable_ns=longest // _MICROSECOND * MICROSECOND,
            needs=None if extenders is None else extenders.names_asked_about,
            pops_from_backoff=options["feature_gates"].enabled("SchedulerPopFromBackoffQ"),
        )

    def _add_handlers(
        self, built: Mapping[str, QueueProfile], configuration: KubeSchedulerConfiguration
    ) -> None:
        handlers = self._build_handlers()
        self.informers.informer(Pod).add_handler(
            handlers.add_pod, handlers.update_pod, handlers.delete_pod
        )
        self.informers.informer(Node).add_handler(
            handlers.add_node, handlers.update_node, handlers.delete_node
        )
        if self._schedules_groups:
            self.informers.informer(PodGroup).hint_if_not_served = _NO_POD_GROUPS
        if self._extender_tasks is not None:
            self.informers.informer(Pod).add_handler(
                on_update=self._extender_tasks.follow, on_delete=self._extender_tasks.forget
            )
            self.informers.informer(Node).add_handler(on_delete=self._extender_tasks.forget)
        subscriptions = EventSubscriptions(
            self.informers, self.services, handlers, with_pod_groups=self._schedules_groups
        )
        subscriptions.add(registered_actions(built), self._live_profiles.kinds_read())
        if not self._runs_informers:
            self._late_informers.adopt(self.informers.components())
        self._reload = ProfileReload(
            configuration,
            self._live_profiles,
            subscriptions,
            self.informers,
            self._late_informers,
            self._runs_informers,
            self.cache,
            self.queue,
            handlers,
            self._search.use_percentage,
            self._steady,
        )

    def _build_handlers(self) -> EventHandlers:
        parts = (
            self.queue,
            self.services.waiting_pods,
            self._steady,
            lambda pod: pod.spec.scheduler_name in self.profiles,
            self._on_corruption,
            self.services.metrics,
        )
        if isinstance(self.cache, GroupingCache):
            gangs = self.services.lister(PodGroup) if self._schedules_gangs else None
            return GroupEventHandlers(
                self.cache,
                *parts,
                gangs=gangs,
                clear_nomination=self._failures.clear_nomination,
            )
        return EventHandlers(self.cache, *parts)

    async def run(self) -> None:
        """Watch the cluster and place pods until stopped.

        Raises:
            CacheCorruptedError: the cache and the API server disagree beyond repair.
        """
        release = self._status_writes.remove_delivered
        flusher = QueueFlusher(self.queue, self.cache, self._steady, release)
        try:
            informers = self.informers.components() if self._runs_informers else ()
            late = self._late_informers
            late.adopt(informers)
            async with running(*informers, late, self._broadcaster, flusher):
                await self._beginning.guard(self._until_it_begins())
                async with self._tasks.finished():
                    self._live_profiles.start_work()
                    await self._place_pods()
                    self._live_profiles.stop_work()
                    if self._extender_tasks is not None:
                        self._extender_tasks.abandon()
                    self.queue.close()
                    for waiting in (*self.services.waiting_pods, *self.services.pods_in_pre_bind):
                        waiting.abandon()
        finally:
            if self._extenders is not None:
                await self._extenders.close()
            await self._live_profiles.close()
            await self._pages.close()
        if self._corruption is not None:
            raise self._corruption

    async def reload(self, configuration: KubeSchedulerConfiguration) -> bool:
        """Use another complete configuration from the next attempt on (docs/decisions/0045).

        Pods in flight finish with the old profiles. Returns False if the configuration is the
        current one. Waits until the caches have synced.

        Raises:
            ConfigError: it cannot be used, or needs a restart. Nothing has changed then.
        """
        await self.synced.wait()
        return await self._reload.apply(configuration)

    @property
    def configuration(self) -> KubeSchedulerConfiguration:
        """The complete configuration in use."""
        return self._reload.configuration

    def watch(self, watcher: DecisionWatcher | None) -> None:
        """Call the watcher with every attempt from now on; None removes it."""
        self._scheduling.watcher = watcher

    def watch_failures(self, watcher: FailureWatcher | None) -> None:
        """Call the watcher with every failure to place a pod; None removes it."""
        self._failures.watcher = watcher

    def record(self, recorder: DecisionRecorder) -> None:
        """Call the recorder with every attempt and every failure, in addition to the watchers."""
        self._scheduling.recorder = recorder
        self._failures.recorder = recorder

    def stop(self) -> None:
        self._stopping = True
        self._beginning.set()
        self._ready.set()

    async def _until_it_begins(self) -> None:
        await self.informers.wait_for_sync()
        self.cache.update_snapshot()  # so that the first attempt need not build it
        self.synced.set()
        if self._begins is not None:
            await self._begins.wait()

    async def _place_pods(self) -> None:
        placed = 0
        busy: Collection[str] = () if self._extender_tasks is None else self._extender_tasks.busy
        while not self._stopping:
            queued = self._next_pod(self.queue, self._steady.now_ns(), busy)
            if queued is None:
                self._ready.clear()
                await self._ready.wait()
                continue
            placed += 1
            if not await self._schedule_safely(queued) or placed >= _PODS_PER_TURN:
                # Yield to watch events and bindings; also after a failure, which takes long.
                await asyncio.sleep(0)
                placed = 0

    async def _schedule_safely(self, queued: QueuedPodInfo) -> bool:
        while not self._stopping:
            try:
                return self.schedule_one(queued)
            except EngineMismatchError:
                raise
            except AttemptPausedError:
                await asyncio.sleep(0)
            except Exception as exc:
                self._broken_attempts.put_back(queued, exc)
                break
        return False

    def schedule_one(self, queued: QueuedPodInfo) -> bool:
        """Place a popped pod and start its binding, or requeue it; return whether it was placed."""
        pod = queued.pod
        if self._group_cycle is not None and group_name_of(pod):
            return self._schedule_group(self._group_cycle, queued)
        framework = self.profiles.get(pod.spec.scheduler_name)
        if framework is None:
            log.error("No profile for the pod's scheduler name", pod=pod)
            self.queue.done(pod.metadata.uid)
            return False
        reason = skip_reason(pod, self.cache)
        if reason is not None:
            if reason:
                self._scheduling.report_skipped(framework, pod, reason)
            self.queue.done(pod.metadata.uid)
            return False
        if self._extender_tasks is not None and (
            extenders := self._extender_tasks.extenders_of(pod)
        ):
            self._extender_tasks.start(self._tasks, framework, queued, extenders)
            return False
        try:
            placement = self._scheduling.run(framework, queued)
        finally:
            self.cache.end_attempt()
        if placement is None:
            return False
        self._bind(placement)
        return True

    def _schedule_group(self, cycle: PodGroupCycle, popped: QueuedPodInfo) -> bool:
        """Place the group of a popped pod; return whether a member was placed at once."""
        if self._extender_groups is None:
            return cycle.run(popped)
        members = cycle.collect(popped)
        if not members:
            return False
        if not self._extender_groups.takes(members):
            return cycle.place(members)
        framework = self.profiles[members[0].pod.spec.scheduler_name]
        self._extender_groups.start(self._tasks, framework, members)
        return False

    def _bind(self, placement: PodPlacement) -> None:
        placement.attempt.framework.pods_in_flight.enter()
        self._start_binding(self._binding.run(placement), "binding")

    def _fits_now(self, profile: str, pod_info: PodInfo, since: ClusterVersion) -> bool:
        # Other tasks call this between attempts, so the snapshot may be updated.
        self.cache.update_snapshot()
        refused = () if self._extender_tasks is None else self._extender_tasks.refused(pod_info)
        framework = self.profiles.get(profile)
        return framework is not None and self._fit_checks.fits_now(
            framework, pod_info, since, refused
        )

    def _fits_without(
        self, profile: str, pod_info: PodInfo, node_name: str, gone: Collection[PodInfo]
    ) -> bool:
        self.cache.update_snapshot()
        framework = self.profiles.get(profile)
        return framework is not None and self._fit_checks.fits_without(
            framework, pod_info, node_name, gone
        )

    def _activate(self, pods: Mapping[str, Pod]) -> None:
        self.queue.activate(pods, self._steady.now_ns())

    def _report_cache_size(self) -> None:
        cache = self.cache
        self.services.metrics.set_cache_size(
            nodes=cache.node_count, pods=cache.pod_count, assumed_pods=cache.assumed_count
        )

    def _on_corruption(self, error: CacheCorruptedError) -> None:
        log.error("Scheduler cache is corrupted, ending", exc=error)
        self._corruption = error
        self.stop()


def _caches_by_pod_details(plugins: Registry) -> bool:
    """Whether a plugin's cached answers depend on more of the pods on a node than their specs.

    A factory without a known plugin class may build such a plugin.
    """
    types = map(plugin_type_of, plugins.values())
    return any(
        plugin is None
        or (plugin.reads.is_cacheable and plugin.reads.pods_on_node is PodsOnNode.DETAIL)
        for plugin in types
    )


def _pop(queue: SchedulingQueue, now_ns: int, busy: Collection[str]) -> QueuedPodInfo | None:
    return queue.pop(now_ns, busy)
