"""One run: the unmodified scheduler, store, controllers and kubelets in virtual time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from kubesched.api import ApiError, Job, Node, Pod, PodGroup
from kubesched.api.base import ApiObject
from kubesched.cluster.apiserver import Faults
from kubesched.cluster.apiserver.rules.strategies.server_features import (
    ALL_FEATURES,
    POD_GROUPS,
    SWITCHED_FEATURES,
)
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.stored_records import StoredChange
from kubesched.cluster.controllers import GarbageCollector
from kubesched.cluster.embedded_cluster import ClusterPart, EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.nodes.behavior_rules import parse_behavior_rules
from kubesched.cluster.nodes.pod_behavior import Behavior, behavior_of
from kubesched.cluster.takeover import Identity
from kubesched.errors import KubeschedError
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import Clock, current_clock
from kubesched.foundation.util.components import Component
from kubesched.foundation.util.randomness import derive
from kubesched.framework import Status
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins
from kubesched.sim.autoscaling import GroupAutoscaler
from kubesched.sim.node_events import NodeEvents
from kubesched.sim.observer import Observer
from kubesched.sim.pod_arrivals import PodArrivals
from kubesched.sim.results import RunResult
from kubesched.sim.sampling import Series, momentary, sample
from kubesched.sim.scenario import WORKLOAD_LABEL, Configuration, Scenario

__all__ = ["Simulation", "simulate"]


def simulate(
    scenario: Scenario,
    configuration: Configuration,
    seed: int,
    *,
    window: tuple[int, int] | None = None,
    until_ns: int | None = None,
    faults: Callable[[Simulation], Faults] | None = None,
    history: Callable[[str, Node | Pod, int], None] | None = None,
) -> tuple[RunResult, Simulation]:
    """Run a scenario once, to its end or until `until_ns`.

    The result depends on the scenario, the configuration and the seed alone, except for the elapsed
    seconds. Decisions within the `window`, in nanoseconds from the start, are stored. `history` is
    called with every change of a node or pod: the type of event, the object, the time.

    Raises:
        KubeschedError: the configuration is invalid, or the server refuses an object.
    """
    began = time.process_time()
    until_ns = scenario.duration_ns if until_ns is None else min(until_ns, scenario.duration_ns)

    async def main() -> Simulation:
        simulation = Simulation(scenario, configuration, seed, window=window, faults=faults)
        simulation.history = history
        await simulation.run(until_ns)
        return simulation

    try:
        simulation = virtual_loop.run(main, start_ns=scenario.start_ns, seed=seed)
    except BaseExceptionGroup as group:
        raise _first_of(group) from group
    seconds = time.process_time() - began
    return simulation.result(until_ns, seconds), simulation


def _first_of(group: BaseExceptionGroup[Any]) -> BaseException:
    """Return the first error that a user can act on; the group itself if it contains a bug."""
    expected, bugs = group.split(KubeschedError)
    if expected is None or bugs is not None:
        return group
    error: BaseException = expected
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Simulation:
    """A live cluster with the workloads, node events and measurements of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        configuration: Configuration,
        seed: int,
        *,
        window: tuple[int, int] | None = None,
        faults: Callable[[Simulation], Faults] | None = None,
    ) -> None:
        self.scenario, self.configuration, self.seed = scenario, configuration, seed
        self.clock: Clock = current_clock()
        self.parts: list[Component] = []
        self._is_following = False
        self._over: list[Pod | Job | PodGroup] = []  # ended, to be deleted
        self._has_ended = asyncio.Event()
        self._read: dict[Collection, int] = {}  # positions that all watchers have read
        gates = FeatureGates(configuration.feature_gates)
        features = ALL_FEATURES | {each for each in SWITCHED_FEATURES if gates.enabled(each)}
        parts = ClusterPart.NODES | ClusterPart.CONTROLLERS
        if gates.enabled(POD_GROUPS) or any(each.pod_group for each in scenario.workloads):
            # Otherwise no controller is added: digests depend on the order of tasks.
            parts |= ClusterPart.POD_GROUPS
        embedded = EmbeddedCluster(
            self.clock,
            derive(seed, "store"),
            with_initial_objects=False,
            heartbeats=False,
            behavior=self._behavior(),
            start_delay_ns=scenario.behaviour.start_delay_ns,
            stop_delay_ns=scenario.behaviour.stop_delay_ns,
            features=features,
            parts=parts,
            on_change=self._on_change,
            faults=None if faults is None else faults(self),
        )
        self.store, self.api = embedded.store, embedded.api
        self.observer = Observer(scenario.start_ns, window)
        self.series = Series()
        self.changes = Series()
        self._plugins = out_of_tree_plugins(configuration.plugins)
        self.cluster = LiveCluster(
            embedded,
            configuration=configuration.configuration,
            feature_gates=gates,
            out_of_tree_registry=dict(self._plugins),
            seed=seed,
            broadcaster=_DiscardedEvents(),
        )
        self.cluster.serve_custom_kinds()
        failures = _Failures(self.observer, self.clock)
        self.cluster.watch_scheduler(lambda scheduler: scheduler.watch_failures(failures))
        self.history: Callable[[str, Node | Pod, int], None] | None = None

    async def run(self, until_ns: int) -> None:
        """Create the objects of the scenario, and run the cluster until `until_ns`."""
        scenario = self.scenario
        node_events = NodeEvents(self.api, self.clock, scenario, self.seed)
        await self.cluster.take_over(scenario.objects, Identity.NEW)
        await node_events.create_groups()
        self._begin_following()
        arrivals = PodArrivals(self.api, self.clock, scenario, self.seed)
        scalers = [
            GroupAutoscaler(self.api, self.clock, each, node_events, self.observer)
            for each in scenario.autoscalers
        ]
        collector: list[Component] = []
        if scenario.objects or any(each.kind != "Pod" for each in scenario.workloads):
            # Some object may have an owner. It starts last: digests depend on the order of tasks.
            collector = [GarbageCollector(self.store, self.clock)]
        self.parts = [*self.cluster.cluster.parts, self.cluster.scheduler, *collector]
        async with self.cluster.running(after=collector), asyncio.TaskGroup() as tasks:
            helpers = [tasks.create_task(self._collect_all(), name="sim.collect")]
            await self.cluster.scheduler.informers.wait_for_sync()
            helpers += [
                tasks.create_task(each, name="sim.pod_arrivals") for each in arrivals.streams()
            ]
            helpers.append(tasks.create_task(node_events.run(), name="sim.node_events"))
            helpers += [tasks.create_task(each.run(), name="sim.scale") for each in scalers]
            await self._sample_until(until_ns)
            for helper in helpers:
                helper.cancel()

    def _behavior(self) -> Callable[[Pod], Behavior]:
        rules = self.scenario.behaviour.rules
        return parse_behavior_rules(rules, self.seed) if rules else behavior_of

    # -- watching ----------------------------------------------------------------------

    def _begin_following(self) -> None:
        """Note all existing objects, and from now on every change."""
        for kind in (Node, Pod, Job, PodGroup):
            collection = self.store.collection(self.store.catalog.by_type(kind))
            for key in sorted(collection.objects):
                self._note("ADDED", collection.objects[key].typed)
        self._is_following = True

    def _on_change(self, change: StoredChange) -> None:
        if not self._is_following:
            return
        kind = change.record.resource.type
        if kind is Pod:
            self._note_pod(change.type, change.record.typed)
        elif kind is Node or kind is Job or kind is PodGroup:
            self._note(change.type, change.record.typed)

    def _note(self, kind: str, subject: Pod | Node | Job | PodGroup) -> None:
        if isinstance(subject, Pod):
            self._note_pod(kind, subject)
        elif isinstance(subject, PodGroup):
            if kind == "ADDED":
                self.observer.group_changed(subject, self.clock.now_ns())
        elif isinstance(subject, Node):
            if self.history is not None:
                self.history(kind, subject, self.clock.now_ns())
            if kind == "DELETED":
                self.observer.node_deleted(subject.metadata.name, self.clock.now_ns())
            else:
                self.observer.node_changed(subject, self.clock.now_ns())
        elif kind != "DELETED" and _is_over(subject):
            self._collect_later(subject)

    def _note_pod(self, kind: str, pod: Pod) -> None:
        now_ns = self.clock.now_ns()
        if self.history is not None:
            self.history(kind, pod, now_ns)
        if kind == "DELETED":
            self.observer.pod_deleted(pod, now_ns)
            self._collect_group(pod)
        else:
            self.observer.pod_changed(pod, now_ns)
            if pod.status.phase in ("Succeeded", "Failed") and not pod.metadata.owner_references:
                self._collect_later(pod)
        if self.scenario.changes:
            self.changes.add(momentary(self.observer, now_ns, self.scenario.start_ns), "")

    def _collect_later(self, over: Pod | Job | PodGroup) -> None:
        if over.metadata.deletion_timestamp is None:
            self._over.append(over)
            self._has_ended.set()

    def _collect_group(self, deleted: Pod) -> None:
        """Delete the PodGroup of a workload after its last pod."""
        name, namespace = group_name_of(deleted), deleted.metadata.namespace
        if not name or self.observer.groups.has_pods(f"{namespace}/{name}"):
            return
        resource = self.store.catalog.by_type(PodGroup)
        record = self.store.find_record(resource, namespace, name)
        if record is not None and WORKLOAD_LABEL in record.typed.metadata.labels:
            self._collect_later(record.typed)

    async def _collect_all(self) -> None:
        """Delete ended pods and Jobs, as the garbage collection of a cluster does eventually."""
        while True:
            await self._has_ended.wait()
            self._has_ended.clear()
            over, self._over = self._over, []
            for each in over:
                await self._collect(each)

    async def _collect(self, over: Pod | Job | PodGroup) -> None:
        metadata = over.metadata
        grace = {"grace_period_seconds": 0} if isinstance(over, Pod) else {}
        try:
            await self.api.delete(
                type(over), metadata.name, metadata.namespace, uid=metadata.uid, **grace
            )
        except ApiError as error:
            if error.code not in (404, 409):
                raise

    async def _sample_until(self, until_ns: int) -> None:
        start_ns, step_ns = self.scenario.start_ns, self.scenario.step_ns
        next_ns = step_ns
        while True:
            due_ns = min(next_ns, until_ns)
            await self.clock.sleep(start_ns + due_ns - self.clock.now_ns())
            row = sample(self.observer, start_ns + due_ns, start_ns, self.scenario.prices)
            self.series.add(row, self.observer.digest)
            self._drop_read_changes()
            if due_ns >= until_ns:
                return
            next_ns += step_ns

    def _drop_read_changes(self) -> None:
        """Drop changes that every watcher has read.

        All watchers are in this process, and virtual time does not pass until they have read.
        """
        for collection, position in self._read.items():
            collection.drop_before(position)
        collections = map(self.store.collection, self.store.catalog.all())
        self._read = {collection: collection.end for collection in collections}

    def result(self, until_ns: int, seconds: float) -> RunResult:
        """Return the result of the run."""
        return RunResult.of(
            self.scenario,
            self.configuration.name,
            self.seed,
            self.observer,
            self.series,
            self.changes,
            until_ns,
            seconds,
        )


def _is_over(job: Job) -> bool:
    return any(
        each.type in ("Complete", "Failed") and each.status == "True"
        for each in job.status.conditions
    )


class _Failures:
    """Passes the scheduler's failures to the observer (a `FailureWatcher`)."""

    def __init__(self, observer: Observer, clock: Clock) -> None:
        self._observer, self._clock = observer, clock

    def failed(self, pod: Pod, status: Status) -> None:
        self._observer.attempt_failed(pod.metadata.uid, status, self._clock.now_ns())


class _DiscardedEvents:
    """A broadcaster that writes no events: a simulation reads none."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    def recorder(self, controller: str, hostname: str) -> _DiscardedEvents:  # noqa: ARG002
        return self

    def event(
        self,
        regarding: ApiObject,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ApiObject | None = None,
    ) -> None:
        """Discard the event."""

    async def run(self) -> None:
        await self._stopping.wait()

    def stop(self) -> None:
        self._stopping.set()
