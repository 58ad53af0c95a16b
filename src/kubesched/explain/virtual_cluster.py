"""A copy of a cluster that lives in virtual time: real store, controllers, kubelets, scheduler.

Objects are taken over as they are, with their uids, so pods stay bound and owned. Must be built
and used on a virtual loop, where waiting for a cluster to come to rest costs nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec

from kubesched.api import ApiError, Namespace, Node, Pod, PodDisruptionBudget
from kubesched.api.base import ApiObject
from kubesched.api.events import Event
from kubesched.api.kinds import kind_of
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.rules.patching.merge_keys import with_identified_items
from kubesched.cluster.apiserver.store.pod_eviction import admit_eviction
from kubesched.cluster.apiserver.store.resource_collection import Restored
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.explain.sources import SCHEDULING_KINDS
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["VirtualCluster"]

_QUIET_NS = 20 * SECOND
_LOOK_NS = 1 * SECOND
_LONGEST_NS = 3600 * SECOND
_TAKEN_OVER = frozenset(kind.type for kind in SCHEDULING_KINDS)


class VirtualCluster:
    """The copy; `api` is its API server."""

    def __init__(
        self,
        objects: Iterable[ApiObject],
        *,
        configuration: KubeSchedulerConfiguration | None = None,
        plugins: Mapping[str, Any] | None = None,
        seed: int = 0,
        life: str = "first",
    ) -> None:
        """A later `life` of the same objects draws other names and uids."""
        self._clock = current_clock()
        self._embedded = EmbeddedCluster(
            self._clock, derive(seed, "store", life), furnished=False, heartbeats=False
        )
        self.api: LocalApi = self._embedded.api
        self._restore(objects)
        self.scheduler = Scheduler(
            self.api,
            self._clock,
            configuration=configuration,
            out_of_tree_registry=plugins,
            seed=seed,
        )

    def _restore(self, objects: Iterable[ApiObject]) -> None:
        store = self._embedded.store
        found: dict[tuple[str, str], Restored] = {}
        namespaces: set[str] = set()
        revision = store.revision
        for each in objects:
            if type(each) not in _TAKEN_OVER:
                continue
            revision += 1
            resource = store.catalog.by_type(type(each))
            # Controllers compare templates: all have the defaults that a server fills in.
            document = resource.strategy.default(_document(each, revision))
            namespace = document["metadata"].get("namespace", "")
            name = document["metadata"]["name"]
            key = f"{namespace}/{name}" if resource.namespaced else name
            found[resource.group_resource, key] = Restored(
                resource.group_resource, key, revision, document
            )
            if resource.namespaced:
                namespaces.add(namespace)
        plural = kind_of(Namespace).plural
        for name in sorted(namespaces):
            if (plural, name) not in found and store.find(plural, name) is None:
                revision += 1
                missing = Namespace(metadata=msgspec.convert({"name": name}, type(_META)))
                document = _document(missing, revision)
                found[plural, name] = Restored(plural, name, revision, document)
        store.restore(found.values(), revision)

    @contextlib.asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """The cluster at work, while the block runs."""
        async with self._embedded, running(*self._embedded.parts, self.scheduler):
            yield

    async def settle(self, longest_ns: int = _LONGEST_NS) -> bool:
        """Wait until no pod has moved for a while; False if that does not come about."""
        deadline_ns = self._clock.monotonic_ns() + longest_ns
        before, quiet_since_ns = await self._state(), self._clock.monotonic_ns()
        while self._clock.monotonic_ns() < deadline_ns:
            await self._clock.sleep(_LOOK_NS)
            now = await self._state()
            if now != before:
                before, quiet_since_ns = now, self._clock.monotonic_ns()
            elif self._clock.monotonic_ns() - quiet_since_ns >= _QUIET_NS:
                return True
        return False

    async def pods(self) -> dict[str, Pod]:
        """Pods that have not finished, by namespace and name."""
        found = await self.api.list(Pod)
        return {
            f"{pod.metadata.namespace}/{pod.metadata.name}": pod
            for pod in found.items
            if pod.status.phase not in ("Succeeded", "Failed")
        }

    async def nodes(self) -> list[Node]:
        return list((await self.api.list(Node)).items)

    async def preempted(self) -> set[str]:
        """Pods that the scheduler evicted to make room for others, by namespace and name."""
        return {
            f"{event.regarding.namespace}/{event.regarding.name}"
            for event in (await self.api.list(Event)).items
            if event.reason == _PREEMPTED and event.regarding is not None
        }

    async def evict(self, pod: Pod) -> str:
        """Evict a pod as `kubectl drain` does; why a budget refuses it, or nothing."""
        metadata = pod.metadata
        try:
            now_ns = current_clock().now_ns()
            admit_eviction(self.api.store, metadata.namespace, metadata.name, now_ns)
            await self.api.delete(Pod, metadata.name, metadata.namespace)
        except ApiError as error:
            return str(error) if error.code == _TOO_MANY else ""
        return ""

    async def _state(self) -> dict[str, tuple[str, bool]]:
        return {
            name: (pod.spec.node_name, pod.metadata.deletion_timestamp is not None)
            for name, pod in (await self.pods()).items()
        }


_TOO_MANY = 429
_PREEMPTED = "Preempted"
_META = Namespace().metadata


def _document(each: ApiObject, revision: int) -> dict[str, Any]:
    document: dict[str, Any] = with_identified_items(msgspec.to_builtins(each))
    metadata = {"uid": f"uid-{revision}", **document.get("metadata", {})}
    metadata["resourceVersion"] = str(revision)
    metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
    if isinstance(each, PodDisruptionBudget):
        # Counted anew by the copy's own controller; zero and unknown look alike in our types.
        document.pop("status", None)
    return {**document, "metadata": metadata}
