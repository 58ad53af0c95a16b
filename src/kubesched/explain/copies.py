"""Copies of pods that are placed on nodes of a model, and removed again.

They are assumed in the cache, as a scheduler does between the decision and the binding.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import NamedTuple

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.clusters.own_claims import with_claims
from kubesched.framework import CycleState, PodInfo, Removal

__all__ = ["Copies", "copy_of"]


def copy_of(pod: Pod, number: int) -> Pod:
    """Return another pod of the same template, without a node."""
    metadata = pod.metadata
    name = f"{metadata.name or metadata.generate_name or 'pod'}-fit-{number}"
    return replace(
        pod,
        metadata=replace(metadata, name=name, uid=f"fit/{name}/{metadata.namespace}"),
        spec=replace(pod.spec, node_name=""),
    )


class _Placed(NamedTuple):
    """A copy on its node; with a state, Reserve has run for it."""

    pod: Pod
    state: CycleState | None
    made: tuple[Removal, ...]  # claims that were created for it


class Copies:
    """The placed copies, in order, and their number per node."""

    def __init__(self, model: ClusterModel) -> None:
        self._model = model
        self._placed: list[_Placed] = []
        self.by_node: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._placed)

    def try_one(self, pod: Pod, number: int) -> str:
        """Let the scheduler place one more copy.

        Return its message if that fails, else an empty text.

        Claims that belong to each pod are created for the copy. The volumes and devices that it
        would use are reserved, as they are before a pod is bound.
        """
        model = self._model
        copied, claims = with_claims(model.objects, copy_of(pod, number))
        for claim in claims:
            model.objects.put(claim)
        made = tuple(
            Removal(type(each), each.metadata.name, each.metadata.namespace) for each in claims
        )
        info = PodInfo(copied)
        outcome = model.search(copied, info)
        if not outcome.node_name:
            self._remove_created(made)
            return outcome.message
        uses_more = bool(copied.spec.resource_claims or copied.spec.volumes)
        self._place(info, outcome.node_name, outcome.state if uses_more else None, made)
        if uses_more:
            pod_on_node = self._placed[-1].pod
            status = model.framework_of(copied).binding.run_reserve(
                outcome.state, pod_on_node, outcome.node_name
            )
            if not status.is_success:
                self.take_back(1)
                return status.message
        return ""

    def _place(
        self,
        info: PodInfo,
        node: str,
        state: CycleState | None = None,
        made: tuple[Removal, ...] = (),
    ) -> None:
        """Add a copy to the node."""
        assumed = info.placed_on(node)
        self._model.cache.assume_pod(assumed)
        self._placed.append(_Placed(assumed.pod, state, made))
        self.by_node[node] += 1

    def take_back(self, count: int | None = None) -> None:
        """Remove the last copies, or all of them."""
        model = self._model
        for _ in range(len(self._placed) if count is None else count):
            pod, state, made = self._placed.pop()
            node = pod.spec.node_name
            if state is not None:
                model.framework_of(pod).binding.run_unreserve(state, pod, node)
            model.cache.forget_pod(pod)
            self._remove_created(made)
            self.by_node[node] -= 1
        model.cache.update_snapshot()

    def _remove_created(self, made: tuple[Removal, ...]) -> None:
        for each in made:
            self._model.objects.remove(each.kind, each.name, each.namespace)

    def fill(self, pod: Pod) -> None:
        """Place as many copies as possible at once, unless they must be placed one by one.

        If every relevant rule reads one node at a time, nodes fill up independently of each other.
        In each round every node that still passes gets one more copy; the order does not matter.
        """
        model, info = self._model, PodInfo(copy_of(pod, 0))
        framework, passing = model.framework_of(pod), model.snapshot.nodes
        if model.nominator.nominated_nodes() or pod.spec.resource_claims or pod.spec.volumes:
            return
        while True:
            state = CycleState()
            outcome = framework.run_pre_filter(state, info)
            others = {each.name for each in framework.answer_cache.uncached_filters}
            if not outcome.status.is_success or outcome.only_nodes is not None:
                return
            if not others <= state.skip_filter:
                return
            passing = framework.filter_by(
                framework.filter_plugins, state, info.pod, passing, rejected=None
            )
            if not len(passing):
                return
            for name in passing.names:
                another = copy(info)
                another.pod = copy_of(pod, len(self))
                self._place(another, name)
            model.cache.update_snapshot()
