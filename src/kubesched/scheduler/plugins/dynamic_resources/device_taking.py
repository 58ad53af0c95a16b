"""Takes devices for requests and gives them back (docs/reference/08 §8.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kubesched.api.quantity import Quantity
from kubesched.scheduler.plugins.dynamic_resources.attempt_usage import AttemptUsage
from kubesched.scheduler.plugins.dynamic_resources.device_candidates import DeviceCandidate
from kubesched.scheduler.plugins.dynamic_resources.device_capacity import consumption
from kubesched.scheduler.plugins.dynamic_resources.device_constraints import AttributeConstraint
from kubesched.scheduler.plugins.dynamic_resources.device_content import DeviceContent
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures
from kubesched.scheduler.plugins.dynamic_resources.device_requests import ResolvedDeviceRequest
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import (
    AllocationError,
    NamedClaim,
    Pick,
)
from kubesched.scheduler.plugins.dynamic_resources.device_taints import are_tolerated

__all__ = ["DeviceTaking"]


class DeviceTaking:
    """The devices that one search has taken so far, with the states of constraints."""

    def __init__(self, claims: Sequence[NamedClaim], features: DeviceFeatures) -> None:
        self._claims = claims
        self._features = features
        self._taken = AttemptUsage()
        self.constraints: list[list[AttributeConstraint]] = []
        self.results: list[list[tuple[DeviceCandidate, Pick]]] = [[] for _ in claims]
        self._touched: dict[int, int] = {}  # view -> number of devices this search took
        self.constraint_refusals = 0

    def is_touched(self, view_place: int) -> bool:
        """Whether this search took a device of the pool."""
        return view_place in self._touched and self._touched[view_place] > 0

    def has_room(self, request: ResolvedDeviceRequest, candidate: DeviceCandidate) -> bool:
        """Whether the device has the requested capacity left."""
        return not self._features.consumable_capacity or self._taken.has_room(
            candidate, request.capacity
        )

    def is_shareable(self, content: DeviceContent) -> bool:
        return self._features.consumable_capacity and content.allows_sharing

    def is_suitable(self, request: ResolvedDeviceRequest, candidate: DeviceCandidate) -> bool:
        """Whether the device may be taken for the request if constraints allow it."""
        content = candidate.content
        if content.device.consumes_counters and not self._features.partitionable_devices:
            return False
        return not self._is_tainted(request, candidate) and self.has_room(request, candidate)

    def _is_tainted(self, request: ResolvedDeviceRequest, candidate: DeviceCandidate) -> bool:
        taints = candidate.content.blocking_taints
        return (
            self._features.device_taints
            and bool(taints)
            and not are_tolerated(taints, request.tolerations)
        )

    def take(
        self, claim: int, request: ResolvedDeviceRequest, candidate: DeviceCandidate, *, must: bool
    ) -> Callable[[], None] | None:
        """Take the device for the request.

        Return how to undo that, or None if it is refused.
        """
        is_share = self.is_shareable(candidate.content)
        if request.admin_access:
            if not is_share and claim in candidate.taken_by:
                return None
        elif candidate.is_in_use:
            return None
        content = candidate.content
        consumes = bool(content.device.consumes_counters)
        if consumes and not self._features.partitionable_devices:
            return None
        counts = consumes and not (is_share and self._taken.has_any_entry(candidate))
        if counts and not self._taken.take_counters(candidate):
            return None
        if not self._may_take(claim, request, candidate, must=must, counts=counts):
            return None
        if not is_share:
            candidate.taken_by.append(claim)
        consumed: Mapping[str, Quantity] = {}
        had_entry = self._taken.has_entry(candidate)
        if not self.has_room(request, candidate):
            self._undo(claim, request, candidate, counts=counts, is_share=is_share)
            return None
        if is_share:
            consumed = consumption(content.capacity, request.capacity)
            self._taken.take_capacity(candidate, consumed)
        pick = Pick(candidate.view_place, candidate.place, request, is_share, consumed)
        self.results[claim].append((candidate, pick))
        view_place = candidate.view_place
        self._touched[view_place] = self._touched.get(view_place, 0) + 1

        def undo() -> None:
            self.results[claim].pop()
            self._touched[view_place] -= 1
            if is_share:
                self._taken.give_back_capacity(candidate, consumed, keep_entry=had_entry)
            self._undo(claim, request, candidate, counts=counts, is_share=is_share)

        return undo

    def _may_take(
        self,
        claim: int,
        request: ResolvedDeviceRequest,
        candidate: DeviceCandidate,
        *,
        must: bool,
        counts: bool,
    ) -> bool:
        """Whether taints and constraints allow the device.

        If not, everything is reverted.
        """
        content = candidate.content
        if self._is_tainted(request, candidate):
            if counts:
                self._taken.give_back_counters(candidate)
            return False
        for place, constraint in enumerate(self.constraints[claim]):
            if constraint.add(request.request, request.subrequest, content):
                continue
            for added in reversed(self.constraints[claim][:place]):
                added.remove(request.request, request.subrequest, content)
            self.constraint_refusals += 1
            if counts:
                self._taken.give_back_counters(candidate)
            if must:
                device = "/".join((*candidate.view.pool.pool_id, candidate.device.name))
                raise AllocationError(
                    f"claim {self._claims[claim].name}, request {request.own_name}: cannot add "
                    f"device {device} because a claim constraint would not be satisfied"
                )
            return False
        return True

    def _undo(
        self,
        claim: int,
        request: ResolvedDeviceRequest,
        candidate: DeviceCandidate,
        *,
        counts: bool,
        is_share: bool,
    ) -> None:
        if not is_share:
            candidate.taken_by.pop()
        for constraint in reversed(self.constraints[claim]):
            constraint.remove(request.request, request.subrequest, candidate.content)
        if counts:
            self._taken.give_back_counters(candidate)
