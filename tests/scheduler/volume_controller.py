"""A volume controller for tests: binds the scheduler's choice, provisions, or fails.

It does only what PreBind waits for. It polls all objects every half a second, so it needs no
watches, and retries after conflicts.
"""

from __future__ import annotations

import contextlib
import random

from msgspec.structs import replace

from kubesched.api import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.foundation.util.clock import MILLISECOND, Clock
from kubesched.testing import make_pv

__all__ = ["VolumeController"]

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class VolumeController:
    """`failure_share` of the provisionings fail: the selected node is taken back."""

    def __init__(
        self, api: LocalApi, clock: Clock, rng: random.Random, failure_share: float = 0.0
    ) -> None:
        self._api, self._clock, self._random = api, clock, rng
        self.failure_share = failure_share
        self._stopping = False

    async def run(self) -> None:
        while not self._stopping:
            await self._clock.sleep(500 * MILLISECOND)
            with contextlib.suppress(ApiError):
                await self._look()

    def stop(self) -> None:
        self._stopping = True

    async def _look(self) -> None:
        claims = {
            (claim.metadata.namespace, claim.metadata.name): claim
            for claim in (await self._api.list(PersistentVolumeClaim)).items
        }
        for volume in (await self._api.list(PersistentVolume)).items:
            reference = volume.spec.claim_ref
            if reference is None or not reference.uid:
                continue
            claim = claims.get((reference.namespace, reference.name))
            if claim is not None and not claim.spec.volume_name:
                await self._complete(claim, volume)
        for claim in claims.values():
            if SELECTED_NODE in claim.metadata.annotations and not claim.spec.volume_name:
                await self._provision(claim)

    async def _provision(self, claim: PersistentVolumeClaim) -> None:
        if self._random.random() < self.failure_share:
            annotations = {**claim.metadata.annotations}
            del annotations[SELECTED_NODE]
            annotations["failed"] = str(self._random.random())
            metadata = replace(claim.metadata, annotations=annotations)
            await self._api.update(replace(claim, metadata=metadata))
            return
        made = make_pv(
            f"pvc-{claim.metadata.uid}",
            uid="",
            storage_class=claim.spec.storage_class_name or "",
            size=claim.spec.resources.requests["storage"],
            claim=claim,
        )
        made = replace(made, metadata=replace(made.metadata, resource_version=""))
        with contextlib.suppress(ApiError):  # the volume exists, and the claim was not updated
            await self._api.create(made)
        await self._complete(claim, await self._api.get(PersistentVolume, made.metadata.name))

    async def _complete(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        assert isinstance(volume.spec.claim_ref, ObjectReference)
        current = await self._api.get(
            PersistentVolumeClaim, claim.metadata.name, claim.metadata.namespace
        )
        if current.spec.volume_name or current.metadata.uid != volume.spec.claim_ref.uid:
            return
        annotations = {**current.metadata.annotations, BIND_COMPLETED: "yes"}
        bound = replace(
            current,
            metadata=replace(current.metadata, annotations=annotations),
            spec=replace(current.spec, volume_name=volume.metadata.name),
        )
        written = await self._api.update(bound)
        status = replace(written.status, phase="Bound")
        await self._api.update(replace(written, status=status), subresource="status")
