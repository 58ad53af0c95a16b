"""Assume, write and await the volumes and claims of a placed pod.

The rules are in docs/reference/07 §5.7, §5.9.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kubesched.api import (
    Node,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from kubesched.errors import SelectorError
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import Handle
from kubesched.scheduler.plugins.helpers.volume_claims import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    VolumeClaimError,
    is_fully_bound,
    not_found,
)
from kubesched.scheduler.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.scheduler.plugins.volume_binding.migration import Migration
from kubesched.scheduler.plugins.volume_binding.static_matching import is_reserved_for
from kubesched.scheduler.plugins.volume_binding.volume_finder import PodVolumes
from kubesched.scheduler.plugins.volume_binding.volume_index import required_nodes

__all__ = ["VolumeBinder", "VolumeReservation"]

_POLL_NS = SECOND

Binding = tuple[PersistentVolume, PersistentVolumeClaim]


class VolumeReservation:
    """The volumes and claims that were assumed for a pod; PreBind writes them."""

    __slots__ = ("claims", "node_name", "volumes")

    def __init__(self, node_name: str) -> None:
        self.node_name = node_name
        self.volumes: list[Binding] = []
        self.claims: list[PersistentVolumeClaim] = []


class VolumeBinder:
    """Binds volumes and claims; every assumption can be reverted."""

    def __init__(
        self,
        handle: Handle,
        volumes: AssumeCache[PersistentVolume],
        claims: AssumeCache[PersistentVolumeClaim],
        migration: Migration,
        timeout_ns: int,
    ) -> None:
        self._handle = handle
        self._nodes = handle.lister(Node)
        self._pods = handle.lister(Pod)
        self._volumes = volumes
        self._claims = claims
        self._migration = migration
        self._timeout_ns = timeout_ns

    def assume(self, found: PodVolumes, node_name: str) -> VolumeReservation:
        """Assume the volumes and claims in the state that PreBind will write.

        Raises:
            VolumeClaimError: one of them changed. Nothing is assumed then.
        """
        reservation = VolumeReservation(node_name)
        assumed_volumes: list[PersistentVolume] = []
        assumed_claims: list[PersistentVolumeClaim] = []
        try:
            for volume, claim in found.static:
                bound = _bound_to(volume, claim)
                if bound is not volume:
                    self._volumes.assume(bound)
                    assumed_volumes.append(bound)
                reservation.volumes.append((bound, claim))
            for claim, _ in found.dynamic:
                selected = _on_node(claim, node_name)
                self._claims.assume(selected)
                assumed_claims.append(selected)
                reservation.claims.append(selected)
        except VolumeClaimError:
            self._restore(assumed_volumes, assumed_claims)
            raise
        return reservation

    def give_back(self, reservation: VolumeReservation) -> None:
        """Revert the assumptions; changes that were written stay."""
        self._restore([volume for volume, _ in reservation.volumes], reservation.claims)

    def _restore(
        self, volumes: list[PersistentVolume], claims: list[PersistentVolumeClaim]
    ) -> None:
        for volume in volumes:
            self._volumes.restore(volume)
        for claim in claims:
            self._claims.restore(claim)

    async def bind(self, reservation: VolumeReservation, pod: Pod) -> None:
        """Write the assumed changes, and wait until all claims are bound.

        Raises:
            ApiError: the server refused a change.
            VolumeClaimError: binding failed or timed out.
        """
        written = await self._write(reservation)
        await self._wait(reservation, written, pod)

    async def _write(self, reservation: VolumeReservation) -> list[PersistentVolumeClaim]:
        """Write the changes; return the claims, and store the volumes in the reservation."""
        api, volumes = self._handle.api, reservation.volumes
        done = 0
        written: list[PersistentVolumeClaim] = []
        try:
            for place, (volume, claim) in enumerate(volumes):
                volumes[place] = (await api.update(volume), claim)
                done += 1
            for selected in reservation.claims:
                updated = await api.update(selected)
                written.append(updated)
        except BaseException:
            left = [volume for volume, _ in volumes[done:]]
            self._restore(left, reservation.claims[len(written) :])
            raise
        return written

    async def _wait(
        self, reservation: VolumeReservation, written: list[PersistentVolumeClaim], pod: Pod
    ) -> None:
        clock = self._handle.clock
        deadline_ns = clock.monotonic_ns() + self._timeout_ns
        while True:
            left_ns = deadline_ns - clock.monotonic_ns()
            if left_ns <= _POLL_NS:
                # Another check would exceed the deadline.
                if left_ns > 0:
                    await clock.sleep(left_ns)
                raise VolumeClaimError("binding volumes: context deadline exceeded")
            await clock.sleep(_POLL_NS)
            try:
                if self._is_done(reservation, written, pod):
                    return
            except VolumeClaimError as exc:
                raise VolumeClaimError(f"binding volumes: {exc}") from exc

    def _is_done(
        self, reservation: VolumeReservation, written: list[PersistentVolumeClaim], pod: Pod
    ) -> bool:
        """Whether all claims are bound, according to the informers."""
        node_name = reservation.node_name
        node = self._nodes.get(node_name)
        if node is None:
            raise VolumeClaimError(
                f'failed to get node "{node_name}": node "{node_name}" not found'
            )
        current = self._pods.get(pod.metadata.name, pod.metadata.namespace)
        if current is None or current.metadata.uid != pod.metadata.uid:
            gone = f'pod "{pod.metadata.name}" not found'
            raise VolumeClaimError(f"pod does not exist any more: {gone}")
        return all(
            self._is_volume_bound(volume, claim, node) for volume, claim in reservation.volumes
        ) and all(self._is_provisioned(claim, node) for claim in written)

    def _is_volume_bound(
        self, written: PersistentVolume, claim: PersistentVolumeClaim, node: Node
    ) -> bool:
        metadata = claim.metadata
        volume = self._volumes.stored(written.metadata.name)
        if volume is None:
            cause = self._volumes.not_found(written.metadata.name)
            raise VolumeClaimError(f"failed to check binding: {cause}")
        current = self._claims.stored(metadata.name, metadata.namespace)
        if current is None or current.metadata.uid != metadata.uid:
            cause = self._claims.not_found(metadata.name, metadata.namespace)
            raise VolumeClaimError(f"failed to check binding: {cause}")
        if current.spec.volume_name not in ("", volume.metadata.name):
            # The claim was bound before, and no watch had reported it: the volume may be elsewhere.
            raise VolumeClaimError(
                f'pvc "{metadata.name}" is bound to pv "{current.spec.volume_name}", '
                f'not to "{volume.metadata.name}"'
            )
        if _number(volume) < _number(written):
            return False  # the informer does not have the written version yet
        try:
            translated = self._migration.translated(volume, node.metadata.name)
        except VolumeClaimError as exc:
            raise VolumeClaimError(f"failed to translate pv to csi: {exc}") from exc
        _check_reachable(translated, node)
        reference = volume.spec.claim_ref
        if reference is None or not reference.uid:
            raise VolumeClaimError(f'ClaimRef got reset for pv "{volume.metadata.name}"')
        return is_fully_bound(current)

    def _is_provisioned(self, written: PersistentVolumeClaim, node: Node) -> bool:
        metadata = written.metadata
        claim = self._claims.stored(metadata.name, metadata.namespace)
        if claim is None:
            cause = not_found(PersistentVolumeClaim, metadata.name)
            raise VolumeClaimError(f"failed to check provisioning pvc: {cause}")
        if _number(claim) < _number(written):
            return False
        if not claim.metadata.annotations:
            raise VolumeClaimError(f'selectedNode annotation reset for PVC "{metadata.name}"')
        if claim.metadata.annotations.get(SELECTED_NODE, "") != node.metadata.name:
            raise VolumeClaimError(f'provisioning failed for PVC "{metadata.name}"')
        if claim.spec.volume_name:
            volume = self._volumes.stored(claim.spec.volume_name)
            if volume is None:
                return False  # the informer of volumes lags behind that of claims
            _check_reachable(self._migration.translated(volume, node.metadata.name), node)
        return is_fully_bound(claim)


def _bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return the volume bound to the claim; the same object if it is bound already."""
    metadata, reference = claim.metadata, volume.spec.claim_ref
    bound = volume
    if reference is None or (
        (reference.name, reference.namespace, reference.uid)
        != (metadata.name, metadata.namespace, metadata.uid)
    ):
        pointer = ObjectReference(
            kind="PersistentVolumeClaim",
            api_version="v1",
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
        )
        bound = replace(bound, spec=replace(bound.spec, claim_ref=pointer))
    # A volume that a user reserved for the claim is not marked as bound by a controller.
    if not is_reserved_for(volume, claim) and (
        BOUND_BY_CONTROLLER not in volume.metadata.annotations
    ):
        bound = _annotated(bound, {BOUND_BY_CONTROLLER: "yes"})
    return bound


def _on_node(claim: PersistentVolumeClaim, node_name: str) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, SELECTED_NODE: node_name}
    return replace(claim, metadata=replace(claim.metadata, annotations=annotations))


def _annotated(volume: PersistentVolume, more: Mapping[str, str]) -> PersistentVolume:
    annotations = {**volume.metadata.annotations, **more}
    return replace(volume, metadata=replace(volume.metadata, annotations=annotations))


def _check_reachable(volume: PersistentVolume, node: Node) -> None:
    matcher = required_nodes(volume)
    if matcher is None:
        return
    reason = "no matching NodeSelectorTerms"
    try:
        if matcher.check(node.metadata.labels, ""):
            return
    except SelectorError as exc:
        reason = str(exc)
    raise VolumeClaimError(
        f'pv "{volume.metadata.name}" node affinity doesn\'t match node '
        f'"{node.metadata.name}": {reason}'
    )


def _number(stored: PersistentVolume | PersistentVolumeClaim) -> int:
    return int(stored.metadata.resource_version or 0)
