"""Runs attempts that wait for extenders as tasks, while the loop continues with other pods.

The reference blocks while it waits. Here an attempt delays only the pods that need one of the same
extenders: each extender is called for one pod at a time. Pods that no extender is interested in
never wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Sequence, Set

from kubesched.api import Node, Pod
from kubesched.foundation.util.components import BackgroundTasks
from kubesched.framework import PodInfo, QueuedPodInfo
from kubesched.scheduler.cycles.binding_cycle import PodPlacement
from kubesched.scheduler.cycles.extender_attempt import ExtenderContext
from kubesched.scheduler.cycles.extender_cycle import ExtenderCycle
from kubesched.scheduler.extenders.extender import HTTPExtender
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["ExtenderTasks"]


class ExtenderTasks:
    """The running attempts with extenders, and the extenders that are busy with them.

    `bind` is called with each placed pod, `on_free` when an extender becomes free.
    """

    def __init__(
        self,
        context: ExtenderContext,
        cycle: ExtenderCycle,
        bind: Callable[[PodPlacement], None],
        on_free: Callable[[], None],
    ) -> None:
        self._context = context
        self._cycle = cycle
        self._bind = bind
        self._on_free = on_free
        # The names of the extenders that an attempt is using.
        self.busy: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._freed = asyncio.Event()  # replaced by another each time that it is set

    def extenders_of(self, pod: Pod) -> tuple[HTTPExtender, ...]:
        """Return the extenders that an attempt at this pod has to call."""
        return self._context.extenders.interested_in(pod)

    def start(
        self,
        tasks: BackgroundTasks,
        framework: Framework,
        queued: QueuedPodInfo,
        extenders: Sequence[HTTPExtender],
    ) -> None:
        """Start an attempt; none of the extenders may be busy."""
        names = {extender.name for extender in extenders}
        assert names.isdisjoint(self.busy), "an extender is called for one pod at a time"
        self.busy |= names
        framework.pods_in_flight.enter()
        task = tasks.spawn(self._attempt(framework, queued, extenders), "extenders")
        self._tasks.add(task)
        # A callback also runs if the task is cancelled before it begins.
        task.add_done_callback(lambda done: self._end(done, framework, names))

    def track(self, task: asyncio.Task[None], framework: Framework) -> None:
        """Register a task that `abandon` must also cancel. The profile stays open until it ends."""
        self._tasks.add(task)
        framework.pods_in_flight.enter()
        task.add_done_callback(lambda done: self._untrack(done, framework))

    def _untrack(self, task: asyncio.Task[None], framework: Framework) -> None:
        self._tasks.discard(task)
        framework.pods_in_flight.leave()

    @contextlib.asynccontextmanager
    async def reserved(self, names: Set[str]) -> AsyncIterator[None]:
        """Use extenders by name, all at once, as soon as none of them is busy."""
        while not names.isdisjoint(self.busy):
            await self._freed.wait()
        self.busy |= names
        try:
            yield
        finally:
            self._free(names)

    def abandon(self) -> None:
        """Cancel all attempts; their pods stay unplaced."""
        for task in self._tasks:
            task.cancel()

    def refused(self, pod_info: PodInfo) -> Collection[str]:
        """Return the feasible nodes that extenders refused in the pod's last attempt."""
        return self._context.refused.get(pod_info.uid, ())

    def follow(self, old: Pod, new: Pod) -> None:
        """Discard refusals of extenders if the pod was bound, or replaced by another pod."""
        is_another = new.metadata.uid != old.metadata.uid
        if is_another or (new.spec.node_name and not old.spec.node_name):
            self._context.refused.pop(old.metadata.uid, None)

    def forget(self, gone: Pod | Node, _is_tombstone: bool = False) -> None:
        """Discard what is stored for a deleted pod or node."""
        self._context.documents.forget(gone)
        self._context.refused.pop(gone.metadata.uid, None)

    async def _attempt(
        self, framework: Framework, queued: QueuedPodInfo, extenders: Sequence[HTTPExtender]
    ) -> None:
        try:
            placement = await self._cycle.run(framework, queued, extenders)
        except Exception as exc:
            self._cycle.give_up(queued, exc)
            return
        if placement is not None:
            self._bind(placement)

    def _end(self, task: asyncio.Task[None], framework: Framework, names: set[str]) -> None:
        self._tasks.discard(task)
        framework.pods_in_flight.leave()
        self._free(names)

    def _free(self, names: Set[str]) -> None:
        self.busy -= names
        self._freed.set()
        self._freed = asyncio.Event()
        self._on_free()
