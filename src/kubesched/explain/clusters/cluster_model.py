"""A cluster in memory with the real scheduler's parts: cache, plugins, search.

All explanations use this model. It never connects to an API server. Plugins read the objects of the
model; work that they would do outside an attempt (evictions) is recorded and not carried out.
Changes made inside `changed` are undone when the block ends.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.errors import KubeschedError, PluginError
from kubesched.explain.clusters.missing_pods import missing_pod_note
from kubesched.explain.clusters.read_only_api import ReadOnlyApi, SilentRecorder
from kubesched.foundation.client.object_table import ObjectLister, ObjectTable
from kubesched.foundation.util.clock import Clock
from kubesched.framework import (
    ClusterChange,
    CycleState,
    Diagnosis,
    FitError,
    NodeView,
    PodInfo,
    Removal,
)
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue import PodNominator
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.plugins.default_preemption.ruled_preemption import RuledPreemption
from kubesched.scheduler.plugins.helpers.wording import nearest
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.profiles import build_profiles
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_set import Registry
from kubesched.scheduler.runtime.services import Services
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.scheduler.search.schedule_result import NoNodesError, ScheduleResult
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["ClusterModel", "ExplainError", "SearchOutcome"]


class ExplainError(KubeschedError):
    """The explanation is impossible; the message gives the reason."""


class SearchOutcome(NamedTuple):
    """The result of the scheduler's own search: a node, or the reason why no node fits."""

    state: CycleState
    result: ScheduleResult | None
    diagnosis: Diagnosis | None  # None also if the search ended with an error
    message: str  # the reference's text if no node fits

    @property
    def node_name(self) -> str:
        return "" if self.result is None else self.result.node_name


class ClusterModel:
    """Objects, and a scheduler's parts over them. `clock` is the clock of the model."""

    def __init__(
        self,
        objects: Iterable[ApiObject],
        clock: Clock,
        *,
        configuration: KubeSchedulerConfiguration | None = None,
        plugins: Registry = IN_TREE_PLUGINS,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        seed: int = 0,
    ) -> None:
        self.objects = ObjectTable(objects, fills_uids=True)
        self.cache = Cache()
        for node in self.objects.list(Node):
            self.cache.add_node(node)
        for pod in self.objects.list(Pod):
            if _occupies_node(pod):
                self.cache.add_pod(pod)
        self.nominator = PodNominator(self.objects.lister(Pod), self._waiting_pod)
        self.clock = clock
        self._undone: list[str] = []
        # The kinds that plugins and the nominator read.
        self.kinds: set[type[Any]] = {Node, Pod}
        self._services = Services(
            snapshot=self.cache.snapshot,
            api=ReadOnlyApi(self.objects),
            recorder_of=lambda _: SilentRecorder(),
            clock=clock,
            random=random.Random(seed),
            lister=self._lister,
            feature_enabled=gates.enabled,
            nominator=lambda: self.nominator,
            activate=lambda _: None,
            spawn=self._leave_undone,
            fits_now=lambda *_: False,
            fits_without=lambda *_: True,
            preemption=RuledPreemption,
        )
        self.configuration = configuration or default_configuration(gates)
        self._plugins, self._gates, self._seed = plugins, gates, seed
        self.frameworks = build_profiles(self.configuration.profiles, plugins, self._services)
        self._search = CachedSearch(
            self.cache.snapshot,
            random.Random(seed),
            self.configuration.percentage_of_nodes_to_score,
        )
        for pod in self.objects.list(Pod):
            if not pod.spec.node_name and pod.status.nominated_node_name:
                self.nominator.add_nominated_pod(PodInfo(pod), None)
        self.objects.listeners.append(self._follow)
        self.cache.update_snapshot()

    def _lister(self, kind: type[Any]) -> ObjectLister[Any]:
        self.kinds.add(kind)
        return self.objects.lister(kind)

    @property
    def snapshot(self) -> Any:
        return self.cache.update_snapshot()

    def with_objects(self, objects: Iterable[ApiObject]) -> ClusterModel:
        """Return a model of other objects, with the same scheduler."""
        return ClusterModel(
            objects,
            self.clock,
            configuration=self.configuration,
            plugins=self._plugins,
            gates=self._gates,
            seed=self._seed,
        )

    def framework_of(self, pod: Pod) -> Framework:
        """Return the profile that places the pod.

        Raises:
            ExplainError: no profile has the pod's scheduler name.
        """
        name = pod.spec.scheduler_name or "default-scheduler"
        framework = self.frameworks.get(name)
        if framework is None:
            known = ", ".join(sorted(self.frameworks))
            error = ExplainError(f"no profile for schedulerName {name!r}; there is {known}")
            error.add_note("--config FILE gives the configuration with that profile")
            raise error
        return framework

    def find_pod(self, namespace: str, name: str) -> Pod:
        """Return a pod.

        Raises:
            ExplainError: there is no such pod; a note has similar names.
        """
        pod = self.objects.get(Pod, name, namespace)
        if pod is not None:
            return pod
        error = ExplainError(f"no pod {namespace}/{name} among {len(self.objects.list(Pod))} pods")
        near = [
            f"{each.metadata.namespace}/{each.metadata.name}"
            for each in self.objects.list(Pod)
            if each.metadata.name == name or name in each.metadata.name
        ]
        if not near:
            known = {each.metadata.name: "" for each in self.objects.list(Pod, namespace)}
            similar = nearest(name, list(known))
            near = [f"{namespace}/{similar}"] if similar else []
        if near:
            error.add_note(f"did you mean {', '.join(sorted(near)[:3])}?")
        elif note := missing_pod_note(self.objects, namespace, name):
            error.add_note(note)
        raise error

    def search(self, pod: Pod, info: PodInfo | None = None) -> SearchOutcome:
        """Run the scheduler's search for the pod, without assuming the pod."""
        framework = self.framework_of(pod)
        self.cache.update_snapshot()
        state = CycleState()
        try:
            result = self._search.schedule_pod(framework, state, info or PodInfo(pod))
        except FitError as error:
            return SearchOutcome(state, None, error.diagnosis, str(error))
        except (NoNodesError, PluginError) as error:
            return SearchOutcome(state, None, None, str(error))
        return SearchOutcome(state, result, None, "")

    def total_scores(self, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Return the totals of some nodes that passed the filters, as if they were the only nodes.

        Raises:
            PluginError: a plugin failed.
        """
        attempt = SearchAttempt(self.framework_of(pod), CycleState(), PodInfo(pod))
        self._search.filtering.pre_filter(attempt)
        return self._search.scoring.score(attempt, nodes).total

    @contextlib.contextmanager
    def changed(self, changes: Iterable[ClusterChange]) -> Iterator[None]:
        """Change some objects while the block runs, and undo the changes afterwards."""
        undo: list[Callable[[], Any]] = []
        try:
            undo.extend(map(self._apply, changes))
            yield
        finally:
            for step in reversed(undo):
                step()
            self.cache.update_snapshot()

    @contextlib.contextmanager
    def without(self, pod: Pod) -> Iterator[None]:
        """Remove a placed pod while the block runs."""
        metadata = pod.metadata
        with self.changed([Removal(Pod, metadata.name, metadata.namespace)]):
            yield

    def _apply(self, change: ClusterChange) -> Callable[[], Any]:
        if isinstance(change, Removal):
            old = self.objects.remove(change.kind, change.name, change.namespace)
            return lambda: None if old is None else self.objects.put(old)
        old = self.objects.put(change)
        if old is not None:
            return lambda: self.objects.put(old)
        metadata = change.metadata  # type: ignore[attr-defined]  # every API object has it
        kind = type(change)
        return lambda: self.objects.remove(kind, metadata.name, metadata.namespace)

    def _follow(self, old: Any, new: Any) -> None:
        """Update the cache after a change to the objects."""
        either = old if new is None else new
        if isinstance(either, Node):
            if new is None:
                self.cache.remove_node(old)
            else:
                self.cache.update_node(new)
        elif isinstance(either, Pod):
            self._follow_pod(old, new)
            self._follow_nomination(old, new)
        else:
            self._services.object_versions.changed(type(either))

    def _follow_pod(self, old: Pod | None, new: Pod | None) -> None:
        before = old if old is not None and _occupies_node(old) else None
        after = new if new is not None and _occupies_node(new) else None
        if before is not None and after is not None and _is_same_place(before, after):
            self.cache.update_pod(before, after)
            return
        if before is not None:
            self.cache.remove_pod(before)
        if after is not None:
            self.cache.add_pod(after)

    def _follow_nomination(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self.nominator.touch(old.metadata.uid)
            self.nominator.delete_nominated_pod(old)
        if new is not None and not new.spec.node_name:
            self.nominator.add_nominated_pod(PodInfo(new), None)

    def _waiting_pod(self, key: str) -> PodInfo | None:
        namespace, _, name = key.partition("/")
        pod = self.objects.get(Pod, name, namespace)
        return None if pod is None or pod.spec.node_name else PodInfo(pod)

    def _leave_undone(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Discard work that a plugin would do in the cluster."""
        work.close()
        self._undone.append(name)


def _is_same_place(old: Pod, new: Pod) -> bool:
    return old.metadata.uid == new.metadata.uid and old.spec.node_name == new.spec.node_name


def _occupies_node(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and pod.status.phase not in ("Succeeded", "Failed")
