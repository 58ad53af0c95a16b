"""A replica: scheduler processes on one machine that lead, crash, pause and start again."""

from __future__ import annotations

import asyncio
import contextvars
import random
import weakref
from collections.abc import Callable
from typing import Any

from kubesched.api import Node, Pod
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.leader_election import ElectionSettings, LeaderElector
from kubesched.foundation.client.lease_fence import LeaseFence
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import FitError, Nominating, PodInfo, QueuedPodInfo, Status
from kubesched.scheduler.backend.queue.grouping_queue import GroupingQueue
from kubesched.scheduler.backend.queue.scheduling_queue import QueueName
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.scheduler import Scheduler
from tests.fault_injection.backoff_checks import BackoffChecker
from tests.fault_injection.informer_checks import InformerChecker
from tests.foundation.client.own_clock import OwnClock
from tests.foundation.client.wire_network import Machine, Network

__all__ = ["Replica", "ReplicaProcess", "record_tasks_by_process"]

_GRACE_S = 15  # the default of `kubesched run`
_process: contextvars.ContextVar[ReplicaProcess | None] = contextvars.ContextVar(
    "process", default=None
)


def record_tasks_by_process() -> None:
    """Record for each task the process that started it."""
    loop = asyncio.get_running_loop()
    factory: Any = loop.get_task_factory()

    def make(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        task = factory(loop, coro, **options)
        if (process := _process.get()) is not None:
            process.tasks.add(task)
        return task

    loop.set_task_factory(make)


class ReplicaProcess:
    """A scheduler process from its start to its end."""

    def __init__(self, identity: str, scheduler: Scheduler, machine: Machine) -> None:
        self.identity, self.scheduler, self.machine = identity, scheduler, machine
        self.is_leading = False
        self.fence: LeaseFence | None = None
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.popped = 0  # number of attempts that began
        self.attempted_pods: dict[str, Pod] = {}  # name -> the pod of its last attempt
        self.nominations: set[tuple[str, str]] = set()  # uid and node of decisions and nominations


class _FailedAttemptObserver:
    """Calls `on_no_fit` for each attempt that found no node."""

    def __init__(
        self, process: ReplicaProcess, on_no_fit: Callable[[ReplicaProcess, Pod], None]
    ) -> None:
        self._process, self._on_no_fit = weakref.ref(process), on_no_fit

    def decided(self, attempt: Attempt, status: Status, node_name: str, result: Any) -> None:
        process = self._process()
        if process is not None and isinstance(status.error, FitError):
            self._on_no_fit(process, attempt.queued.pod)


class Replica:
    """Runs one process after another until it is cancelled.

    `crash` kills the current process wherever it waits.
    """

    def __init__(
        self,
        network: Network,
        number: int,
        options: Callable[[], dict[str, Any]],
        *,
        rate: float = 1.0,
        retry_s: int = 2,
        on_decision: Callable[[ReplicaProcess, Pod], None] = lambda *_: None,
        on_attempt: Callable[[ReplicaProcess, Pod], None] = lambda *_: None,
        on_group_attempt: Callable[[ReplicaProcess, Pod], None] = lambda *_: None,
        on_no_fit: Callable[[ReplicaProcess, Pod], None] = lambda *_: None,
        on_violation: Callable[[str], None] = lambda _: None,
        on_eviction: Callable[[ReplicaProcess, str, str], None] = lambda *_: None,
        on_eviction_failed: Callable[[ReplicaProcess, str], None] = lambda *_: None,
    ) -> None:
        """`options` makes the options of a scheduler. The other callbacks get the process and:

        - `on_attempt`: a pod whose attempt begins;
        - `on_group_attempt`: a member that is tried together with another pod of its group;
        - `on_no_fit`: a pod that fits no node;
        - `on_decision`: a pod that gets a node;
        - `on_eviction`: name and uid of a pod that is about to be deleted;
        - `on_eviction_failed`: the uid of a pod whose deletion failed, or whose answer was lost.

        `on_violation` gets the text of a broken invariant.
        """
        self._on_violation = on_violation
        self._on_eviction, self._on_eviction_failed = on_eviction, on_eviction_failed
        self._on_group_attempt, self._on_no_fit = on_group_attempt, on_no_fit
        self._network, self._number, self._options = network, number, options
        self._retry_s, self._on_decision, self._on_attempt = retry_s, on_decision, on_attempt
        self.clock = OwnClock(network.clock, rate)
        self._rate = rate
        self._process_count = 0
        self.process: ReplicaProcess | None = None
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._ending = asyncio.Event()
        self.failures: list[BaseException] = []

    async def run(self) -> None:
        while True:
            self._process_count += 1
            await self._run_process(f"{self._number}-{self._process_count}")
            await asyncio.sleep(1)

    def _begin(self, identity: str) -> tuple[ReplicaProcess, LeaderElector, asyncio.Event]:
        settings = ElectionSettings(
            identity=identity,
            lease_duration_ns=(self._retry_s * 15 // 2) * SECOND,
            renew_deadline_ns=self._retry_s * 5 * SECOND,
            retry_period_ns=self._retry_s * SECOND,
        )
        machine = Machine(self.clock, self._rate, self.clock.awake)
        network = self._network
        lease = network.client(f"lease {identity}", machine, timeout_ns=settings.request_timeout_ns)
        elector = LeaderElector(lease, self.clock, random.Random(identity), settings)
        api = network.client(identity, machine, fence=elector.fence)
        begins = asyncio.Event()
        scheduler = Scheduler(
            api,
            self.clock,
            seed=self._number,
            begins=begins,
            stream_lists=True,
            may_act=elector.may_act,
            **self._options(),
        )
        process = ReplicaProcess(identity, scheduler, machine)
        process.fence = elector.fence
        self._attach_observers(process, api)
        return process, elector, begins

    def _attach_observers(self, process: ReplicaProcess, api: HttpApi) -> None:
        """Replace methods of a process's parts so that they call the observers."""
        cache, queue = process.scheduler.cache, process.scheduler.queue
        assume, pop, delete, bind = cache.assume_pod, queue.pop, api.delete, api.bind
        process.scheduler.watch(_FailedAttemptObserver(process, self._on_no_fit))
        for kind in (Pod, Node):
            InformerChecker(process.scheduler.informers.informer(kind), self._on_violation)
        nominate = queue.nominator.add_nominated_pod

        def assumed(pod_info: PodInfo) -> None:
            self._on_decision(process, pod_info.pod)
            assume(pod_info)

        def popped(*args: Any) -> Any:
            queued = pop(*args)
            if queued is not None:
                process.popped += 1
                self._on_attempt(process, queued.pod)
            return queued

        def nominated(pod_info: PodInfo, nominating: Nominating | None) -> None:
            if nominating is not None:
                process.nominations.add((pod_info.uid, nominating.node_name))
            nominate(pod_info, nominating)

        async def deleted(kind: type[Any], name: str, *args: Any, **options: Any) -> None:
            uid = options.get("uid", "")
            if kind is Pod:
                self._on_eviction(process, name, uid)
            try:
                await delete(kind, name, *args, **options)
            except BaseException:
                self._on_eviction_failed(process, uid)
                raise

        async def bound(namespace: str, name: str, uid: str, node: str) -> None:
            """Check when the request is sent: an earlier request may take effect later."""
            for framework in process.scheduler.profiles.values():
                if uid in getattr(framework.plugins.by_name.get("Faulty"), "refused", ()):
                    self._on_violation(f"{process.identity} binds {name}, which a plugin rejected")
            await bind(namespace, name, uid, node)

        api.bind = bound  # type: ignore[method-assign]
        api.delete = deleted  # type: ignore[method-assign]
        cache.assume_pod = assumed  # type: ignore[method-assign]
        queue.pop = popped  # type: ignore[method-assign]
        queue.nominator.add_nominated_pod = nominated  # type: ignore[method-assign]
        put_back, penalties = (
            queue.add_unschedulable_if_not_present,
            BackoffChecker(self._on_violation),
        )

        def came_back(queued: QueuedPodInfo, now_ns: int) -> QueueName:
            went_to = put_back(queued, now_ns)
            penalties.put_back(queued, went_to, now_ns)
            return went_to

        queue.add_unschedulable_if_not_present = came_back  # type: ignore[method-assign]
        if not isinstance(queue, GroupingQueue):
            return
        pop_specific = queue.pop_specific

        def taken(*args: Any) -> Any:
            """Pop a member of a group that is tried together with another member."""
            queued = pop_specific(*args)
            if queued is not None:
                process.popped += 1
                self._on_group_attempt(process, queued.pod)
            return queued

        queue.pop_specific = taken  # type: ignore[method-assign]

    async def _run_process(self, identity: str) -> None:
        process, elector, begins = self._begin(identity)
        self.process = process
        self._ending.clear()
        _process.set(process)
        placing = asyncio.create_task(process.scheduler.run(), name="placing")
        leading = asyncio.create_task(elector.run(), name="leading")
        self._tasks = (placing, leading)
        ending = asyncio.create_task(self._ending.wait(), name="asked to end")
        waiting = asyncio.create_task(elector.leading.wait(), name="waiting")
        over = asyncio.create_task(elector.over.wait(), name="over")
        try:
            await _first(waiting, ending, *self._tasks)
            if elector.leading.is_set() and not ending.done():
                process.is_leading = True
                begins.set()
                await _first(over, ending, placing)
            if not process.machine.is_dead:
                await self._shut_down(process, elector, is_lost=over.done())
        finally:
            process.is_leading = False
            tasks = (*self._tasks, ending, waiting, over)
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            self.failures += [
                each
                for each in ended
                if isinstance(each, BaseException) and not isinstance(each, asyncio.CancelledError)
            ]
            _process.set(None)
            names = sorted(task.get_name() for task in process.tasks if not task.done())
            if left := [name for name in names if name != "network"]:
                self.failures.append(RuntimeError(f"{left} outlived {identity}"))

    async def _shut_down(
        self, process: ReplicaProcess, elector: LeaderElector, *, is_lost: bool
    ) -> None:
        """Await bindings and events for a while, then release the lease.

        A process that lost the lease abandons the work in progress.
        """
        placing, leading = self._tasks
        if is_lost:
            placing.cancel()
        else:
            process.scheduler.stop()
            await asyncio.wait([placing], timeout=_GRACE_S)
            elector.stop()
        await asyncio.wait([leading])

    @property
    def lease_s(self) -> float:
        return self._retry_s * 7.5

    def end(self) -> None:
        """Let the process shut down and release the lease."""
        self._ending.set()

    def crash(self) -> None:
        """Kill the process: it sends nothing more, whatever its cleanup does."""
        if self.process is not None:
            self.process.machine.is_dead = True
        for task in self._tasks:
            task.cancel()


async def _first(*tasks: asyncio.Task[Any]) -> None:
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
