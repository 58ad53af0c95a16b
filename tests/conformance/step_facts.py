"""The effects of a step on the cluster: bound claims, allocated devices, nominated pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from kubesched.api import AllocationResult, PersistentVolumeClaim, Pod, ResourceClaim
from kubesched.api.codec import from_builtins, to_builtins
from kubesched.testing import FakeObjects
from tests.conformance.decision_harness import DecisionHarness

__all__ = ["StepFacts"]


class StepFacts:
    """Compares the objects before and after a step.

    Only the wide families recorded all effects. For the others only allocations are compared.
    """

    def __init__(self, *, is_wide: bool) -> None:
        self._is_wide = is_wide
        self._shares: dict[str, str] = {}  # random id -> its name in the recording

    def begin(self, objects: FakeObjects) -> None:
        self._volumes = _volumes(objects)
        self._claims = {_key(claim): claim for claim in objects.list(ResourceClaim)}

    def end(
        self, harness: DecisionHarness, pod: Pod, recorded: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the effects of the step, and replace them by the recorded ones."""
        objects = harness.objects
        got: dict[str, Any] = {}
        extended = self._extended_claim(objects, pod)
        placed = "chosen" in recorded or "chosenAfterPreemption" in recorded
        if placed and (pod.spec.resource_claims or extended):
            allocations = dict(self._allocations(objects, pod.metadata.namespace))
            if allocations:
                got["allocations"] = allocations
        if self._is_wide:
            got |= self._wide(harness, extended)
            harness.nominate(recorded.get("stillNominated", {}))
        self._go_on(objects, pod.metadata.namespace, got, recorded)
        return got

    def _wide(self, harness: DecisionHarness, extended: dict[str, Any] | None) -> dict[str, Any]:
        found = {
            "extendedClaim": extended,
            "bound": {
                name.partition("/")[2]: volume
                for name, volume in _volumes(harness.objects).items()
                if self._volumes.get(name) != volume
            },
            "deallocated": sorted(
                name
                for name, before in self._claims.items()
                if before.status.allocation is not None
                and (now := _claim(harness.objects, before)) is not None
                and now.status.allocation is None
            ),
            "stillNominated": harness.nominations(),
        }
        return {field: value for field, value in found.items() if value}

    def _allocations(self, objects: FakeObjects, namespace: str) -> Iterator[tuple[str, Any]]:
        claims = objects.list(ResourceClaim, namespace)
        for claim in sorted(claims, key=lambda each: each.metadata.name):
            if claim.status.allocation is None:
                continue
            allocation = to_builtins(claim.status.allocation)
            allocation.pop("allocationTimestamp", None)
            for result in allocation.get("devices", {}).get("results", ()):
                if share := result.get("shareID"):
                    name = self._shares.setdefault(share, f"share-{len(self._shares) + 1}")
                    result["shareID"] = name
            yield claim.metadata.name, allocation

    def _extended_claim(self, objects: FakeObjects, pod: Pod) -> dict[str, Any] | None:
        """The claim that was made in this step for the pod's extended resources."""
        made = [each for each in objects.list(ResourceClaim) if _key(each) not in self._claims]
        if not made:
            return None
        (claim,) = made
        current = objects.get(Pod, pod.metadata.name, pod.metadata.namespace)
        status = None if current is None else current.status.extended_resource_claim_status
        return {
            "name": claim.metadata.name,
            "spec": to_builtins(claim.spec),
            "requestMappings": [] if status is None else to_builtins(status.request_mappings),
        }

    def _go_on(
        self,
        objects: FakeObjects,
        namespace: str,
        got: Mapping[str, Any],
        recorded: Mapping[str, Any],
    ) -> None:
        """Allocate the devices of the recording."""
        if got.get("allocations") != recorded.get("allocations"):
            for name, allocation in recorded.get("allocations", {}).items():
                for result in allocation.get("devices", {}).get("results", ()):
                    if share := result.get("shareID"):
                        self._shares.setdefault(share, share)
                _allocate(objects, name, namespace, from_builtins(allocation, AllocationResult))
        for key in recorded.get("deallocated", ()):
            home, _, name = key.partition("/")
            _allocate(objects, name, home, None)


def _allocate(
    objects: FakeObjects, name: str, namespace: str, allocation: AllocationResult | None
) -> None:
    claim = objects.get(ResourceClaim, name, namespace)
    if claim is not None and claim.status.allocation != allocation:
        objects.put(replace(claim, status=replace(claim.status, allocation=allocation)))


def _volumes(objects: FakeObjects) -> dict[str, str]:
    """Claims for volumes, with the volumes that they are bound to."""
    return {
        _key(claim): claim.spec.volume_name
        for claim in objects.list(PersistentVolumeClaim)
        if claim.spec.volume_name
    }


def _claim(objects: FakeObjects, claim: ResourceClaim) -> ResourceClaim | None:
    return objects.get(ResourceClaim, claim.metadata.name, claim.metadata.namespace)


def _key(claim: PersistentVolumeClaim | ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
