"""One run: the plan's cluster, the phase with faults, the quiet phase after it, and the checks.

Everything is real but sockets and time: schedulers, elections, HTTP clients, server, store,
controllers and kubelets. The invariants are checked on the store's history with each change, on
each decision when it is made, and at the end by recounting.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import json
import logging
import os
import random
import signal
import tempfile
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.cluster.apiserver.store.persistence import DataFile, open_store
from kubesched.cluster.apiserver.store.stored_records import StoredChange
from kubesched.cluster.controllers import Controllers, GarbageCollector
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.foundation.client import informer
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.scheduler.backend.queue import backoff_queue, requeue_decision, scheduling_queue
from kubesched.scheduler.config.feature_gates import FeatureGates
from tests.fault_injection.accounting_checks import event_differences, metric_differences
from tests.fault_injection.answer_checks import answer_differences
from tests.fault_injection.approving_plugin import ApprovingPlugin
from tests.fault_injection.fault_injector import FaultInjector
from tests.fault_injection.faulty_extender import FaultyExtender
from tests.fault_injection.faulty_plugin import faulty_plugin
from tests.fault_injection.fresh_scheduler import FreshScheduler, pod_conditions
from tests.fault_injection.generated_objects import SECOND_PROFILE
from tests.fault_injection.history_checks import HistoryChecker
from tests.fault_injection.message_checks import counts_add_up, sorted_words
from tests.fault_injection.plan import FAULTS_END, Plan, Step
from tests.fault_injection.pod_location_checks import PodLocationChecker
from tests.fault_injection.replica import Replica, ReplicaProcess, record_tasks_by_process
from tests.fault_injection.scenario_parts import PAGE_SIZE
from tests.fault_injection.scenario_runner import ScenarioRunner
from tests.fault_injection.state_checks import state_differences, state_leaks, task_differences
from tests.fault_injection.table_sizes import count_table_entries, find_table_leaks
from tests.fault_injection.time_based_retries import retry_self_affine_pods
from tests.fault_injection.user_actions import UserActions
from tests.foundation.client.wire_network import Network

__all__ = ["Outcome", "run_plan"]

# Pauses before the checks whether the cluster is idle. A client detects a stalled watch within ten
# minutes.
QUIET_PHASE_CHECKS_S = (90, 150, 240, 420)
_SETTLING_S = 15
# How long after the last fault an earlier request may still take effect.
_LAST_FAULT_EFFECT_S = 100
# How long an idle cluster is observed.
_IDLE_S = 20
# How often a waiting pod may be tried in that time: backoff lasts ten seconds.
_MOST_IDLE_ATTEMPTS = 3
_LONGEST_CPU_S = 20


class Outcome:
    """The outcome of a run: violations (none if all checks held), and a digest of placements."""

    def __init__(
        self,
        plan: Plan,
        violations: list[str],
        digest: str,
        log: list[str],
        faults: Counter[str],
    ) -> None:
        self.plan = plan
        self.faults = faults
        self.violations = violations
        self.digest = digest
        self.log = log


class _WatchedLog:
    """A log whose errors are bugs: the queue logs impossible states, and continues."""

    def __init__(self, log: Any, complaints: list[str]) -> None:
        self._log, self._complaints = log, complaints

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def error(self, message: str, **_fields: Any) -> None:
        self._complaints.append(f"the queue says: {message}")


class _TooLongError(KeyboardInterrupt):
    """A run took too long. No handler of plugin or task errors catches this class."""


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """End a run that loops at one instant of virtual time."""

    def give_up(*_: object) -> None:
        raise _TooLongError(f"the run took over {_LONGEST_CPU_S} s of CPU")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST_CPU_S, 5)
    try:
        yield
    except _TooLongError as error:
        raise RuntimeError(str(error)) from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run_plan(plan: Plan) -> Outcome:
    """Run a plan in virtual time, and return what the checks found."""
    logging.disable(logging.CRITICAL)
    was_collecting = gc.isenabled()
    gc.disable()  # a run ends before there is much to collect
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_bounded())
            stack.enter_context(mock.patch.object(informer, "_PAGE_SIZE", PAGE_SIZE))
            complaints: list[str] = []
            for module in (requeue_decision, scheduling_queue, backoff_queue):
                watched = mock.patch.object(module, "log", _WatchedLog(module.log, complaints))
                stack.enter_context(watched)
            if plan.in_file:
                # A store that reads its data file draws uids from here. A run must be repeatable.
                chance = random.Random(f"urandom/{plan.seed}")
                stack.enter_context(mock.patch.object(os, "urandom", chance.randbytes))
            outcome = virtual_loop.run(lambda: Run(plan).main(), seed=plan.seed)
            outcome.violations.extend(complaints)
            return outcome
    finally:
        logging.disable(logging.NOTSET)
        if was_collecting:
            gc.enable()


class Run:
    """The cluster of one plan, with its faults and its checks."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.violations: list[str] = []
        self.log: list[str] = []
        self.is_injecting = True
        self.is_fault_free = not plan.plugin and not any(
            step.what not in _USER_ACTIONS for step in plan.steps
        )
        self.clock = current_clock()
        self._data: DataFile | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.history = HistoryChecker(
            lambda: self.network.store,
            self._process_of,
            lambda: self.network.acting,
            self._report,
            self._log,
        )
        self.network = Network(self._first_store())
        self.calm = LocalApi(self.network.store, self.clock)
        self.users = UserActions(plan, self.calm, lambda: self.fault_injector)
        # Caches hold plugin classes for long, and these must not keep the whole run in memory.
        this = weakref.ref(self)

        def is_injecting() -> bool:
            run = this()
            return run is not None and run.is_injecting

        self._extender = FaultyExtender(plan.seed, is_injecting)

        def report(text: str) -> None:
            if (run := this()) is not None:
                run._report(text)

        self._faulty_plugin = faulty_plugin(plan.plugin, plan.seed, is_injecting, report)
        rng = random.Random(f"replicas/{plan.seed}")
        self.replicas = [
            Replica(
                self.network,
                number,
                self._options,
                rate=rng.uniform(0.95, 1.05) if plan.drift else 1.0,
                retry_s=plan.retry_s,
                on_decision=self.history.on_decision,
                on_attempt=self.history.on_attempt,
                on_group_attempt=self.history.on_group_attempt,
                on_no_fit=self.history.on_no_fit,
                on_eviction=self.history.on_eviction,
                on_eviction_failed=self.history.on_eviction_failed,
                on_violation=self._report,
            )
            for number in range(plan.replicas)
        ]
        restart = self._restart if plan.in_file else None
        self.fault_injector = FaultInjector(self.network, self.replicas, restart)
        self._pod_locations = PodLocationChecker()
        self._scenario_runner = ScenarioRunner(self._leading, self._report, self._log)
        self.network.on_connecting = self.fault_injector.on_connecting_request
        self.network.on_sent = self._sent
        self.network.on_applied = self._applied
        self.network.on_answered = self.history.on_answer
        self._cluster: asyncio.Task[None] | None = None

    def _options(self) -> dict[str, Any]:
        """Return the options of each scheduler of this run."""
        plan = self.plan
        plugins = ("Faulty", ApprovingPlugin.name) if plan.plugin else ()
        multi_point = {"enabled": [{"name": name} for name in plugins]}
        profiles: list[dict[str, Any]] = [
            {"schedulerName": "default-scheduler", "plugins": {"multiPoint": multi_point}}
        ]
        if plan.profiles > 1:
            strategy = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
            args = {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}
            packing = {"schedulerName": SECOND_PROFILE, "pluginConfig": [args]}
            profiles.append({**profiles[0], **packing})
        options: dict[str, Any] = {"profiles": profiles, "verify_engine": plan.verifies}
        if plan.plugin:
            options["out_of_tree_registry"] = {
                "Faulty": self._faulty_plugin,
                ApprovingPlugin.name: ApprovingPlugin,
            }
        if plan.groups:
            gates = {"GenericWorkload": True, "GangScheduling": True}
            # There are no priorities in these plans. `gang_scenarios` has groups that preempt.
            for gate in ("TopologyAwareWorkloadScheduling", "WorkloadAwarePreemption"):
                gates[gate] = bool(plan.seed % 2)
            options["feature_gates"] = FeatureGates(gates)
        if plan.extender:
            options["extenders"] = [self._extender.extender_settings()]
            options["extender_transport"] = self._extender.transport
        # A pod whose Permit timed out is requeued only by the flush or by another event.
        if not plan.flushes and plan.plugin != "waits":
            options["pod_max_in_unschedulable_pods_duration"] = timedelta(hours=10)
        return options

    async def main(self) -> Outcome:
        record_tasks_by_process()
        async with self._running_cluster():
            await self.users.prepare()
            replicas = [asyncio.create_task(replica.run()) for replica in self.replicas]
            try:
                for step in self.plan.steps:
                    await self._run_step(step)
                await self._end_fault_phase()
                await self._wait_until_idle()
            finally:
                for task in replicas:
                    task.cancel()
                for ended in await asyncio.gather(*replicas, return_exceptions=True):
                    if not isinstance(ended, asyncio.CancelledError):
                        self._report(f"a replica ended: {ended!r}")
        for replica in self.replicas:
            for failure in replica.failures:
                self._report(f"a scheduler died: {failure!r}")
        self.network.go_down()  # which cancels requests that no client awaits any more
        await asyncio.sleep(1)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if left:
            self._report(f"{len(left)} tasks are left: {left[0].get_name()}")
        faults = self.fault_injector.faults + self.network.faults
        return Outcome(self.plan, self.violations, self._digest(), self.log, faults)

    async def _run_step(self, step: Step) -> None:
        if step.what == "scenario":
            await self._scenario_runner.run(step, self.users.scenario(step), self.network.store)
            return
        if step.what == FAULTS_END:
            await self._end_fault_phase()
        else:
            self._log(f"{step.what} {step.name}")
            if not await self.users.step(step):
                await self.fault_injector.inject(step)
        await asyncio.sleep(step.pause_s)
        for process in self._leading():
            for problem in self._pod_locations.look(process, self.clock.monotonic_ns()):
                self._report(problem)

    async def _end_fault_phase(self) -> None:
        if not self.is_injecting:
            return
        self._log(FAULTS_END)
        self.fault_injector.stop_faults()
        self.is_injecting = False
        asyncio.get_running_loop().call_later(_LAST_FAULT_EFFECT_S, self._begin_quiet_phase)
        if self.plan.plugin == "declines":
            await self.users.open()

    def _begin_quiet_phase(self) -> None:
        self.history.is_quiet = True

    def _leading(self) -> list[ReplicaProcess]:
        return [each.process for each in self.replicas if each.process and each.process.is_leading]

    # The server and the parts around it

    def _first_store(self) -> Store:
        rng = random.Random(self.plan.seed)
        if not self.plan.in_file:
            return Store(rng, now_ns=self.clock.now_ns(), on_change=self.history.on_change)
        self._folder = tempfile.TemporaryDirectory(prefix="fault-injection-")
        return self._open(rng)

    def _open(self, rng: random.Random) -> Store:
        assert self._folder is not None
        data = self._data = DataFile(Path(self._folder.name) / "cluster.db")

        def changed(change: StoredChange) -> None:
            data.write(change)
            self.history.on_change(change)

        store = open_store(data, rng, self.clock.now_ns())
        store._on_change = changed
        return store

    async def _restart(self) -> None:
        """End the server's process, and start another one with its data file."""
        assert self._data is not None
        await self._stop_cluster()
        store = self.network.store
        before = _content(store), store.revision
        self._data.close()
        self.network.restart_on(self._open(random.Random(self.plan.seed)))
        if (_content(self.network.store), self.network.store.revision) != before:
            self._report("the store differs from what it was before the restart")
        self.calm = self.users.api = LocalApi(self.network.store, self.clock)
        self._cluster = asyncio.create_task(self._run_cluster())

    @contextlib.asynccontextmanager
    async def _running_cluster(self) -> AsyncIterator[None]:
        self._cluster = asyncio.create_task(self._run_cluster())
        try:
            yield
        finally:
            await self._stop_cluster()
            if self._data is not None and self._folder is not None:
                self._data.close()
                self._folder.cleanup()

    async def _run_cluster(self) -> None:
        store, clock = self.network.store, self.clock
        parts = (
            Controllers(self.calm, clock, has_pod_groups=self.plan.groups),
            FakeKubelet(self.calm, clock),
            GarbageCollector(store, clock),
        )
        async with running(*parts):
            await asyncio.Event().wait()

    async def _stop_cluster(self) -> None:
        if self._cluster is not None:
            self._cluster.cancel()
            await asyncio.gather(self._cluster, return_exceptions=True)

    # Observers

    def _process_of(self, name: str) -> ReplicaProcess | None:
        for replica in self.replicas:
            if replica.process is not None and replica.process.identity == name:
                return replica.process
        return None

    def _sent(self, name: str, request: OutgoingRequest) -> None:
        self.fault_injector.on_request(name, request, "sent")

    def _applied(self, name: str, request: OutgoingRequest, answer: ServerResponse) -> None:
        self.history.on_request_applied(name, request, answer)
        self.fault_injector.on_request(name, request, "applied")

    # The quiet phase

    async def _wait_until_idle(self) -> None:
        problems: list[str] = []
        for pause_s in QUIET_PHASE_CHECKS_S:
            for process in self._leading():
                retry_self_affine_pods(process.scheduler)
            await asyncio.sleep(pause_s)
            is_last = pause_s == QUIET_PHASE_CHECKS_S[-1]
            if self.plan.waits_full_quiet_phase and not is_last:
                continue
            problems = await self._problems(is_last=is_last)
            if not problems:
                problems = await self._idle_activity()
                break
        for process in self._leading():
            problems += answer_differences(process)
        for problem in problems:
            self._report(problem)

    async def _problems(self, *, is_last: bool) -> list[str]:
        """Return why the cluster is not idle, or not in the right state."""
        processes = [replica.process for replica in self.replicas if replica.process is not None]
        leaders = [process for process in processes if process.is_leading]
        if len(leaders) != 1:
            return [f"{len(leaders)} replicas lead in the quiet phase"]
        store = self.network.store
        problems: list[str] = []
        for process in processes if is_last else leaders:
            problems += state_differences(process.scheduler, store)
            problems += state_leaks(process.scheduler, store)
            names = [task.get_name() for task in process.tasks if not task.done()]
            problems += task_differences(process.scheduler, names)
            problems += metric_differences(process, self.history, is_quiet=self.is_fault_free)
        problems += self._pods_missing_a_fit(leaders[0])
        problems += event_differences(self.history, store, is_quiet=self.is_fault_free)
        if problems and not is_last:
            return problems
        return problems + await self._fresh_scheduler_differences(leaders[0])

    async def _idle_activity(self) -> list[str]:
        """Return what schedulers do although nothing changes any more."""
        processes = [replica.process for replica in self.replicas if replica.process is not None]
        sent, popped = len(self.network.requests), [process.popped for process in processes]
        there = self._on_nodes()
        await asyncio.sleep(_IDLE_S)
        if not there <= self._on_nodes():
            return []  # a pod completed, and its room is available to others
        # A retry that fails may write its message with the reasons in another order.
        failing = {
            f"/pods/{pod.metadata.name}/status"
            for process in processes
            for pod in (*process.scheduler.queue.backoff_pods, *process.scheduler.queue.active_pods)
        }
        problems = [
            f"{name} sends {request.method} {request.target} when idle"
            for name, request in self.network.requests[sent:]
            if not name.startswith("lease ")
            and "/events" not in request.target
            and "watch=" not in request.target
            and not any(part in request.target for part in failing)
        ]
        for process, before in zip(processes, popped, strict=True):
            # Members of groups, and pods whose attempt failed, are retried after their backoff.
            most = _MOST_IDLE_ATTEMPTS * len(process.scheduler.queue.pending_pods()[0])
            if process.popped - before > most:
                problems.append(f"{process.popped - before} attempts although nothing changes")
            if process.is_leading:  # all waiting pods were tried since the last recount
                problems += state_differences(process.scheduler, self.network.store)
                problems += state_leaks(process.scheduler, self.network.store)
        return problems

    def _on_nodes(self) -> set[str]:
        """Return the uids of pods that are on nodes and have not completed."""
        return {
            pod["metadata"]["uid"]
            for pod in self.network.store.all("pods")
            if pod["spec"].get("nodeName") and pod["status"]["phase"] not in ("Succeeded", "Failed")
        }

    def _pods_missing_a_fit(self, leader: ReplicaProcess) -> Iterator[str]:
        """Return the waiting pods for which the placement oracle accepts a node."""
        for pod in leader.scheduler.queue.pending_pods()[0]:
            if pod.spec.scheduling_gates:
                continue
            if node := self.history.find_fitting_node(leader, pod):
                yield f"pod {pod.metadata.name} waits, and the oracle accepts {node}"

    async def _fresh_scheduler_differences(self, leader: ReplicaProcess) -> list[str]:
        fresh = FreshScheduler(self.network.store, self.clock, self._options())
        await fresh.run()
        if fresh.evicts:
            # Queueing hints decide whether a pod may fit, not whether preemption may help it. As
            # in the reference, such a pod may have to wait until all waiting pods are retried.
            await self._retry_all_pods(leader)
            fresh = FreshScheduler(self.network.store, self.clock, self._options())
            await fresh.run()
        if fresh.writes:
            return fresh.writes
        # Nothing is left to do. Every waiting pod gets a new message.
        await self._retry_all_pods(leader)
        actual, expected = pod_conditions(self.network.store), pod_conditions(fresh.store)
        for each in actual, expected:
            for name in [name for name in each if self.history.is_member(name)]:
                del each[name]  # which members of a group have a node depends on the order
        leaked = find_table_leaks(count_table_entries(leader.scheduler), fresh.sizes)
        false_messages = [
            f"pod {pod.metadata.name} has the message {actual[pod.metadata.name][2]!r}, and {text}"
            for pod in leader.scheduler.queue.pending_pods()[0]
            if pod.metadata.name in actual
            for text in self.history.false_statements(leader, pod, actual[pod.metadata.name][2])
        ]
        return (
            false_messages
            + [
                f"the message of pod {name} does not account for all nodes: {message}"
                for name, (_, _, message) in actual.items()
                if not counts_add_up(message)
            ]
            + [
                f"the condition of pod {name} is {actual.get(name)}, not {expected.get(name)}"
                for name in sorted(actual.keys() | expected.keys())
                if sorted_words(actual.get(name)) != sorted_words(expected.get(name))
            ]
            + list(leaked)
        )

    async def _retry_all_pods(self, leader: ReplicaProcess) -> None:
        queue = leader.scheduler.queue
        pods = {f"default/{pod.metadata.name}": pod for pod in queue.pending_pods()[0]}
        queue.activate(pods, self.clock.now_ns())
        await asyncio.sleep(_SETTLING_S)

    def _report(self, text: str) -> None:
        self._log(f"VIOLATION: {text}")
        self.violations.append(text)

    def _log(self, text: str) -> None:
        seconds = self.clock.monotonic_ns() / SECOND
        self.log.append(f"{seconds:9.3f} s  {text}")

    def _digest(self) -> str:
        pods = sorted(
            (pod["metadata"]["name"], pod["spec"].get("nodeName", ""))
            for pod in self.network.store.all("pods")
        )
        text = json.dumps([pods, sorted(self.violations)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _content(store: Store) -> dict[tuple[str, str], bytes]:
    return {
        (resource.group_resource, record.key): msgspec.json.encode(record.data)
        for resource in store.catalog.all()
        for record in store.collection(resource).objects.values()
    }


_USER_ACTIONS = (
    "create group",
    "create pod",
    "delete pod",
    "remake pod",
    "change pod",
    "bind pod",
    "change node",
    "replace node",
    "scale",
    "scenario",
    FAULTS_END,
)
