"""The scheduler as a process of a control plane (docs/reference/02 §1.2, §1.3, §1.5).

    caches sync -> ready -> lease -> scheduling

`SchedulerProcess` is built from a checked configuration. It runs until `stop` is called or it loses
its lease. A process that has lost the lease cannot write: the elector's fence checks every request
right before the client sends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import uuid
from collections.abc import Callable, Coroutine, Iterable
from datetime import timedelta
from typing import Any, TypeVar

from msgspec.structs import replace
from prometheus_client.registry import CollectorRegistry

import kubesched
from kubesched.api import Lease, Pod
from kubesched.foundation.client.coordinated_elector import CoordinatedElector
from kubesched.foundation.client.core_event_recorder import CoreEventBroadcaster
from kubesched.foundation.client.event_api_discovery import DiscoveringBroadcaster
from kubesched.foundation.client.event_recorder import (
    QUEUE_CAPACITY,
    Broadcaster,
    EventBroadcaster,
)
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.leader_election import ElectionSettings, LeaderElector
from kubesched.foundation.client.lease_candidate import (
    CandidateDescription,
    LeaseCandidateRenewer,
)
from kubesched.foundation.client.otlp_export import OtlpExport
from kubesched.foundation.http.http_messages import (
    Handler,
    Request,
    Response,
    text_error,
)
from kubesched.foundation.metrics.client_metrics import ClientMetrics, LeaderElectionMetrics
from kubesched.foundation.metrics.instruments import FamilyGroup
from kubesched.foundation.metrics.process_metrics import BuildMetrics
from kubesched.foundation.metrics.reload_metrics import ReloadMetrics
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import MICROSECOND, Clock
from kubesched.foundation.util.components import Component, running
from kubesched.foundation.util.log_output import LogFlusher, add_pod_fields
from kubesched.foundation.util.logging import get_logger
from kubesched.foundation.util.loop_watchdog import LoopWatchdog
from kubesched.foundation.util.memory_trimmer import MemoryTrimmer
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.spans import trace_fields
from kubesched.framework import FitError
from kubesched.scheduler.cache_debugger import log_state
from kubesched.scheduler.config.configuration_completion import as_written
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.config.versions import (
    BINARY_VERSION,
    KUBERNETES_VERSION,
    effective_version,
)
from kubesched.scheduler.config.write import versioned
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.process.add_ons import EventNotes, ProcessAddOns, ProcessInputs
from kubesched.scheduler.process.api_clients import ApiClients
from kubesched.scheduler.process.configuration_reloader import ConfigurationReloader
from kubesched.scheduler.process.process_reloader import process_reloader
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.server.endpoints.explanations import Explanations
from kubesched.scheduler.server.endpoints.health_endpoints import HealthCheck, SwitchCheck
from kubesched.scheduler.server.endpoints.zpages import Versions
from kubesched.scheduler.server.serving.secure_server import (
    Pages,
    SchedulerServer,
    ServingMetrics,
    build_access_control,
)

__all__ = ["ProcessInputs", "SchedulerProcess"]

log = get_logger(__name__)

T = TypeVar("T")

# How long bindings in flight and queued events may take after a signal.
_GRACE_S = 15.0


class SchedulerProcess:
    """The scheduler with its clients, leader election and endpoints."""

    def __init__(
        self,
        inputs: ProcessInputs,
        clock: Clock,
        seed: int,
        hostname: str,
        on_synced: Callable[[], None] = lambda: None,
        add_ons: ProcessAddOns | None = None,
    ) -> None:
        """Build the process; `on_synced` is called once the caches have synced, before it is ready.

        Without `add_ons` the process has neither `/explain` nor a dashboard, and its events have no
        notes.

        Raises:
            ConfigError: there is no way to an API server with this configuration.
        """
        self._inputs, self._clock, self._seed = inputs, clock, seed
        self._on_synced = on_synced
        self._config = inputs.config
        self._registry = CollectorRegistry()
        self._client_metrics = ClientMetrics(self._registry)
        self._election_metrics = LeaderElectionMetrics(self._registry)
        self._reload_metrics = ReloadMetrics(self._registry)
        gates = self._config.gates
        self._scheduler_metrics = SchedulerMetrics(
            self._registry,
            async_api_calls=gates.enabled("SchedulerAsyncAPICalls"),
            pod_groups=gates.enabled("GenericWorkload"),
        )
        self._clients = ApiClients(
            self._config.cluster,
            self._config.configuration.client_connection,
            clock,
            self._client_metrics,
            seed,
        )
        self._hostname = hostname
        self._elector: LeaderElector | None = None
        self._candidate: LeaseCandidateRenewer | None = None
        self._scheduler: Scheduler | None = None
        self._add_ons = add_ons
        self._explanations: Explanations | None = None
        if add_ons is not None:
            self._explanations = add_ons.explanations(lambda: self._scheduler, inputs, clock)
        self._event_notes: EventNotes | None = None
        self._dashboard: Handler | None = None
        self._spans: OtlpExport | None = None
        if endpoint := self._config.options.trace_endpoint:
            self._spans = OtlpExport(endpoint, kubesched.__version__, hostname)
        self._reloader: ConfigurationReloader | None = None
        self._stopping = asyncio.Event()
        self._may_schedule = asyncio.Event()
        self._leads = False
        self._shutdown = SwitchCheck("shutdown", "process is shutting down", is_fine=True)
        self._handler_sync = SwitchCheck(
            "sched-handler-sync", "handlers are not fully synchronized", is_fine=False
        )

    def stop(self) -> None:
        """Ask `run` to finish the bindings in flight, to release the lease and to end."""
        self._shutdown.is_fine = False
        self._stopping.set()

    def reload(self) -> None:
        """Load the configuration file again, if there is one."""
        if self._reloader is not None:
            self._reloader.request()

    def log_state(self) -> None:
        """Log the cache, the queue, and where they differ from the informers."""
        if self._scheduler is not None and not self._stopping.is_set():
            log_state(self._scheduler)

    async def run(self) -> int:
        """Build the parts, run them, and return the exit code.

        Raises:
            KubeschedError: the parts cannot be built, or the endpoints cannot be served.
        """
        try:
            return await self._run()
        finally:
            await self._clients.close()

    async def _run(self) -> int:
        events = self._clients.client("scheduler")
        leader_events = CoreEventBroadcaster(events, self._clock, derive(self._seed, "told"))
        election = self._config.configuration.leader_election
        fence = None
        if election.leader_elect:
            self._elector = self._build_elector(leader_events)
            fence = self._elector.fence
        main = self._clients.client("scheduler", fence=fence)
        # Bind the port before building anything: a second process on the same port ends here.
        server = await self._build_server()
        scheduler = self._scheduler = self._build_scheduler(main, self._broadcaster(events, main))
        if self._config.options.dashboard and self._add_ons is not None:
            self._dashboard = self._add_ons.dashboard(
                scheduler, self._inputs, self._clock, self._hostname
            )
        log.info(
            "Starting Kubernetes Scheduler",
            version=KUBERNETES_VERSION,
            kubesched=f"v{kubesched.__version__}",
        )
        parts = [*self._supporting_parts(server), leader_events]
        if (reloader := self._build_reloader(scheduler, leader_events)) is not None:
            self._reloader = reloader
            parts.append(reloader)
        if self._config.options.record and self._add_ons is not None:
            parts.append(self._add_ons.recorder(scheduler, self._inputs, self._clock))
        if self._spans is not None:
            add_pod_fields(trace_fields)
            parts.append(self._spans)
        if self._candidate is not None:
            parts.append(self._candidate)
        async with running(*parts):
            code = await self._lead(scheduler)
        if code == 0:
            log.info("Requested to terminate, exiting")
        return code

    def _supporting_parts(self, server: SchedulerServer | None) -> list[Component]:
        """Return what runs in every process: the watchdog, flushers, and the server if any."""
        watchdog = LoopWatchdog(while_stalled=None if server is None else server.answer_while)
        parts: list[Component] = [watchdog, MemoryTrimmer(self._clock), *self._log_flushers()]
        return parts if server is None else [*parts, server]

    async def _lead(self, scheduler: Scheduler) -> int:
        """Sync, wait for the lease if leader election is on, schedule; return the exit code."""
        async with _Tasks() as tasks:
            placing: asyncio.Task[None] | None = None
            delayed = self._config.configuration.delay_cache_until_active
            if not (delayed and self._elector):
                placing = tasks.start(scheduler.run(), "scheduler")
                await self._first(placing, scheduler.synced)
                self._note_synced()
            leading: asyncio.Task[None] | None = None
            if self._elector is not None and not self._stopping.is_set():
                leading = tasks.start(self._elector.run(), "leader election")
                await self._first(leading, placing, self._elector.leading)
            if not self._stopping.is_set() and not _is_over(leading):
                self._leads = True
                if placing is None:
                    log.info("Starting informers and waiting for sync...")
                    placing = tasks.start(scheduler.run(), "scheduler")
                    await self._first(leading, placing, scheduler.synced)
                    self._note_synced()
                    log.info("Sync completed")
                self._may_schedule.set()
                over = None if self._elector is None else self._elector.over
                await self._first(leading, placing, over)
            return await self._end(scheduler, placing, leading)

    async def _end(
        self,
        scheduler: Scheduler,
        placing: asyncio.Task[None] | None,
        leading: asyncio.Task[None] | None,
    ) -> int:
        if leading is not None and self._has_lost_lease() and not self._stopping.is_set():
            # The next leader must not meet requests of this process: cancel them, do not wait.
            if placing is not None:
                await _cancel(placing)
            await leading
            log.error("Leaderelection lost")
            return 1
        self._shutdown.is_fine = False
        scheduler.stop()
        if placing is not None:
            await asyncio.wait([placing], timeout=_GRACE_S)
            if placing.done():
                placing.result()  # raises the exception of a task that failed
        if self._elector is None:
            log.error("command failed", err="finished without leader elect")
            return 1
        if leading is not None:
            # Release the lease last, when no request of this process is in flight.
            self._elector.stop()
            await leading
        return 0 if self._stopping.is_set() else 1

    def _has_lost_lease(self) -> bool:
        return self._elector is not None and self._elector.over.is_set()

    async def _first(self, *awaited: asyncio.Task[Any] | asyncio.Event | None) -> None:
        """Wait until a task is done, an event is set, or `stop` is called."""
        async with _Tasks() as tasks:
            events = [each for each in awaited if isinstance(each, asyncio.Event)]
            waits = [tasks.start(event.wait(), "wait") for event in (self._stopping, *events)]
            over = [each for each in awaited if isinstance(each, asyncio.Task)]
            await asyncio.wait([*waits, *over], return_when=asyncio.FIRST_COMPLETED)

    def _note_synced(self) -> None:
        if self._stopping.is_set():
            log.error("handlers are not fully synchronized")
        else:
            log.detail(3, "Handlers synced")
            self._on_synced()
        self._handler_sync.is_fine = True

    def _log_flushers(self) -> list[LogFlusher]:
        frequency_ns = self._config.options.logging.flush_frequency_ns
        return [
            LogFlusher(handler, self._clock, frequency_ns)
            for handler in logging.getLogger("kubesched").handlers
        ]

    def _build_reloader(
        self, scheduler: Scheduler, events: CoreEventBroadcaster
    ) -> ConfigurationReloader | None:
        profile = self._config.configuration.profiles[0].scheduler_name

        async def apply(configuration: KubeSchedulerConfiguration) -> bool:
            has_changed = await scheduler.reload(configuration)
            self._config = replace(self._config, configuration=configuration)
            return has_changed

        return process_reloader(
            self._inputs,
            apply,
            events.recorder(profile, self._hostname),
            self._reload_metrics,
            self._clock,
        )

    def _build_elector(self, events: CoreEventBroadcaster) -> LeaderElector:
        election = self._config.configuration.leader_election
        settings = ElectionSettings(
            identity=f"{self._hostname}_{uuid.uuid4()}",
            name=election.resource_name,
            namespace=election.resource_namespace,
            lease_duration_ns=election.lease_duration_ns,
            renew_deadline_ns=election.renew_deadline_ns,
            retry_period_ns=election.retry_period_ns,
        )
        profile = self._config.configuration.profiles[0].scheduler_name
        recorder = events.recorder(profile, self._hostname)

        def record(lease: Lease, what: str) -> None:
            recorder.event(lease, "Normal", "LeaderElection", "", what)

        kind = LeaderElector
        if self._config.gates.enabled("CoordinatedLeaderElection"):
            kind = CoordinatedElector
            self._candidate = self._build_candidate(settings.identity)
        return kind(
            self._clients.client("leader-election", timeout_ns=settings.request_timeout_ns),
            self._clock,
            derive(self._seed, "election"),
            settings,
            metrics=self._election_metrics,
            record=record,
        )

    def _build_candidate(self, identity: str) -> LeaseCandidateRenewer:
        """Build the candidacy; the API server elects the holder of a lease with a fixed name."""
        options = self._config.options
        version = effective_version(options.emulated_version, options.min_compatibility_version)
        return LeaseCandidateRenewer(
            self._clients.client("lease-candidate"),
            self._clock,
            derive(self._seed, "candidate"),
            CandidateDescription(
                identity=identity,
                lease_name="kube-scheduler",
                binary_version=KUBERNETES_VERSION.removeprefix("v"),
                emulation_version=f"{version.emulation}.0",
            ),
        )

    def _broadcaster(self, events: HttpApi, main: HttpApi) -> Broadcaster:
        random, clock = derive(self._seed, "events"), self._clock
        dropped = self._client_metrics.events_dropped_total.inc
        return DiscoveringBroadcaster(
            lambda: events.serves("events.k8s.io/v1"),
            EventBroadcaster(
                events, clock, random, is_busy=lambda: main.is_writing, on_drop=dropped
            ),
            CoreEventBroadcaster(events, clock, random, on_drop=dropped, capacity=QUEUE_CAPACITY),
            clock,
            derive(self._seed, "event discovery"),
            on_drop=dropped,
        )

    def _build_scheduler(self, api: HttpApi, broadcaster: Broadcaster) -> Scheduler:
        config = self._config
        return Scheduler(
            api,
            self._clock,
            configuration=config.configuration,
            configuration_is_complete=True,
            pod_max_in_unschedulable_pods_duration=timedelta(
                microseconds=config.options.pod_max_in_unschedulable_pods_ns // MICROSECOND
            ),
            out_of_tree_registry=self._inputs.plugins,
            feature_gates=config.gates,
            metrics=self._scheduler_metrics,
            seed=self._seed,
            hostname=self._hostname,
            broadcaster=broadcaster,
            begins=self._may_schedule,
            verify_engine=config.options.verify_engine,
            failure_note=self._failure_note if self._writes_notes() else None,
            stream_lists=config.gates.enabled("WatchListClient"),
            share_parts=True,
            spans=self._spans,
            trace_ratio=config.options.trace_ratio,
            kubeconfig=config.cluster,
            may_act=None if self._elector is None else self._elector.may_act,
        )

    def _writes_notes(self) -> bool:
        return self._config.options.explain_events and self._add_ons is not None

    def _failure_note(self, attempt: Attempt, error: FitError) -> str:
        assert self._scheduler is not None, "attempts are made by a scheduler"
        assert self._add_ons is not None, "only add-ons make notes"
        if self._event_notes is None:
            self._event_notes = self._add_ons.event_notes(self._scheduler, self._clock)
        return self._event_notes.note(attempt.framework, attempt.queued.pod_info, error.diagnosis)

    async def _build_server(self) -> SchedulerServer | None:
        options = self._config.options
        if options.secure_serving.port == 0:
            return None
        metrics = ServingMetrics(
            self._registry,
            self._metric_groups(),
            options.metrics,
        )
        self._add_build_metrics(metrics)
        access = build_access_control(
            options.authentication,
            options.authorization,
            self._clients.reviewer(options.authentication.kubeconfig, "authentication"),
            self._clients.reviewer(options.authorization.kubeconfig, "authorization"),
            metrics.server,
            self._clock,
            self._seed,
        )
        server = SchedulerServer(
            options.secure_serving, access, self._pages(), metrics, self._clock, self._seed
        )
        await server.start()
        return server

    def _metric_groups(self) -> tuple[FamilyGroup, ...]:
        return (
            self._scheduler_metrics,
            self._client_metrics,
            self._election_metrics,
            self._reload_metrics,
        )

    def _pages(self) -> Pages:
        config, gates = self._config, self._config.gates
        version = effective_version(
            config.options.emulated_version, config.options.min_compatibility_version
        )
        elector = self._elector
        # A lost lease ends the process. A lease that cannot be acquired is no reason to restart it,
        # so only readiness depends on that.
        elected = [HealthCheck("leaderElection", lambda: None)] if elector else []
        electing = [HealthCheck("leaderElection", elector.trouble.problem)] if elector else []
        if (candidate := self._candidate) is not None:
            electing.append(HealthCheck("informer-sync", lambda: _sync_problem(candidate)))
        return Pages(
            configuration=self._shown_configuration,
            flags=self._inputs.flags,
            versions=Versions(
                binary=KUBERNETES_VERSION.removeprefix("v"),
                emulation=str(version.emulation),
                runtime=f"{platform.python_implementation()} {platform.python_version()}",
                implementation=f"kubesched {kubesched.__version__}",
            ),
            healthz=elected,
            readyz=(*electing, self._shutdown.as_check(), self._handler_sync.as_check()),
            pods=self._cached_pods,
            is_leading=lambda: self._leads,
            profiling=config.configuration.enable_profiling,
            statusz=gates.enabled("ComponentStatusz"),
            flagz=gates.enabled("ComponentFlagz"),
            explanations=self._explanations,
            dashboard=self._show_dashboard if self._has_dashboard() else None,
        )

    def _shown_configuration(self) -> Any:
        configuration = self._config.configuration
        if log.enabled(2):
            # The reference completes the plugin arguments only when it logs the configuration.
            configuration = as_written(configuration)
        return versioned(configuration)

    def _has_dashboard(self) -> bool:
        return self._config.options.dashboard and self._add_ons is not None

    async def _show_dashboard(self, request: Request) -> Response:
        if self._dashboard is None:
            return text_error("this process has not begun to schedule", 503)
        return await self._dashboard(request)

    def _cached_pods(self) -> Iterable[Pod]:
        return () if self._scheduler is None else self._scheduler.informers.lister(Pod).list()

    def _add_build_metrics(self, metrics: ServingMetrics) -> None:
        config = self._config
        version = effective_version(
            config.options.emulated_version, config.options.min_compatibility_version
        )
        build = BuildMetrics(
            self._registry,
            build={
                "major": str(BINARY_VERSION.major),
                "minor": str(BINARY_VERSION.minor),
                "git_version": KUBERNETES_VERSION,
                "git_commit": "",
                "git_tree_state": "",
                "build_date": "",
                "go_version": f"python{platform.python_version()}",
                "compiler": platform.python_implementation(),
                "platform": f"{platform.system().lower()}/{platform.machine()}",
            },
            binary=KUBERNETES_VERSION.removeprefix("v"),
            emulation=str(version.emulation),
            min_compat=str(version.min_compatibility),
            features=((gate.name, gate.stage.value, on) for gate, on in config.gates.items()),
            own_version=kubesched.__version__,
        )
        build.count_registered(metrics.groups, metrics.disabled)


def _sync_problem(candidate: LeaseCandidateRenewer) -> str | None:
    if candidate.has_synced:
        return None
    return "1 informers not started yet: [*v1beta1.LeaseCandidate]"


class _Tasks(contextlib.AsyncExitStack):
    """Tasks that are cancelled at the end of the block."""

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self.push_async_callback(_cancel, task)
        return task


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _is_over(task: asyncio.Task[None] | None) -> bool:
    return task is not None and task.done()
