"""One run: the plan's cluster, its storm, the calm after it, and what must hold.

Everything is real but sockets and time: schedulers, elections, HTTP clients, server, store,
controllers and kubelets. What must hold is checked on the store's own history while it happens, on
each decision in the moment in which it is made, and at the end by recounts.
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
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.scheduler.config.feature_gates import FeatureGates
from tests.foundation.client.wire_network import Network
from tests.torture.accounting import event_differences, metric_differences
from tests.torture.cluster_plan import STORM_ENDS, Plan, Step
from tests.torture.history import History
from tests.torture.left_to_time import flush
from tests.torture.moody_extender import MoodyExtender
from tests.torture.newborn import Newborn, conditions
from tests.torture.objects import SECOND_PROFILE
from tests.torture.odd_plugin import odd_plugin
from tests.torture.posing import Posing
from tests.torture.recount import differences, leaks, task_differences
from tests.torture.replica import Life, Replica, follow_tasks
from tests.torture.second_look import answer_differences
from tests.torture.tables import table_leaks, table_sizes
from tests.torture.truth import adds_up, unordered
from tests.torture.users import Users
from tests.torture.weather import Weather
from tests.torture.whereabouts import Whereabouts

__all__ = ["Outcome", "run_plan"]

CALM_S = (90, 150, 240, 420)
"""When to look whether the world is at rest. A watch that stalls is noticed within ten minutes."""
_SETTLING_S = 15
_LAST_THUNDER_S = 100
"""When nothing that was sent in the storm is under way any more."""
_STILL_S = 20
"""For how long nothing may happen at rest."""
_MOST_TRIES = 3
"""How often a pod may be tried then: backoff lasts ten seconds."""
_LONGEST_CPU_S = 20


class Outcome:
    """What came of a run: violations (none if all held), and a digest of where pods went."""

    def __init__(
        self,
        plan: Plan,
        violations: list[str],
        digest: str,
        story: list[str],
        faults: Counter[str],
    ) -> None:
        self.plan = plan
        self.faults = faults
        self.violations = violations
        self.digest = digest
        self.story = story


class _TooLongError(KeyboardInterrupt):
    """So that nobody takes it for an error of a plugin or a task."""


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """End what goes round in circles at one moment of virtual time."""

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
    logging.disable(logging.CRITICAL)
    was_collecting = gc.isenabled()
    gc.disable()  # a run is over before there is much to collect
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_bounded())
            if plan.in_file:
                # Uids of a store that was read back are drawn from it: a run is to repeat itself.
                chance = random.Random(f"urandom/{plan.seed}")
                stack.enter_context(mock.patch.object(os, "urandom", chance.randbytes))
            return virtual_loop.run(lambda: Run(plan).main(), seed=plan.seed)
    finally:
        logging.disable(logging.NOTSET)
        if was_collecting:
            gc.enable()


class Run:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.violations: list[str] = []
        self.story: list[str] = []
        self.is_storming = True
        self.is_calm_plan = not plan.plugin and not any(
            step.what not in _OF_USERS for step in plan.steps
        )
        self.clock = current_clock()
        self._data: DataFile | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self.history = History(
            lambda: self.network.store,
            self._life_of,
            lambda: self.network.acting,
            self._violated,
            self._tell,
        )
        self.network = Network(self._first_store())
        self.calm = LocalApi(self.network.store, self.clock)
        self.users = Users(plan, self.calm, lambda *what: self.weather.refuse(*what))
        # Plugin classes are kept by caches; what they refer to must not keep the whole run.
        this = weakref.ref(self)

        def is_storming() -> bool:
            run = this()
            return run is not None and run.is_storming

        self._extender = MoodyExtender(plan.seed, is_storming)
        self._odd = odd_plugin(plan.plugin, plan.seed, is_storming)
        dice = random.Random(f"replicas/{plan.seed}")
        self.replicas = [
            Replica(
                self.network,
                number,
                self._options,
                rate=dice.uniform(0.95, 1.05) if plan.drift else 1.0,
                retry_s=plan.retry_s,
                on_decision=self.history.decided,
                on_attempt=self.history.tried,
                on_taken=self.history.taken,
                on_refusal=self.history.refused,
                on_eviction=self.history.evicting,
                on_spared=self.history.spared,
                on_violation=self._violated,
            )
            for number in range(plan.replicas)
        ]
        restart = self._restart if plan.in_file else None
        self.weather = Weather(self.network, self.replicas, restart)
        self._whereabouts = Whereabouts()
        self._posing = Posing(self._leading, self._violated, self._tell)
        self.network.on_connecting = self.weather.connecting
        self.network.on_sent = self._sent
        self.network.on_applied = self._applied
        self.network.on_answered = self.history.answered
        self._cluster: asyncio.Task[None] | None = None

    def _options(self) -> dict[str, Any]:
        """What each scheduler of this run is built with."""
        plan = self.plan
        multi_point = {"enabled": [{"name": "Odd"}] if plan.plugin else []}
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
            options["out_of_tree_registry"] = {"Odd": self._odd}
        if plan.groups:
            options["feature_gates"] = FeatureGates(
                {"GenericWorkload": True, "GangScheduling": True}
            )
        if plan.extender:
            options["extenders"] = [self._extender.moody_settings()]
            options["extender_transport"] = self._extender.transport
        # Whom a plugin kept waiting in vain, only time or another event brings back.
        if not plan.flushes and plan.plugin != "waits":
            options["pod_max_in_unschedulable_pods_duration"] = timedelta(hours=10)
        return options

    async def main(self) -> Outcome:
        follow_tasks()
        async with self._living_cluster():
            await self.users.prepare()
            replicas = [asyncio.create_task(replica.run()) for replica in self.replicas]
            try:
                for step in self.plan.steps:
                    await self._take(step)
                await self._end_storm()
                await self._come_to_rest()
            finally:
                for task in replicas:
                    task.cancel()
                for ended in await asyncio.gather(*replicas, return_exceptions=True):
                    if not isinstance(ended, asyncio.CancelledError):
                        self._violated(f"a replica ended: {ended!r}")
        for replica in self.replicas:
            for death in replica.deaths:
                self._violated(f"a scheduler died: {death!r}")
        self.network.go_down()  # and with it what nobody waits for any more
        await asyncio.sleep(1)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if left:
            self._violated(f"{len(left)} tasks are left: {left[0].get_name()}")
        faults = self.weather.faults + self.network.faults
        return Outcome(self.plan, self.violations, self._digest(), self.story, faults)

    async def _take(self, step: Step) -> None:
        if step.what == "puzzle":
            await self._posing.pose(step, self.users.puzzle(step.number), self.network.store)
            return
        if step.what == STORM_ENDS:
            await self._end_storm()
        else:
            self._tell(f"{step.what} {step.name}")
            if not await self.users.step(step):
                await self.weather.change(step)
        await asyncio.sleep(step.pause_s)
        for life in self._leading():
            for problem in self._whereabouts.look(life, self.clock.monotonic_ns()):
                self._violated(problem)

    async def _end_storm(self) -> None:
        if not self.is_storming:
            return
        self._tell(STORM_ENDS)
        self.weather.calm_down()
        self.is_storming = False
        asyncio.get_running_loop().call_later(_LAST_THUNDER_S, self._be_calm)
        if self.plan.plugin == "declines":
            await self.users.open()

    def _be_calm(self) -> None:
        self.history.is_calm = True

    def _leading(self) -> list[Life]:
        return [each.life for each in self.replicas if each.life and each.life.is_leading]

    # The server and what belongs to it

    def _first_store(self) -> Store:
        dice = random.Random(self.plan.seed)
        if not self.plan.in_file:
            return Store(dice, now_ns=self.clock.now_ns(), on_change=self.history.changed)
        self._folder = tempfile.TemporaryDirectory(prefix="torture-")
        return self._open(dice)

    def _open(self, dice: random.Random) -> Store:
        assert self._folder is not None
        data = self._data = DataFile(Path(self._folder.name) / "cluster.db")

        def changed(change: StoredChange) -> None:
            data.write(change)
            self.history.changed(change)

        store = open_store(data, dice, self.clock.now_ns())
        store._on_change = changed
        return store

    async def _restart(self) -> None:
        """The server's process ends, and another begins with its file."""
        assert self._data is not None
        await self._stop_cluster()
        store = self.network.store
        before = _content(store), store.revision
        self._data.close()
        self.network.restart_on(self._open(random.Random(self.plan.seed)))
        if (_content(self.network.store), self.network.store.revision) != before:
            self._violated("the store is not what it was before it was read back")
        self.calm = self.users.api = LocalApi(self.network.store, self.clock)
        self._cluster = asyncio.create_task(self._run_cluster())

    @contextlib.asynccontextmanager
    async def _living_cluster(self) -> AsyncIterator[None]:
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

    # What is seen on the way

    def _life_of(self, name: str) -> Life | None:
        for replica in self.replicas:
            if replica.life is not None and replica.life.identity == name:
                return replica.life
        return None

    def _sent(self, name: str, request: OutgoingRequest) -> None:
        self.weather.saw(name, request, "sent")

    def _applied(self, name: str, request: OutgoingRequest, answer: ServerResponse) -> None:
        self.history.applied(name, request, answer)
        self.weather.saw(name, request, "applied")

    # Rest

    async def _come_to_rest(self) -> None:
        problems: list[str] = []
        for pause_s in CALM_S:
            for life in self._leading():
                flush(life.scheduler)
            await asyncio.sleep(pause_s)
            is_last = pause_s == CALM_S[-1]
            if self.plan.whole_calm and not is_last:
                continue
            problems = await self._problems(is_last=is_last)
            if not problems:
                problems = await self._unrest()
                break
        for life in self._leading():
            problems += answer_differences(life)
        for problem in problems:
            self._violated(problem)

    async def _problems(self, *, is_last: bool) -> list[str]:
        """What keeps the world from being at rest."""
        lives = [replica.life for replica in self.replicas if replica.life is not None]
        leaders = [life for life in lives if life.is_leading]
        if len(leaders) != 1:
            return [f"{len(leaders)} replicas lead after the storm"]
        store = self.network.store
        problems: list[str] = []
        for life in lives if is_last else leaders:
            problems += differences(life.scheduler, store)
            problems += leaks(life.scheduler, store)
            names = [task.get_name() for task in life.tasks if not task.done()]
            problems += task_differences(life.scheduler, names)
            problems += metric_differences(life, self.history, is_calm=self.is_calm_plan)
        problems += self._overlooked(leaders[0])
        problems += event_differences(self.history, store, is_calm=self.is_calm_plan)
        if problems and not is_last:
            return problems
        return problems + await self._what_a_newborn_finds(leaders[0])

    async def _unrest(self) -> list[str]:
        """What is done though nothing happens any more."""
        lives = [replica.life for replica in self.replicas if replica.life is not None]
        sent, popped = len(self.network.requests), [life.popped for life in lives]
        there = self._on_nodes()
        await asyncio.sleep(_STILL_S)
        if not there <= self._on_nodes():
            return []  # a pod ended by itself, and others may have its room
        # Whose attempt fails is tried again after a while, and may be told in another order why.
        failing = {
            f"/pods/{pod.metadata.name}/status"
            for life in lives
            for pod in (*life.scheduler.queue.backoff_pods, *life.scheduler.queue.active_pods)
        }
        problems = [
            f"{name} sends {request.method} {request.target} at rest"
            for name, request in self.network.requests[sent:]
            if not name.startswith("lease ")
            and "/events" not in request.target
            and "watch=" not in request.target
            and not any(part in request.target for part in failing)
        ]
        for life, before in zip(lives, popped, strict=True):
            # Members of groups, and pods whose attempt failed, are tried again after a while.
            most = _MOST_TRIES * len(life.scheduler.queue.pending_pods()[0])
            if life.popped - before > most:
                problems.append(f"{life.popped - before} attempts though nothing happens")
            if life.is_leading:  # all that wait were tried once more since the last recount
                problems += differences(life.scheduler, self.network.store)
                problems += leaks(life.scheduler, self.network.store)
        return problems

    def _on_nodes(self) -> set[str]:
        """Uids of pods that are on nodes and have not ended."""
        return {
            pod["metadata"]["uid"]
            for pod in self.network.store.all("pods")
            if pod["spec"].get("nodeName") and pod["status"]["phase"] not in ("Succeeded", "Failed")
        }

    def _overlooked(self, leader: Life) -> Iterator[str]:
        """Pods that wait though the judge sees a node for them."""
        for pod in leader.scheduler.queue.pending_pods()[0]:
            if pod.spec.scheduling_gates:
                continue
            if node := self.history.node_that_fits(leader, pod):
                yield f"pod {pod.metadata.name} fits {node}, as the judge says, and waits"

    async def _what_a_newborn_finds(self, leader: Life) -> list[str]:
        newborn = Newborn(self.network.store, self.clock, self._options())
        await newborn.run()
        if newborn.evicts:
            # Hints are about who fits, not about whom evictions would help: as in the reference
            # such a pod may have to wait until all that wait are tried again.
            await self._try_all_again(leader)
            newborn = Newborn(self.network.store, self.clock, self._options())
            await newborn.run()
        if newborn.deeds:
            return newborn.deeds
        # Nothing more can be done; now everybody is to say once more why.
        await self._try_all_again(leader)
        said, expected = conditions(self.network.store), conditions(newborn.store)
        for each in said, expected:
            for name in [name for name in each if self.history.is_member(name)]:
                del each[name]  # which of a group's members has a node depends on whose turn it was
        leaked = table_leaks(table_sizes(leader.scheduler), newborn.sizes)
        untrue = [
            f"pod {pod.metadata.name} says {said[pod.metadata.name][2]!r}, and {text}"
            for pod in leader.scheduler.queue.pending_pods()[0]
            if pod.metadata.name in said
            for text in self.history.untruths(leader, pod, said[pod.metadata.name][2])
        ]
        return (
            untrue
            + [
                f"pod {name} says what does not add up: {message}"
                for name, (_, _, message) in said.items()
                if not adds_up(message)
            ]
            + [
                f"pod {name} says {said.get(name)}, and it should be {expected.get(name)}"
                for name in sorted(said.keys() | expected.keys())
                if unordered(said.get(name)) != unordered(expected.get(name))
            ]
            + list(leaked)
        )

    async def _try_all_again(self, leader: Life) -> None:
        queue = leader.scheduler.queue
        pods = {f"default/{pod.metadata.name}": pod for pod in queue.pending_pods()[0]}
        queue.activate(pods, self.clock.now_ns())
        await asyncio.sleep(_SETTLING_S)

    def _violated(self, text: str) -> None:
        self._tell(f"VIOLATION: {text}")
        self.violations.append(text)

    def _tell(self, text: str) -> None:
        seconds = self.clock.monotonic_ns() / SECOND
        self.story.append(f"{seconds:9.3f} s  {text}")

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


_OF_USERS = (
    "create group",
    "create pod",
    "delete pod",
    "remake pod",
    "change pod",
    "bind pod",
    "change node",
    "replace node",
    "scale",
    "puzzle",
    STORM_ENDS,
)
