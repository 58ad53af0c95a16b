"""A scheduler as a process of a control plane: set up, then run.

    docs/reference/02 §1.2, §1.3, §1.5. caches sync -> ready -> lease -> placing pods

`SchedulerProcess` is built from a checked configuration and runs until it is told to stop or
loses its lease. What it may do to the cluster while it leads ends by itself: every write passes
the elector's fence right before it is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
from prometheus_client.registry import CollectorRegistry

import kubesched
from kubesched.api import Lease, Pod
from kubesched.cli.api_clients import ApiClients
from kubesched.cli.scheduler_explanations import SchedulerExplanations
from kubesched.dashboard.dashboard import Dashboard
from kubesched.dashboard.page_sources import dashboard_of_scheduler
from kubesched.explain.event_notes import EventNotes
from kubesched.foundation.client.core_event_recorder import CoreEventBroadcaster
from kubesched.foundation.client.event_recorder import Broadcaster, EventBroadcaster
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.leader_election import ElectionSettings, LeaderElector
from kubesched.foundation.metrics.client_metrics import ClientMetrics, LeaderElectionMetrics
from kubesched.foundation.metrics.process_metrics import BuildMetrics
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import MICROSECOND, Clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.log_output import LogFlusher
from kubesched.foundation.util.logging import get_logger
from kubesched.foundation.util.loop_watchdog import LoopWatchdog
from kubesched.foundation.util.memory_trimmer import MemoryTrimmer
from kubesched.foundation.util.randomness import derive
from kubesched.framework import FitError
from kubesched.scheduler.cache_debugger import log_state
from kubesched.scheduler.config.profiles import as_written
from kubesched.scheduler.config.versions import (
    BINARY_VERSION,
    KUBERNETES_VERSION,
    effective_version,
)
from kubesched.scheduler.config.write import versioned
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.server.endpoints.health import HealthCheck, SwitchCheck
from kubesched.scheduler.server.endpoints.http_messages import Request, Response, text_error
from kubesched.scheduler.server.endpoints.zpages import Versions
from kubesched.scheduler.server.options.process_config import ProcessConfig
from kubesched.scheduler.server.serving.secure_server import (
    Pages,
    SchedulerServer,
    ServingMetrics,
    build_access_control,
)

__all__ = ["ProcessInputs", "SchedulerProcess"]

log = get_logger(__name__)

T = TypeVar("T")

# How long bindings under way and queued events have after a signal.
_GRACE_S = 15.0


class ProcessInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line comes to, if there is nothing wrong with it."""

    config: ProcessConfig
    plugins: PluginRegistry
    flags: Mapping[str, str]


class SchedulerProcess:
    """Everything that runs in a scheduler's process."""

    def __init__(
        self,
        inputs: ProcessInputs,
        clock: Clock,
        seed: int,
        hostname: str,
        on_synced: Callable[[], None] = lambda: None,
    ) -> None:
        """Set up a process that calls `on_synced` when it knows the cluster, before it is ready.

        Raises ConfigError for a configuration that cannot be used after all.
        """
        self._inputs, self._clock, self._seed = inputs, clock, seed
        self._on_synced = on_synced
        self._config = inputs.config
        self._registry = CollectorRegistry()
        self._client_metrics = ClientMetrics(self._registry)
        self._election_metrics = LeaderElectionMetrics(self._registry)
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
        self._scheduler: Scheduler | None = None
        self._explanations = SchedulerExplanations(
            lambda: self._scheduler,
            self._config.configuration,
            clock,
            inputs.plugins,
            gates,
        )
        self._event_notes: EventNotes | None = None
        self._page: Dashboard | None = None
        self._stopping = asyncio.Event()
        self._may_place = asyncio.Event()
        self._leads = False
        self._shutdown = SwitchCheck("shutdown", "process is shutting down", is_fine=True)
        self._handler_sync = SwitchCheck(
            "sched-handler-sync", "handlers are not fully synchronized", is_fine=False
        )

    def stop(self) -> None:
        """End in an orderly way: what is under way is finished, the lease is released."""
        self._shutdown.is_fine = False
        self._stopping.set()

    def log_state(self) -> None:
        """Write cache and queue to the log, and where they differ from the informers."""
        if self._scheduler is not None and not self._stopping.is_set():
            log_state(self._scheduler)

    async def run(self) -> int:
        """Set up and run; return the exit code.

        Raises:
            KubeschedError: it cannot be set up, or the endpoints cannot be served.
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
        # The port is taken before anything is built, so that a second process ends here.
        server = await self._build_server()
        server_parts = () if server is None else (server,)
        watchdog = LoopWatchdog(while_stalled=None if server is None else server.answer_while)
        scheduler = self._scheduler = self._build_scheduler(
            main, await self._broadcaster(events, main)
        )
        if self._config.options.dashboard:
            self._page = dashboard_of_scheduler(
                scheduler,
                self._clock,
                title=f"scheduler on {self._hostname}",
                configuration=self._config.configuration,
                plugins=self._inputs.plugins,
                gates=self._config.gates,
            )
        log.info(
            "Starting Kubernetes Scheduler",
            version=KUBERNETES_VERSION,
            kubesched=f"v{kubesched.__version__}",
        )
        trimmer = MemoryTrimmer(self._clock)
        async with running(watchdog, trimmer, *self._log_flushers(), leader_events, *server_parts):
            code = await self._lead(scheduler)
        if code == 0:
            log.info("Requested to terminate, exiting")
        return code

    async def _lead(self, scheduler: Scheduler) -> int:
        """Sync, become leader if that is asked for, place pods; return the exit code."""
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
                self._may_place.set()
                over = None if self._elector is None else self._elector.over
                await self._first(leading, placing, over)
            return await self._end(scheduler, placing, leading)

    async def _end(
        self,
        scheduler: Scheduler,
        placing: asyncio.Task[None] | None,
        leading: asyncio.Task[None] | None,
    ) -> int:
        if leading is not None and self._has_lost() and not self._stopping.is_set():
            # Whoever leads next must not meet our requests: they are abandoned, not awaited.
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
                placing.result()  # raises what ended it
        if self._elector is None:
            log.error("command failed", err="finished without leader elect")
            return 1
        if leading is not None:
            # Only now: nothing of ours is under way any more.
            self._elector.stop()
            await leading
        return 0 if self._stopping.is_set() else 1

    def _has_lost(self) -> bool:
        return self._elector is not None and self._elector.over.is_set()

    async def _first(self, *awaited: asyncio.Task[Any] | asyncio.Event | None) -> None:
        """Wait until one of these is over or set, or the process is told to stop."""
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

        return LeaderElector(
            self._clients.client("leader-election", timeout_ns=settings.request_timeout_ns),
            self._clock,
            derive(self._seed, "election"),
            settings,
            metrics=self._election_metrics,
            record=record,
        )

    async def _broadcaster(self, events: HttpApi, main: HttpApi) -> Broadcaster:
        random = derive(self._seed, "events")
        dropped = self._client_metrics.events_dropped_total.inc
        async with _Tasks() as tasks:
            asking = tasks.start(events.serves("events.k8s.io/v1"), "discovery")
            await self._first(asking)
            serves_events = asking.done() and asking.result()
        if serves_events:
            return EventBroadcaster(
                events, self._clock, random, is_busy=lambda: main.is_writing, on_drop=dropped
            )
        return CoreEventBroadcaster(events, self._clock, random, on_drop=dropped)

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
            begins=self._may_place,
            verify_engine=config.options.verify_engine,
            failure_note=self._failure_note if config.options.explain_events else None,
            stream_lists=config.gates.enabled("WatchListClient"),
            share_parts=True,
            may_act=None if self._elector is None else self._elector.may_act,
        )

    def _failure_note(self, attempt: Attempt, error: FitError) -> str:
        assert self._scheduler is not None, "no attempt is made before there is one"
        if self._event_notes is None:
            self._event_notes = EventNotes(
                self._scheduler.informers.lister, self._scheduler.cache.snapshot, self._clock
            )
        return self._event_notes.note(attempt.queued.pod_info, error.diagnosis)

    async def _build_server(self) -> SchedulerServer | None:
        options = self._config.options
        if options.secure_serving.port == 0:
            return None
        metrics = ServingMetrics(
            self._registry,
            (self._scheduler_metrics, self._client_metrics, self._election_metrics),
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

    def _pages(self) -> Pages:
        config, gates = self._config, self._config.gates
        version = effective_version(
            config.options.emulated_version, config.options.min_compatibility_version
        )
        configuration = config.configuration
        if log.enabled(2):
            # As in the reference, which sorts out the arguments only to write them.
            configuration = as_written(configuration)
        shown = versioned(configuration)
        elected = [HealthCheck("leaderElection", lambda: None)] if self._elector else []
        return Pages(
            configuration=lambda: shown,
            flags=self._inputs.flags,
            versions=Versions(
                binary=KUBERNETES_VERSION.removeprefix("v"),
                emulation=str(version.emulation),
                runtime=f"{platform.python_implementation()} {platform.python_version()}",
                implementation=f"kubesched {kubesched.__version__}",
            ),
            healthz=elected,
            readyz=(*elected, self._shutdown.as_check(), self._handler_sync.as_check()),
            pods=self._known_pods,
            is_leading=lambda: self._leads,
            profiling=config.configuration.enable_profiling,
            statusz=gates.enabled("ComponentStatusz"),
            flagz=gates.enabled("ComponentFlagz"),
            explanations=self._explanations,
            dashboard=self._show_page if config.options.dashboard else None,
        )

    async def _show_page(self, request: Request) -> Response:
        if self._page is None:
            return text_error("this process has not begun to schedule", 503)
        return await self._page.answer(request)

    def _known_pods(self) -> Iterable[Pod]:
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


class _Tasks(contextlib.AsyncExitStack):
    """Tasks that end with the block, whatever they are at."""

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=name)
        self.push_async_callback(_cancel, task)
        return task


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _is_over(task: asyncio.Task[None] | None) -> bool:
    return task is not None and task.done()
