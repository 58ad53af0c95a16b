"""A simple node-group autoscaler: it adds nodes while pods wait, and removes idle ones.

It ignores pods that a node of the group would not admit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubesched.api import Node, Pod
from kubesched.api.node_selector import RequiredNodeAffinity
from kubesched.api.taints import first_untolerated
from kubesched.cluster.apiserver import LocalApi
from kubesched.foundation.util.clock import Clock
from kubesched.sim.node_events import NodeEvents
from kubesched.sim.observer import ObservedPod, Observer
from kubesched.sim.scenario import Autoscaler

__all__ = ["GroupAutoscaler", "admits", "nodes_needed"]


class GroupAutoscaler:
    """Checks its group periodically. Ordered nodes are created after a delay."""

    def __init__(
        self,
        api: LocalApi,
        clock: Clock,
        settings: Autoscaler,
        node_events: NodeEvents,
        observer: Observer,
    ) -> None:
        self._api, self._clock = api, clock
        self._settings, self._node_events, self._observer = settings, node_events, observer
        self._pods = api.store.collection(api.store.catalog.by_type(Pod))
        self._ordered: list[int] = []  # creation times of the ordered nodes
        self._empty_since: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            now_ns = self._clock.now_ns()
            due = [time_ns for time_ns in self._ordered if time_ns <= now_ns]
            self._ordered = [time_ns for time_ns in self._ordered if time_ns > now_ns]
            if due:
                # The next check takes the new nodes into account.
                await self._node_events.add(self._settings.group, len(due))
            else:
                self._grow(now_ns)
                await self._shrink(now_ns)
            await self._clock.sleep(self._settings.period_ns)

    def _grow(self, now_ns: int) -> None:
        observer, settings = self._observer, self._settings
        nodes = self._node_events.next_nodes(settings.group)
        waiting = [
            {**pod.amounts, "pods": 1}
            for pod in observer.waiting.values()
            if pod.reason and self._would_help(pod, nodes)
        ]
        if not waiting:
            return
        members = [node for node in observer.nodes.values() if node.group == settings.group]
        room = settings.maximum - len(members) - len(self._ordered)
        if room <= 0:
            return
        size = self._node_events.allocatable(settings.group)
        wanted = nodes_needed(waiting, size, room + len(self._ordered)) - len(self._ordered)
        self._ordered += [now_ns + settings.delay_ns] * max(0, min(wanted, room))

    def _would_help(self, waiting: ObservedPod, nodes: Sequence[Node]) -> bool:
        record = self._pods.objects.get(waiting.key)
        return record is not None and any(admits(node, record.typed) for node in nodes)

    async def _shrink(self, now_ns: int) -> None:
        settings = self._settings
        members = {
            name: node
            for name, node in self._observer.nodes.items()
            if node.group == settings.group
        }
        empty = {name for name, node in members.items() if not node.pods}
        self._empty_since = {
            name: self._empty_since.get(name, now_ns) for name in members if name in empty
        }
        spare = len(members) - settings.minimum
        for name, since_ns in self._empty_since.items():
            if spare > 0 and now_ns - since_ns >= settings.idle_ns:
                await self._node_events.remove(name)
                spare -= 1


def admits(node: Node, pod: Pod) -> bool:
    """Whether a pod's node selector, node affinity and tolerations admit a node."""
    if first_untolerated(node.spec.taints, pod.spec.tolerations) is not None:
        return False
    return RequiredNodeAffinity.of(pod).matches_node(node)


def nodes_needed(pods: Iterable[dict[str, int]], node: dict[str, int], most: int) -> int:
    """Return how many nodes the pods need by first fit.

    Pods that are larger than a node are ignored.
    """
    free: list[dict[str, int]] = []
    for amounts in pods:
        if any(amount > node.get(name, 0) for name, amount in amounts.items()):
            continue
        for each in free:
            if all(amount <= each[name] for name, amount in amounts.items() if amount):
                break
        else:
            if len(free) >= most:
                continue
            each = dict(node)
            free.append(each)
        for name, amount in amounts.items():
            if amount:
                each[name] -= amount
    return len(free)
