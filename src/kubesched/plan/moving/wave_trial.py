"""Tries moves on a model of the cluster, with the scheduler's own filters."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.errors import PluginError
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.framework import CycleState, PodInfo
from kubesched.plan.reading.cluster_problem import MovablePod

__all__ = ["WaveTrial"]


class WaveTrial:
    """A model of the cluster to which moves and real changes are applied."""

    def __init__(self, model: ClusterModel) -> None:
        self._model = model
        self._number = 0
        self._removed: list[Pod] = []
        self._made: list[Pod] = []

    def accepts(self, pod: MovablePod, node: str) -> bool:
        """Whether the scheduler would place the replacement there if other nodes were cordoned.

        If so, the move is made in the model until `undo`.
        """
        model, metadata = self._model, pod.pod.metadata
        model.objects.remove(Pod, metadata.name, metadata.namespace)
        self._number += 1
        trial = replace(
            metadata, name=f"{metadata.name}-trial-{self._number}", uid=f"trial/{self._number}"
        )
        waiting = replace(pod.pod, metadata=trial, spec=replace(pod.pod.spec, node_name=""))
        if not self._fits(waiting, node):
            model.objects.put(pod.pod)
            return False
        placed = replace(waiting, spec=replace(waiting.spec, node_name=node))
        model.objects.put(placed)
        self._removed.append(pod.pod)
        self._made.append(placed)
        return True

    def _fits(self, waiting: Pod, name: str) -> bool:
        model = self._model
        framework = model.framework_of(waiting)
        node = model.snapshot.get(name)
        info, state = PodInfo(waiting), CycleState()
        if node is None:
            return False
        try:
            outcome = framework.run_pre_filter(state, info)
            if not outcome.status.is_success:
                return False
            if outcome.only_nodes is not None and name not in outcome.only_nodes:
                return False
            return framework.dry_run.fits_on(state, info, node)
        except PluginError:
            return False

    def undo(self) -> None:
        """Undo all moves since the last call of `follow`."""
        objects = self._model.objects
        for pod in self._made:
            objects.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        for pod in self._removed:
            objects.put(pod)
        self._made, self._removed = [], []

    def follow(self, removed: Iterable[Pod], placed: Iterable[Pod]) -> None:
        """Update the model to the actual placement."""
        self.undo()
        objects = self._model.objects
        for pod in removed:
            objects.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        for pod in placed:
            objects.put(pod)
