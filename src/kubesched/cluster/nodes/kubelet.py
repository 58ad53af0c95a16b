"""A stand-in for the kubelets of all nodes: bound pods run, finish and go.

It knows the cluster only through `ApiAccess`, so it works on the embedded store and on any
API server that has nodes without kubelets.
"""

from __future__ import annotations

import asyncio

from kubesched.api import ApiAccess, ApiError, Pod
from kubesched.cluster.nodes.pod_lifecycle import (
    PodLifecycles,
    Step,
    finished_status,
    started_status,
)
from kubesched.util.clock import MILLISECOND, SECOND, Clock
from kubesched.util.components import StopSwitch
from kubesched.util.logging import get_logger

__all__ = ["FakeKubelet"]

_BOUND = "spec.nodeName!="
_RETRY_NS = SECOND
_GONE = 410
# What a retry will not mend: the pod is gone, is another one, or may not change that way.
_FINAL = frozenset({404, 409, 422})

log = get_logger(__name__)


class FakeKubelet:
    """Runs the pods of every node.

    `start_delay_ns` passes between binding and running, and at most `stop_delay_ns` (less if
    the grace period is shorter) between deletion and removal.
    """

    def __init__(
        self,
        api: ApiAccess,
        clock: Clock,
        *,
        start_delay_ns: int = 100 * MILLISECOND,
        stop_delay_ns: int = SECOND,
    ) -> None:
        self._api, self._clock = api, clock
        self._lifecycles = PodLifecycles(start_delay_ns=start_delay_ns, stop_delay_ns=stop_delay_ns)
        self._changed = asyncio.Event()
        self._stopping = StopSwitch()
        self._host_ips: dict[str, str] = {}
        self._pods_started = 0

    async def run(self) -> None:
        await self._stopping.guard(self._work())

    def stop(self) -> None:
        """Ask the kubelet to end at once. Idempotent; never blocks."""
        self._stopping.set()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_pods(), name="FakeKubelet.follow")
            while True:
                self._changed.clear()
                now_ns = self._clock.now_ns()
                for step in self._lifecycles.due(now_ns):
                    # A task each, so that a slow answer for one pod does not hold up others.
                    tasks.create_task(self._take(step), name=f"FakeKubelet.{step.kind}")
                due_ns = self._lifecycles.next_due_ns()
                timeout_ns = None if due_ns is None else due_ns - now_ns
                await self._clock.wait(self._changed, timeout_ns)

    async def _follow_pods(self) -> None:
        while True:
            try:
                await self._list_and_watch()
            except ApiError as error:
                if error.code != _GONE:
                    log.warning("Lost sight of pods, starting over", error=error)
                    await self._clock.sleep(_RETRY_NS)

    async def _list_and_watch(self) -> None:
        pods = await self._api.list(Pod, field_selector=_BOUND)
        self._lifecycles.keep_only({pod.metadata.uid for pod in pods.items})
        for pod in pods.items:
            self._observe(pod)
        version = pods.resource_version
        async for event in self._api.watch(Pod, resource_version=version, field_selector=_BOUND):
            if event.object is None:
                continue
            if event.type == "DELETED":
                self._lifecycles.forget(event.object.metadata.uid)
            else:
                self._observe(event.object)

    def _observe(self, pod: Pod) -> None:
        self._lifecycles.observe(pod, self._clock.now_ns())
        self._changed.set()

    async def _take(self, step: Step) -> None:
        """Tell the API server what happened, until it listens or it no longer matters."""
        while True:
            try:
                await self._report(step)
                return
            except ApiError as error:
                if error.code in _FINAL:
                    log.detail(4, "Pod moved on without its kubelet", pod=step.pod, error=error)
                    return
                log.warning("Could not report on a pod, trying again", pod=step.pod, error=error)
                await self._clock.sleep(_RETRY_NS)

    async def _report(self, step: Step) -> None:
        metadata = step.pod.metadata
        now_ns = self._clock.now_ns()
        if step.kind == "remove":
            await self._api.delete(
                Pod, metadata.name, metadata.namespace, uid=metadata.uid, grace_period_seconds=0
            )
            return
        if step.kind == "start":
            host_ip = self._host_ip(step.pod.spec.node_name)
            status = started_status(step.pod, now_ns, host_ip, self._next_pod_ip())
        else:
            status = finished_status(step.pod, now_ns)
        # With the uid, so that a new pod of the same name is left alone.
        patch = {"metadata": {"uid": metadata.uid}, "status": status}
        await self._api.patch(Pod, metadata.name, metadata.namespace, patch, subresource="status")

    def _host_ip(self, node: str) -> str:
        if node not in self._host_ips:
            self._host_ips[node] = _address(10, 0, len(self._host_ips) + 1)
        return self._host_ips[node]

    def _next_pod_ip(self) -> str:
        self._pods_started += 1
        return _address(10, 128, self._pods_started)


def _address(first: int, second: int, number: int) -> str:
    """The address with this number in a network, going round when it is used up."""
    number %= 1 << 23
    return f"{first}.{second + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
