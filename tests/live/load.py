"""The users of a live run: nodes, pods with volumes and devices, and watches for the referee."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

from kubesched.api import (
    DeviceClass,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    StorageClass,
)
from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.codec import to_builtins
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util.clock import current_clock
from tests.live.referee import Referee

__all__ = ["Load"]

Json = dict[str, Any]
_NODES = 10
_DEVICES = 4  # per node
_VOLUMES = 6  # per node
_DRIVER = "gpu.example.com"
_CLASS = "live-local"
_PODS_A_SECOND = 10.0
_MOST_PODS = 600  # at a time, so that most of them fit
_PAUSE_S = 8.0  # between two faults


class Load:
    """Creates and deletes pods for a while, and passes watch events to the referee."""

    def __init__(self, api: ApiAccess, rng: random.Random, referee: Referee) -> None:
        self._api, self._rng, self._referee = api, rng, referee
        self._numbers = iter(range(1 << 30))
        self._free: list[str] = []  # names of pods that may be deleted
        self.with_volume = self.with_device = 0

    async def run(
        self, seconds: float, inject: Callable[[], Awaitable[None]], rest_s: float
    ) -> list[str]:
        """Return the names of pods that still wait after a time without faults."""
        watching = [asyncio.create_task(each.run()) for each in self._informers()]
        try:
            await self._furnish()
            ends = asyncio.get_running_loop().time() + seconds
            faults = asyncio.create_task(self._inject(inject))
            while asyncio.get_running_loop().time() < ends:
                await self._change()
                await asyncio.sleep(1 / _PODS_A_SECOND)
            faults.cancel()
            await asyncio.gather(faults, return_exceptions=True)
            return await self._rest(rest_s)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    @staticmethod
    async def _inject(inject: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(_PAUSE_S)
            await asyncio.shield(inject())

    async def _rest(self, rest_s: float) -> list[str]:
        ends = asyncio.get_running_loop().time() + rest_s
        waiting = ["unknown"]
        while waiting and asyncio.get_running_loop().time() < ends:
            await asyncio.sleep(2)
            with contextlib.suppress(ApiError):
                pods = (await self._api.list(Pod, "default")).items
                waiting = [each.metadata.name for each in pods if not each.spec.node_name]
        return waiting

    def _informers(self) -> list[SharedInformer[Any]]:
        referee = self._referee
        kinds: dict[Any, tuple[Callable[[Json], None], Callable[[Json], None] | None]] = {
            Pod: (referee.pod, None),
            PersistentVolume: (referee.volume, None),
            PersistentVolumeClaim: (
                referee.volume_claim,
                lambda gone: referee.volume_claim(gone, is_deleted=True),
            ),
            ResourceClaim: (
                referee.device_claim,
                lambda gone: referee.device_claim(gone, is_deleted=True),
            ),
        }
        informers = []
        for kind, (look, look_gone) in kinds.items():
            informer = SharedInformer(self._api, kind, current_clock(), self._rng)
            informer.add_handler(
                lambda new, look=look: look(to_builtins(new)),
                lambda _old, new, look=look: look(to_builtins(new)),
                None if look_gone is None else _passing_on(look_gone),
            )
            informers.append(informer)
        return informers

    async def _furnish(self) -> None:
        """Create nodes with local volumes and devices, and the classes of both."""
        provisioner = {"provisioner": "kubernetes.io/no-provisioner"}
        await self._create(
            StorageClass, _CLASS, {**provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        )
        selector = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
        await self._create(DeviceClass, _DRIVER, {"spec": {"selectors": [selector]}})
        request = {"name": "gpu", "exactly": {"deviceClassName": _DRIVER}}
        template = {"spec": {"spec": {"devices": {"requests": [request]}}}}
        await self._create(ResourceClaimTemplate, "gpu", template, "default")
        for number in range(_NODES):
            await self._add_node(f"live-{number}")

    async def _add_node(self, name: str) -> None:
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
        labels = {"kubernetes.io/hostname": name}
        await self._create(Node, name, {"status": status}, labels=labels)
        # A real server ignores the status of a new object.
        with contextlib.suppress(ApiError):
            patch = {"status": status}
            await self._api.patch(Node, name, None, patch, patch_type="merge", subresource="status")
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
        terms = [{"matchExpressions": [expression]}]
        for number in range(_VOLUMES):
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": _CLASS,
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": f"/disk/{number}"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            }
            await self._create(PersistentVolume, f"{name}-{number}", {"spec": spec})
        devices = [{"name": f"gpu-{number}"} for number in range(_DEVICES)]
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": _DRIVER, "nodeName": name, "pool": pool, "devices": devices}
        await self._create(ResourceSlice, f"{name}-gpu", {"spec": spec})

    async def _create(
        self, kind: Any, name: str, document: Json, namespace: str | None = None, **metadata: Any
    ) -> bool:
        with contextlib.suppress(ApiError):
            document = {"metadata": {"name": name, **metadata}, **document}
            await self._api.create_document(kind, namespace, document)
            return True
        return False

    async def _change(self) -> None:
        """Create a pod, and delete another one if there are many."""
        name = f"live-{next(self._numbers)}"
        spec: Json = {"terminationGracePeriodSeconds": 0}
        container: Json = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}}
        what = self._rng.random()
        # Volumes are not released, so few pods have one.
        if what < 0.3 and self.with_volume < _NODES * _VOLUMES:
            self.with_volume += 1
            claim = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": _CLASS,
                "resources": {"requests": {"storage": "1Gi"}},
            }
            await self._create(PersistentVolumeClaim, name, {"spec": claim}, "default")
            volume = {"name": "disk", "persistentVolumeClaim": {"claimName": name}}
            spec["volumes"] = [volume]
        elif what < 0.6 and self.with_device < _NODES * _DEVICES:
            self.with_device += 1
            container["resources"]["claims"] = [{"name": "gpu"}]
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
        else:
            self._free.append(name)
        await self._create(Pod, name, {"spec": {**spec, "containers": [container]}}, "default")
        if len(self._free) > _MOST_PODS:
            gone = self._free.pop(self._rng.randrange(len(self._free)))
            with contextlib.suppress(ApiError):
                await self._api.delete(Pod, gone, "default", grace_period_seconds=0)


def _passing_on(look: Callable[[Json], None]) -> Callable[[Any, bool], None]:
    return lambda gone, _is_tombstone: look(to_builtins(gone))
