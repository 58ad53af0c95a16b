"""Pods that wait on Permit, and pods in PreBind.

docs/reference/04 §8.5 and §8.6. Timers run on the event loop, so they follow virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from kubesched.api import Pod
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.go_format import format_duration
from kubesched.framework import SUCCESS, Status

__all__ = ["PodInPreBindEntry", "PodsInPreBind", "WaitingPodEntry", "WaitingPods"]


class WaitingPodEntry:
    """A pod that waits on Permit plugins, with a timeout for each. The first outcome counts."""

    def __init__(self, pod: Pod, timeouts_ns: Mapping[str, int]) -> None:
        self.pod = pod
        loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[Status] = loop.create_future()
        self._timers = {
            plugin: loop.call_later(
                timeout_ns / SECOND,
                self.reject,
                plugin,
                "rejected due to timeout after waiting "
                f"{format_duration(timeout_ns)} at plugin {plugin}",
            )
            for plugin, timeout_ns in timeouts_ns.items()
        }

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        return tuple(self._timers)

    @property
    def is_decided(self) -> bool:
        return self._outcome.done()

    def allow(self, plugin: str) -> None:
        timer = self._timers.pop(plugin, None)
        if timer is None:
            return
        timer.cancel()
        if not self._timers:
            self._finish(SUCCESS)

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the pod; False if it was allowed or rejected before."""
        return self._finish(Status.unschedulable(message).blame(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Stop waiting because the pod was chosen as a victim."""
        return self._finish(Status.failure(message).blame(plugin))

    def abandon(self) -> None:
        """Cancel the task that awaits the outcome, because the scheduler stops."""
        self._stop_timers()
        self._outcome.cancel()

    def _finish(self, status: Status) -> bool:
        if self._outcome.done():
            return False
        self._stop_timers()
        self._outcome.set_result(status)
        return True

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    async def outcome(self) -> Status:
        return await self._outcome


class WaitingPods:
    """The waiting pods of all profiles, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPodEntry] = {}

    def __iter__(self) -> Iterator[WaitingPodEntry]:
        return iter(list(self._pods.values()))

    def add(self, entry: WaitingPodEntry) -> None:
        self._pods[entry.pod.metadata.uid] = entry

    def get(self, uid: str) -> WaitingPodEntry | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)


class PodInPreBindEntry:
    """A pod between Permit and Bind, which preemption may cancel."""

    def __init__(self, pod: Pod, task: asyncio.Task[object]) -> None:
        self.pod = pod
        self.cancel_reason = ""
        self._task = task
        self._is_prebound = False

    def cancel(self, reason: str) -> bool:
        """Cancel PreBind; False if it has finished."""
        if self._is_prebound:
            return False
        if not self.cancel_reason:
            self.cancel_reason = reason
            self._task.cancel()
        return True

    def abandon(self) -> None:
        """Cancel PreBind without undoing anything, because the scheduler stops."""
        self._task.cancel()

    def mark_prebound(self) -> bool:
        """Record that PreBind has finished; False if the pod was cancelled before."""
        if self.cancel_reason:
            return False
        self._is_prebound = True
        return True


class PodsInPreBind:
    """The pods in PreBind of all profiles, by uid."""

    def __init__(self) -> None:
        self._pods: dict[str, PodInPreBindEntry] = {}

    def __iter__(self) -> Iterator[PodInPreBindEntry]:
        return iter(list(self._pods.values()))

    def add(self, entry: PodInPreBindEntry) -> None:
        self._pods[entry.pod.metadata.uid] = entry

    def get(self, uid: str) -> PodInPreBindEntry | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)
