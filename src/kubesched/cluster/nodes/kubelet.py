"""A stand-in for the kubelets of all nodes: bound pods start, finish and terminate.

It accesses the cluster only through `ApiAccess`, so it works with the embedded store and with any
API server whose nodes have no kubelets. A node that is deleted or marked as stopped
(`kubesched.io/stopped`) has no kubelet: its pods do not change until the node is back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kubesched.api import ApiAccess, ApiError, Node, Pod
from kubesched.api.access import WatchEvent, deliver
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.nodes.node_agent import NODE_NETWORK, is_stopped
from kubesched.cluster.nodes.pod_behavior import Behavior, behavior_of
from kubesched.cluster.nodes.pod_events import PodEventSink, events_of, termination_events
from kubesched.cluster.nodes.pod_lifecycle import PodLifecycles, Step
from kubesched.cluster.nodes.pod_status import status_of
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock
from kubesched.foundation.util.components import StopSwitch, begun
from kubesched.foundation.util.logging import get_logger

__all__ = ["FakeKubelet"]

_BOUND = "spec.nodeName!="
_POD_NETWORK = 128
_RETRY_NS = SECOND
_GONE = 410
# A retry cannot succeed: the pod was deleted or replaced, or the change is invalid.
_FINAL = frozenset({404, 409, 422})

log = get_logger(__name__)


class FakeKubelet:
    """Runs the pods of every node.

    `start_delay_ns` passes between binding and running, and at most `stop_delay_ns` (less if
    the grace period is shorter) between deletion and removal, unless a pod's `behavior` says
    otherwise.
    """

    def __init__(
        self,
        api: ApiAccess,
        clock: Clock,
        *,
        start_delay_ns: int = 100 * MILLISECOND,
        stop_delay_ns: int = SECOND,
        behavior: Callable[[Pod], Behavior] = behavior_of,
        events: PodEventSink | None = None,
    ) -> None:
        self._api, self._clock, self._events = api, clock, events
        self._lifecycles = PodLifecycles(
            start_delay_ns=start_delay_ns, stop_delay_ns=stop_delay_ns, behavior=behavior
        )
        self._local = api if isinstance(api, LocalApi) else None
        self._completes_at_once = self._local is not None and self._local.completes_at_once
        self._timers: dict[int, asyncio.TimerHandle] = {}  # by the time when they expire
        self._is_scheduled = False  # whether `_take_steps` runs in the next turn of the loop
        self._is_taking_steps = False  # whether `_take_steps` is running
        self._stopping = StopSwitch()
        self._host_ips: dict[str, str] = {}
        self._nodes: set[str] = set()
        self._pods_started = 0

    async def run(self) -> None:
        await self._stopping.guard(self._work())

    def stop(self) -> None:
        """Stop the kubelet at once. Idempotent; never blocks."""
        self._stopping.set()

    async def _work(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._failed: asyncio.Future[None] = self._loop.create_future()
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(self._follow(self._watch_nodes), name="FakeKubelet.nodes")
                self._tasks.create_task(self._follow(self._watch_pods), name="FakeKubelet.pods")
                await self._failed
        finally:
            self._failed.cancel()
            for timer in self._timers.values():
                timer.cancel()

    def _take_steps(self) -> None:
        """Take the steps that are due. The event loop calls this; there is no task per pod."""
        self._is_scheduled = False
        if self._failed.done():
            return
        self._is_taking_steps = True
        try:
            for step in self._lifecycles.due(self._clock.now_ns()):
                work = self._take(step)
                rest = begun(work) if self._completes_at_once else work
                if rest is not None:
                    # One task per step, so that a slow response does not delay others.
                    self._tasks.create_task(rest, name=f"FakeKubelet.{step.kind}")
        except Exception as error:
            self._failed.set_exception(error)
        finally:
            self._is_taking_steps = False
        self._schedule_next()

    async def _follow(self, watch: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await watch()
            except ApiError as error:
                if error.code != _GONE:
                    log.warning("A watch failed; listing again", error=error)
                    await self._clock.sleep(_RETRY_NS)

    async def _watch_nodes(self) -> None:
        nodes = await self._api.list(Node)
        present = {node.metadata.name for node in nodes.items}
        for name in sorted(self._nodes - present):
            self._lifecycles.stop_node(name)
        self._nodes = present
        for node in nodes.items:
            self._observe_node(node)
        events = self._api.watch(Node, resource_version=nodes.resource_version)
        await deliver(events, self._handle_node)

    def _handle_node(self, event: WatchEvent[Node]) -> None:
        if event.object is None:
            return
        if event.type == "DELETED":
            self._nodes.discard(event.object.metadata.name)
            self._lifecycles.stop_node(event.object.metadata.name)
        else:
            self._observe_node(event.object)

    def _observe_node(self, node: Node) -> None:
        name = node.metadata.name
        self._nodes.add(name)
        for address in node.status.addresses:
            if address.type == "InternalIP":
                self._host_ips[name] = address.address
        if is_stopped(node):
            self._lifecycles.stop_node(name)
        else:
            self._lifecycles.start_node(name, self._clock.now_ns())
            self._schedule_next()

    async def _watch_pods(self) -> None:
        pods = await self._api.list(Pod, field_selector=_BOUND)
        self._lifecycles.keep_only({pod.metadata.uid for pod in pods.items})
        for pod in pods.items:
            # Addresses of pods from before a restart are not assigned again.
            self._pods_started = max(self._pods_started, _number(pod.status.pod_ip))
            self._observe(pod)
        version = pods.resource_version
        events = self._api.watch(Pod, resource_version=version, field_selector=_BOUND)
        await deliver(events, self._handle_pod)

    def _handle_pod(self, event: WatchEvent[Pod]) -> None:
        if event.object is None:
            return
        if event.type == "DELETED":
            self._lifecycles.remove(event.object.metadata.uid)
        else:
            self._observe(event.object)

    def _observe(self, pod: Pod) -> None:
        if self._lifecycles.observe(pod, self._clock.now_ns()):
            self._schedule_next()

    def _schedule_next(self) -> None:
        """Schedule `_take_steps` for the time when the next step is due.

        A newly bound pod is due before all others. Existing timers are not cancelled for it: a
        timer that expires without a due step costs less than cancelling.
        """
        if self._is_taking_steps:
            return
        due_ns = self._lifecycles.next_due_ns()
        if due_ns is None or (self._timers and min(self._timers) <= due_ns):
            return
        now_ns = self._clock.now_ns()
        if due_ns <= now_ns:
            self._schedule_now()
        else:
            delay_s = (due_ns - now_ns) / SECOND
            self._timers[due_ns] = self._loop.call_later(delay_s, self._expire, due_ns)

    def _expire(self, due_ns: int) -> None:
        del self._timers[due_ns]
        self._schedule_now()

    def _schedule_now(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._take_steps)

    async def _take(self, step: Step) -> None:
        """Report a step to the API server; retry until it succeeds or cannot succeed any more."""
        failed = is_unchanged = False
        while True:
            try:
                is_unchanged = not await self._report(step)
                break
            except ApiError as error:
                if error.code in _FINAL:
                    log.detail(4, "A report is outdated", pod=step.run.pod, error=error)
                    failed = True
                    break
                log.warning("Could not report a pod's status; retrying", error=error)
                await self._clock.sleep(_RETRY_NS)
        self._lifecycles.done(step, self._clock.now_ns(), failed=failed, is_unchanged=is_unchanged)
        self._schedule_next()

    async def _report(self, step: Step) -> bool:
        """Write a step to the API server. Return whether that changed the pod."""
        pod = step.run.pod
        metadata = pod.metadata
        if self._events is not None:
            is_removal = step.kind == "remove"
            for event in termination_events(step.run) if is_removal else events_of(step.run):
                self._events(pod, event)
        if step.kind == "remove":
            await self._api.delete(
                Pod, metadata.name, metadata.namespace, uid=metadata.uid, grace_period_seconds=0
            )
            return True
        addresses = (self._host_ip(pod.spec.node_name), "")
        if not pod.status.pod_ip:
            addresses = (addresses[0], self._next_pod_ip())
        status = status_of(step.run, self._clock.now_ns(), addresses)
        # The uid prevents the patch from being applied to a new pod of the same name.
        if self._local is not None:
            changed = await self._local.report(
                metadata.namespace, metadata.name, metadata.uid, status
            )
        else:
            patch = {"metadata": {"uid": metadata.uid}, "status": status}
            changed = await self._api.patch(
                Pod, metadata.name, metadata.namespace, patch, subresource="status"
            )
        self._observe(changed)
        return changed.metadata.resource_version != metadata.resource_version

    def _host_ip(self, node: str) -> str:
        if node not in self._host_ips:
            self._host_ips[node] = _address(10, NODE_NETWORK, len(self._host_ips) + 1)
        return self._host_ips[node]

    def _next_pod_ip(self) -> str:
        self._pods_started += 1
        return _address(10, _POD_NETWORK, self._pods_started)


def _number(address: str | None) -> int:
    """Return the number of an address that `_address` has made; 0 for other addresses."""
    parts = [int(part) for part in (address or "").split(".") if part.isdecimal()]
    if len(parts) != 4 or parts[0] != 10 or parts[1] < _POD_NETWORK:
        return 0
    return (parts[1] - _POD_NETWORK) << 16 | parts[2] << 8 | parts[3]


def _address(first: int, second: int, number: int) -> str:
    """Return an address by number; after the last address the first one follows."""
    number %= 1 << 23
    return f"{first}.{second + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
