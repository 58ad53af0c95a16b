"""An embedded cluster with custom resources and a scheduler with optional plugins."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from kubesched.api import Node, Pod, PriorityClass
from kubesched.api.custom_kinds import CustomObject, custom_kind
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.manifests import apply_manifests, load_manifests
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.randomness import derive
from kubesched.framework import Plugin

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
CRDS = ROOT / "deploy" / "crds"


class ContribHarness:
    """A live cluster in virtual time; use `running()` as a context manager."""

    def __init__(
        self,
        profile: Json,
        plugins: list[type[Plugin]],
        crds: list[str],
        seed: int = 0,
        faults: Any = None,
        **options: Any,
    ) -> None:
        self.clock = current_clock()
        cluster = EmbeddedCluster(
            self.clock, derive(seed, "store"), heartbeats=False, start_delay_ns=0
        )
        if faults is not None:
            cluster.api._faults = faults
        self.live = LiveCluster(
            cluster,
            profiles=[{"schedulerName": "default-scheduler", **profile}],
            out_of_tree_registry={each.name: each for each in plugins},
            seed=seed,
            **options,
        )
        self._classes: set[str] = set()
        self.crds = [CRDS / name for name in crds]

    @property
    def api(self) -> LocalApi:
        return self.live.api

    async def prepare(self) -> None:
        if self.crds:
            await apply_manifests(self.api, load_manifests(self.crds))

    async def node(
        self, name: str, cpu: str = "4", extended: Json | None = None, **labels: str
    ) -> None:
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110", **(extended or {})}
        document = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
            "status": {"capacity": amounts, "allocatable": amounts},
        }
        await self.api.create_document(Node, None, document)

    async def pod(
        self,
        name: str,
        cpu: str = "1",
        labels: Json | None = None,
        namespace: str = "default",
        priority: int | None = None,
        **spec: Any,
    ) -> None:
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        if priority:
            spec["priorityClassName"] = await self._priority_class(priority)
        await self.api.create_document(
            Pod,
            namespace,
            {
                "metadata": {"name": name, "labels": labels or {}},
                "spec": {"containers": [container], **spec},
            },
        )

    async def _priority_class(self, value: int) -> str:
        name = f"priority-{value}"
        if name not in self._classes:
            self._classes.add(name)
            document = {"metadata": {"name": name}, "value": value}
            await self.api.create_document(PriorityClass, None, document)
        return name

    async def custom(
        self, resource: str, name: str, spec: Json, namespace: str = "default"
    ) -> None:
        kind = custom_kind(resource)
        assert kind is not None
        await self.api.create_document(
            kind.type, namespace, {"metadata": {"name": name}, "spec": spec}
        )

    async def status(self, resource: str, name: str, namespace: str = "default") -> Json:
        kind = custom_kind(resource)
        assert kind is not None
        found: Any = await self.api.get(kind.type, name, namespace)
        assert isinstance(found, CustomObject)
        return found.status

    async def pods(self) -> dict[str, Pod]:
        return {pod.metadata.name: pod for pod in (await self.api.list(Pod)).items}

    async def placed(self) -> set[str]:
        return {name for name, pod in (await self.pods()).items() if pod.spec.node_name}

    async def placed_by(self, key: Callable[[Pod], str]) -> Counter[str]:
        found = (await self.api.list(Pod)).items
        return Counter(key(pod) for pod in found if pod.spec.node_name)

    async def until(self, done: Callable[[], Any], seconds: int = 600) -> None:
        """Wait in virtual time until an asynchronous condition holds."""
        for _ in range(seconds):
            if await done():
                return
            await asyncio.sleep(1)
        raise AssertionError(f"not fulfilled in {seconds} s")


def manifest(path: str) -> list[Json]:
    return [each for each in yaml.safe_load_all((ROOT / path).read_text()) if each]
