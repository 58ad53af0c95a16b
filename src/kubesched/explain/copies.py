"""Copies of pods on nodes of a model, counted there until they are taken back.

They are assumed in the cache, as a scheduler does between its choice and the binding.
"""

from __future__ import annotations

from collections import Counter
from copy import copy

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.explain.model import ClusterModel
from kubesched.framework import CycleState, PodInfo

__all__ = ["Copies", "copy_of"]


def copy_of(pod: Pod, number: int) -> Pod:
    """Another pod of the same template, on no node."""
    metadata = pod.metadata
    name = f"{metadata.name or metadata.generate_name or 'pod'}-fit-{number}"
    return replace(
        pod,
        metadata=replace(metadata, name=name, uid=f"fit/{name}/{metadata.namespace}"),
        spec=replace(pod.spec, node_name=""),
    )


class Copies:
    """Copies that were placed, in order, and how many per node."""

    def __init__(self, model: ClusterModel) -> None:
        self._model = model
        self._placed: list[Pod] = []
        self.by_node: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._placed)

    def place(self, info: PodInfo, node: str) -> None:
        """Count a copy on the node from here on."""
        assumed = info.placed_on(node)
        self._model.cache.assume_pod(assumed)
        self._placed.append(assumed.pod)
        self.by_node[node] += 1

    def take_back(self, count: int | None = None) -> None:
        """Take off the last copies, or all of them."""
        for _ in range(len(self._placed) if count is None else count):
            pod = self._placed.pop()
            self._model.cache.forget_pod(pod)
            self.by_node[pod.spec.node_name] -= 1
        self._model.cache.update_snapshot()

    def fill(self, pod: Pod) -> None:
        """Place as many copies as there can be, unless that must be found out one by one.

        If every rule that has a say looks at one node at a time, nodes fill up independently: in
        each round all nodes that still pass get one more, and who came first makes no difference.
        """
        model, info = self._model, PodInfo(copy_of(pod, 0))
        framework, passing = model.framework_of(pod), model.snapshot.nodes
        if model.nominator.nominated_nodes():
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
                framework.filter_plugins, state, info.pod, passing, diagnosis=None
            )
            if not len(passing):
                return
            for name in passing.names:
                another = copy(info)
                another.pod = copy_of(pod, len(self))
                self.place(another, name)
            model.cache.update_snapshot()
