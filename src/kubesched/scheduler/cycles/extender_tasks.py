"""Attempts that wait for extenders, each in a task, while the loop goes on with other pods.

The reference waits as a whole. Here an attempt keeps only those from being tried that some of
the same extenders want to be asked about: each extender is asked about one pod at a time, and
pods that no extender wants to know of never wait for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from kubesched.api import Node, Pod
from kubesched.foundation.util.components import BackgroundTasks
from kubesched.framework import PodInfo, QueuedPodInfo
from kubesched.scheduler.cycles.binding_cycle import Placement
from kubesched.scheduler.cycles.extender_attempt import ExtenderContext
from kubesched.scheduler.cycles.extender_cycle import ExtenderCycle
from kubesched.scheduler.extenders.extender import HTTPExtender
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["ExtenderTasks"]


class ExtenderTasks:
    """Knows which extenders are busy with an attempt.

    `bind` is called with a pod that was placed, `on_free` when an extender is free again.
    """

    def __init__(
        self,
        context: ExtenderContext,
        cycle: ExtenderCycle,
        bind: Callable[[Placement], None],
        on_free: Callable[[], None],
    ) -> None:
        self._context = context
        self._cycle = cycle
        self._bind = bind
        self._on_free = on_free
        # Names of extenders that are being asked.
        self.busy: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def extenders_of(self, pod: Pod) -> tuple[HTTPExtender, ...]:
        """Those that an attempt at this pod has to ask."""
        return self._context.extenders.asked_about(pod)

    def start(
        self,
        tasks: BackgroundTasks,
        framework: Framework,
        queued: QueuedPodInfo,
        extenders: Sequence[HTTPExtender],
    ) -> None:
        """Begin an attempt; none of the extenders is busy."""
        names = {extender.name for extender in extenders}
        assert names.isdisjoint(self.busy), "an extender is asked about one pod at a time"
        self.busy |= names
        task = tasks.spawn(self._attempt(framework, queued, extenders), "extenders")
        self._tasks.add(task)
        # Also if it is cancelled before it has begun.
        task.add_done_callback(lambda done: self._end(done, names))

    def abandon(self) -> None:
        """Stop waiting for extenders; the pods stay unplaced."""
        for task in self._tasks:
            task.cancel()

    def refused(self, pod_info: PodInfo) -> Collection[str]:
        """Nodes that fitted the pod and that extenders refused when it was last tried."""
        return self._context.refused.get(pod_info.uid, ())

    def follow(self, old: Pod, new: Pod) -> None:
        """A pod changed. One that got a node, or was made anew, is not asked about again."""
        is_another = new.metadata.uid != old.metadata.uid
        if is_another or (new.spec.node_name and not old.spec.node_name):
            self._context.refused.pop(old.metadata.uid, None)

    def forget(self, gone: Pod | Node, _is_tombstone: bool = False) -> None:
        """An object is gone from the cluster."""
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

    def _end(self, task: asyncio.Task[None], names: set[str]) -> None:
        self._tasks.discard(task)
        self.busy -= names
        self._on_free()
