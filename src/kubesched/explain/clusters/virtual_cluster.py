"""A copy of a cluster in virtual time, on which what-if applies changes.

The copy has a real store, controllers, kubelets and a scheduler. Pods stay bound and owned as in
the original. A copy must be built and used on a virtual loop, where waiting takes no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kubesched.api import ApiError, Pod, ReplicaSet
from kubesched.api.base import ApiObject
from kubesched.api.events import Event
from kubesched.cluster.apiserver.store.pod_eviction import admit_eviction
from kubesched.cluster.embedded_cluster import ClusterPart, EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.nodes.pod_behavior import endless_behavior_of
from kubesched.cluster.takeover import Identity
from kubesched.explain.clusters.sources import SCHEDULING_KINDS
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = ["VirtualCluster"]

_COPIED_KINDS = frozenset(kind.type for kind in SCHEDULING_KINDS)
_TOO_MANY_REQUESTS = 429
_PREEMPTED = "Preempted"


class VirtualCluster(LiveCluster):
    """A live cluster that starts with the objects of another cluster, and can evict their pods."""

    def __init__(
        self,
        *,
        configuration: KubeSchedulerConfiguration | None = None,
        plugins: Mapping[str, Any] | None = None,
        seed: int = 0,
        phase: str = "first",
        parts: ClusterPart = ClusterPart.ALL,
    ) -> None:
        """Build an empty cluster. Each `phase` generates other names and uids.

        Pods of Jobs run until they are deleted: how long a Job of a real cluster takes is unknown.
        """
        cluster = EmbeddedCluster(
            current_clock(),
            derive(seed, "store", phase),
            with_initial_objects=False,
            heartbeats=False,
            parts=parts,
            behavior=endless_behavior_of,
        )
        super().__init__(
            cluster, configuration=configuration, out_of_tree_registry=plugins, seed=seed
        )

    async def copy_objects(self, objects: Iterable[ApiObject]) -> None:
        """Copy the objects that scheduling depends on. Call it before the cluster runs."""
        self.serve_custom_kinds()
        copied_kinds = self._copied_kinds()
        copied = [each for each in objects if type(each) in copied_kinds]
        await self.take_over(copied, Identity.KEPT)

    def _copied_kinds(self) -> frozenset[type[Any]]:
        """Return the kinds that scheduling depends on, with those that plugins read.

        Kinds behind a feature gate that is off are left out: this scheduler does not read them.
        """
        given = self.scheduler.profiles.values()
        plugins = (plugin for each in given for plugin in each.plugins.by_name.values())
        custom = {kind.type for plugin in plugins for kind in plugin.custom_kinds}
        serves = self.cluster.store.catalog.has_type
        return frozenset(filter(serves, _COPIED_KINDS | custom))

    async def objects_like(self, given: Iterable[ApiObject]) -> list[ApiObject]:
        """Return the current objects of these kinds, and of the kinds that controllers create."""
        copied_kinds = self._copied_kinds()
        kept = (type(each) for each in given if type(each) in copied_kinds)
        kinds: dict[type[Any], None] = dict.fromkeys([*kept, Pod, ReplicaSet])
        found: list[ApiObject] = []
        for kind in kinds:
            found += (await self.api.list(kind)).items
        return found

    async def preempted(self) -> set[str]:
        """Return the pods that the scheduler preempted, by namespace and name."""
        return {
            f"{event.regarding.namespace}/{event.regarding.name}"
            for event in (await self.api.list(Event)).items
            if event.reason == _PREEMPTED and event.regarding is not None
        }

    async def evict(self, pod: Pod) -> str:
        """Evict a pod as `kubectl drain` does.

        Return the message if a budget refuses, else an empty text.
        """
        metadata = pod.metadata
        try:
            now_ns = self.clock.now_ns()
            admit_eviction(self.api.store, metadata.namespace, metadata.name, now_ns)
            await self.api.delete(Pod, metadata.name, metadata.namespace)
        except ApiError as error:
            return str(error) if error.code == _TOO_MANY_REQUESTS else ""
        return ""
