"""The cluster of a recorded scenario, with the real cache, plugins and scheduling algorithm.

Only the parts outside a scheduler are simulated: the objects are a dictionary, and the volume
controller does what that of the recording did. Pods that are nominated from the start wait and
are never tried.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Coroutine, Mapping
from typing import Any

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.api.codec import from_builtins
from kubesched.api.kinds import by_api_version_kind
from kubesched.foundation.util.clock import Clock
from kubesched.framework import ClusterVersion, Nominating, NominatingMode, PodInfo
from kubesched.framework.pod_info import assigned_to
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.config import default_configuration
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.profiles import build_profiles
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.services import Services
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.scheduler.search.fit_checks import FitChecks
from kubesched.testing import FakeApi, FakeObjects, FakeRecorder, make_nominator
from tests.conformance.volume_controller import VolumeController

__all__ = ["DecisionHarness", "parse_object"]


def parse_object(document: Mapping[str, Any]) -> ApiObject:
    """Decode an object from JSON with `kind` and `apiVersion`."""
    kind = by_api_version_kind(document["apiVersion"], document["kind"])
    assert kind is not None, f"no type for {document['apiVersion']} {document['kind']}"
    return from_builtins(document, kind.type)


class DecisionHarness:
    """A cluster of recorded objects, and the parts of a scheduler for it."""

    def __init__(
        self, config: Mapping[str, Any] | None, documents: list[dict[str, Any]], clock: Clock
    ) -> None:
        self.objects = FakeObjects(map(parse_object, documents))
        self.cache = Cache()
        for node in self.objects.list(Node):
            self.cache.add_node(node)
        for pod in self.objects.list(Pod):
            if pod.spec.node_name:
                self.cache.add_pod(pod)
        VolumeController(self.objects)
        self.api = FakeApi(self.objects)
        self.nominator = make_nominator(self.objects)
        self.objects.listeners.append(self._follow_nomination)
        for pod in self.waiting_pods():
            self.nominator.add_nominated_pod(PodInfo(pod), None)
        self.work: list[asyncio.Task[None]] = []
        rng = random.Random(0)
        services = Services(
            snapshot=self.cache.snapshot,
            api=self.api,
            recorder_of=lambda _: FakeRecorder(),
            clock=clock,
            random=rng,
            lister=self.objects.lister,
            feature_enabled=DEFAULT_FEATURE_GATES.enabled,
            nominator=lambda: self.nominator,
            activate=lambda _: None,
            spawn=self._spawn,
            fits_now=self._fits_now,
            fits_without=self._fits_without,
        )
        configuration = (
            default_configuration(DEFAULT_FEATURE_GATES)
            if config is None
            else configuration_from_builtins(config)
        )
        self.frameworks = build_profiles(configuration.profiles, IN_TREE_PLUGINS, services)
        # Recordings without this value used 100.
        percentage = configuration.percentage_of_nodes_to_score or 100
        self.search = CachedSearch(self.cache.snapshot, rng, percentage)
        self.fit_checks = FitChecks(self.cache.snapshot, self.search.filtering)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.work.append(asyncio.get_running_loop().create_task(work, name=name))

    def _fits_now(self, profile: str, pod_info: PodInfo, since: ClusterVersion) -> bool:
        return self.fit_checks.fits_now(self.frameworks[profile], pod_info, since)

    def _fits_without(
        self, profile: str, pod_info: PodInfo, node_name: str, gone: Collection[PodInfo]
    ) -> bool:
        return self.fit_checks.fits_without(self.frameworks[profile], pod_info, node_name, gone)

    async def finish_work(self) -> None:
        """Wait until the background work of plugins has ended."""
        while self.work:
            await self.work.pop()

    def framework_of(self, pod: Pod) -> Framework:
        return self.frameworks[pod.spec.scheduler_name]

    def settle(self, pod: Pod, node_name: str) -> None:
        """Run the pod on the node, whether or not it was assumed there."""
        self.nominator.delete_nominated_pod(pod)
        current = self.objects.get(Pod, pod.metadata.name, pod.metadata.namespace)
        bound = assigned_to(current or pod, node_name)
        self.cache.add_pod(bound)
        self.objects.put(bound)

    def waiting_pods(self) -> list[Pod]:
        return [pod for pod in self.objects.list(Pod) if not pod.spec.node_name]

    def nominations(self) -> dict[str, str]:
        """Pods that are nominated and on no node, by `namespace/name`, with their nodes."""
        return {
            f"{pod.metadata.namespace}/{pod.metadata.name}": node_name
            for pod in self.waiting_pods()
            if (node_name := self.nominator.node_of(pod.metadata.uid))
        }

    def nominate(self, wanted: Mapping[str, str]) -> None:
        """Replace all nominations."""
        now = self.nominations()
        for pod in self.waiting_pods():
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            if now.get(key, "") != wanted.get(key, ""):
                override = Nominating(NominatingMode.OVERRIDE, wanted.get(key, ""))
                self.nominator.add_nominated_pod(PodInfo(pod), override)

    def _follow_nomination(self, old: Any, new: Any) -> None:
        """Update a waiting pod's nomination, as the queue does."""
        if (
            isinstance(old, Pod)
            and isinstance(new, Pod)
            and not new.spec.node_name
            and old.status.nominated_node_name != new.status.nominated_node_name
        ):
            self.nominator.update_nominated_pod(old, PodInfo(new))

    def evict(self, names: list[str]) -> None:
        """Delete pods named `namespace/name`."""
        for name in names:
            namespace, _, pod_name = name.partition("/")
            pod = self.objects.get(Pod, pod_name, namespace)
            assert pod is not None, f"victim {name} does not exist"
            self.cache.remove_pod(pod)
            self.objects.remove(Pod, pod_name, namespace)
