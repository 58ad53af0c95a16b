"""Mutants of volume binding and of dynamic resources."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace as replaced

from kubesched.scheduler.plugins.helpers.volume_claims import SELECTED_NODE
from kubesched.scheduler.plugins.volume_binding.static_matching import find_match
from tests.fault_injection.mutants.mutant import (
    Mutant,
    Overlay,
    no,
    nothing,
    replace,
    replace_names,
    with_value,
    without_call,
    wrap,
    zero,
)

__all__ = ["MUTANTS"]

_VOLUMES = "kubesched.scheduler.plugins.volume_binding"
_DEVICES = "kubesched.scheduler.plugins.dynamic_resources"
_ALLOCATED = "kubesched.scheduler.plugins.dynamic_resources.allocated_devices"
_BINDER = "kubesched.scheduler.plugins.volume_binding.volume_binder.VolumeBinder"
_RESERVATION = "kubesched.scheduler.plugins.dynamic_resources.claim_reservation.ClaimReservation"


async def _write_no_reservation(
    original: Any, self: Any, claim: Any, allocation: Any, consumer: Any
) -> Any:
    async def update(changed: Any, **options: Any) -> Any:
        if options.get("subresource") == "status":
            users = tuple(each for each in changed.status.reserved_for if each != consumer)
            changed = replaced(changed, status=replaced(changed.status, reserved_for=users))
        return await self._handle.api.update(changed, **options)

    api = Overlay(self._handle.api, update=update)
    return await original(
        Overlay(self, _handle=Overlay(self._handle, api=api)), claim, allocation, consumer
    )


def _accept_any_node(original: Any, self: Any, written: Any, node: Any) -> bool:
    claim = self._claims.stored(written.metadata.name, written.metadata.namespace)
    name = claim.metadata.annotations.get(SELECTED_NODE) if claim is not None else None
    if name:
        node = replaced(node, metadata=replaced(node.metadata, name=name))
    return bool(original(self, written, node))


def _remove_for_two(original: Any, self: Any, uid: str, *, for_all: bool = False) -> Any:
    return original(self, uid, for_all=for_all or self._sharers.get(uid) == 2)


def _match_again(claim: Any, index: Any, labels: Any, _taken: Any) -> Any:
    return find_match(claim, index, labels, ())


async def _forget_allocation(
    original: Any, self: Any, claim: Any, allocation: Any, consumer: Any
) -> Any:
    if allocation is not None:
        claim = replaced(claim, status=replaced(claim.status, allocation=None))
    return await original(self, claim, allocation, consumer)


def _ignore_other_devices(original: Any, self: Any, old: Any, new: Any) -> None:
    if old is None or new is None or None in (old.status.allocation, new.status.allocation):
        original(self, old, new)


MUTANTS = {
    "a volume stays assumed": Mutant(
        211, (replace(f"{_VOLUMES}.assume_cache.AssumeCache.restore", nothing),)
    ),
    "a local volume is used from another node": Mutant(
        1,
        (
            replace(f"{_VOLUMES}.volume_finder.VolumeFinder._bound_problem", zero),
            replace(f"{_VOLUMES}.column_volume_finder.required_nodes", nothing),
        ),
    ),
    "a device is allocated to two claims": Mutant(
        9, (replace(f"{_ALLOCATED}.AllocatedDevices.take", nothing),)
    ),
    "devices are never released": Mutant(
        9, (replace(f"{_ALLOCATED}.AllocatedDevices.give_back", nothing),)
    ),
    "claims stay in flight": Mutant(9, (replace(f"{_ALLOCATED}.InFlightClaims.remove", no),)),
    "volumes stay reserved when a binding fails": Mutant(
        32, (replace(f"{_VOLUMES}.VolumeBinding.unreserve", nothing),)
    ),
    "devices stay reserved when a binding fails": Mutant(
        62, (replace(f"{_RESERVATION}.unreserve", nothing),)
    ),
    "devices of claims in flight are free": Mutant(
        9, (replace(f"{_ALLOCATED}.InFlightClaims.add", nothing),)
    ),
    "a reservation is not written": Mutant(
        9, (wrap(f"{_DEVICES}.claim_writing.ClaimWriter._write_once", _write_no_reservation),)
    ),
    "a changed claim is not read again": Mutant(
        298, (replace(f"{_RESERVATION}._refresh", nothing),)
    ),
    "a pod is bound before its volumes": Mutant(
        1, (replace(f"{_VOLUMES}.volume_binder.VolumeBinder._wait", nothing),)
    ),
    "an assumed volume is never dropped for a stored one": Mutant(
        1,
        (
            with_value(
                f"{_VOLUMES}.assume_cache.AssumeCache._follow",
                "self._assumed.get",
                lambda _: nothing,
            ),
        ),
    ),
    "the first of two pods that share a claim in flight ends that for both": Mutant(
        59, (wrap(f"{_ALLOCATED}.InFlightClaims.remove", _remove_for_two),)
    ),
    "a claim that got other devices in a gap keeps the first ones": Mutant(
        46, (wrap(f"{_ALLOCATED}.AllocatedDevices.claim_changed", _ignore_other_devices),)
    ),
    "two claims of a pod get one volume": Mutant(
        29,
        (replace_names(f"{_VOLUMES}.volume_finder.VolumeFinder.find", find_match=_match_again),),
    ),
    "the node that a claim has selected is compared only for being set": Mutant(
        17, (wrap(f"{_BINDER}._is_provisioned", _accept_any_node),)
    ),
    "claims stay assumed": Mutant(
        211,
        (without_call(f"{_BINDER}._restore", "self._claims.restore"),),
    ),
    "a claim that was allocated elsewhere is overwritten": Mutant(
        9,
        (
            replace(f"{_DEVICES}.claim_writing.check_devices_stayed", nothing),
            wrap(f"{_DEVICES}.claim_writing.ClaimWriter._write_once", _forget_allocation),
        ),
    ),
    "devices are free while it is unknown whether they were written": Mutant(
        97, (with_value(f"{_RESERVATION}.unreserve", "self._devices.unsettled", lambda _: ()),)
    ),
    "a claim stays reserved when a binding fails": Mutant(
        26, (replace_names(f"{_RESERVATION}.unreserve", is_reserved_for=no),)
    ),
    "devices that a failed binding gives back requeue no pod": Mutant(
        158,
        (
            without_call(
                f"{_DEVICES}.device_state.DeviceState.remove_in_flight", "self.claims.gave_back"
            ),
        ),
    ),
}
