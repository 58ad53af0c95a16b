"""The points of a guided search: which devices are worth trying, and which points have failed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from kubesched.scheduler.plugins.dynamic_resources.device_candidates import DeviceCandidate
from kubesched.scheduler.plugins.dynamic_resources.device_requests import (
    ALL,
    ResolvedDeviceRequest,
)
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import NamedClaim
from kubesched.scheduler.plugins.dynamic_resources.device_selection import (
    DeviceSelection,
    RequestKey,
)
from kubesched.scheduler.plugins.dynamic_resources.device_taking import DeviceTaking
from kubesched.scheduler.plugins.dynamic_resources.search_guide import (
    GuidedAlternative,
    SearchGuide,
    SearchPoint,
    places_of,
)

__all__ = ["GuidedPoint", "GuidedPoints"]

_STEPS_PER_POINT = 5


class GuidedPoint(NamedTuple):
    """A point of the search, and a key that is equal for points with equal chances."""

    point: SearchPoint
    key: Hashable


class GuidedPoints:
    """The points that one search visits."""

    def __init__(
        self,
        claims: Sequence[NamedClaim],
        selection: DeviceSelection,
        taking: DeviceTaking,
        all_counts: Mapping[RequestKey, int],
        charge: Callable[[int], None],
        *,
        may_skip: bool,
    ) -> None:
        """Build the guide; `may_skip` is false if even a failed try may change a result."""
        self._claims = claims
        self._selection = selection
        self._taking = taking
        self._charge = charge
        self._may_skip = may_skip
        sizes = [len(view.devices) for view in selection.views]
        self._offsets = [0, *accumulate(sizes)]
        # The steps of an operation on bits of all devices.
        self._weight = 1 + self._offsets[-1] // 4096
        values_of = selection.value_reader()
        self._of_equal: dict[Hashable, int | None] = {}
        alternatives = [
            [
                [
                    self._alternative((claim, number, place), request, all_counts)
                    for place, request in enumerate(choice.alternatives)
                ]
                for number, choice in enumerate(requests.choices)
            ]
            for claim, (_, requests) in enumerate(claims)
        ]
        masks = [
            each.devices for requests in alternatives for choice in requests for each in choice
        ]
        # The properties that distinguish devices; their content is included if it may matter.
        self._masks = None if any(mask is None for mask in masks) else masks
        names = {each.name for constraints in taking.constraints for each in constraints}
        self._attributes = sorted(names)
        self._identities: dict[int, int] = {}  # by place of the device
        self._numbers: dict[Hashable, int] = {}
        self._failed: set[Hashable] = set()
        self._guide = SearchGuide(
            alternatives, taking.constraints, self._shareable(), values_of, charge, self._weight
        )

    def _alternative(
        self,
        key: RequestKey,
        request: ResolvedDeviceRequest,
        all_counts: Mapping[RequestKey, int],
    ) -> GuidedAlternative:
        return GuidedAlternative(
            key,
            request.request,
            request.subrequest,
            all_counts.get(key, request.count),
            request.mode,
            request.admin_access,
            None if request.mode == ALL else self._devices_of(key, request),
        )

    def _devices_of(self, key: RequestKey, request: ResolvedDeviceRequest) -> int | None:
        """Return the same devices for requests that differ in name and count only."""
        selects = (
            id(request.device_class),
            request.selectors,
            request.tolerations,
            tuple(request.capacity.items()),
            request.admin_access,
        )
        if selects not in self._of_equal:
            self._of_equal[selects] = self._devices(key, request)
        return self._of_equal[selects]

    def _devices(self, key: RequestKey, request: ResolvedDeviceRequest) -> int | None:
        """Return the devices that may be taken for a request, as bits."""
        found = 0
        self._charge(len(self._selection.views) * self._weight)
        for place, view in enumerate(self._selection.views):
            mask = self._selection.selected(key, request, place)
            if mask is None:
                return None
            if not request.admin_access:
                mask &= self._selection.unused(place)
            if mask and (request.capacity or not view.is_plain):
                self._charge(mask.bit_count() // 2)
                for each in list(places_of(mask)):
                    candidate = self._selection.candidate(place, each)
                    if not self._taking.is_suitable(request, candidate):
                        mask ^= 1 << each
            found |= mask << self._offsets[place]
        return found

    def _shareable(self) -> int:
        found = 0
        for place, view in enumerate(self._selection.views):
            if not view.is_plain:
                for each, device in enumerate(view.devices):
                    if self._taking.is_shareable(device.content):
                        found |= 1 << (self._offsets[place] + each)
        return found

    def point(self, key: RequestKey, left: int, start: tuple[int, int]) -> GuidedPoint:
        """Return this point of the search."""
        self._charge(_STEPS_PER_POINT * self._weight)
        first = self._offsets[start[0]] + start[1]
        taken = by_claim = 0
        after: list[int] = []
        identities: list[Hashable] = []
        for claim, results in enumerate(self._taking.results):
            of_claim: list[int] = []
            for candidate, pick in results:
                place = self._offsets[candidate.view_place] + candidate.place
                identity = self._identity_at(place, candidate) if self._may_skip else place
                if pick.is_share:
                    identity = self._number((identity, pick.request.full_name))
                else:
                    taken |= 1 << place
                    if claim == key[0]:
                        by_claim |= 1 << place
                of_claim.append(identity)
                if place >= first:
                    after.append(identity)
            identities.append(tuple(sorted(of_claim)))
        states = tuple(each.state for each in self._taking.constraints[key[0]])
        point = SearchPoint(key, left, first, taken, by_claim)
        chances = (key, left, first, tuple(sorted(after)), tuple(identities), states)
        return GuidedPoint(point, chances)

    def has_failed(self, point: GuidedPoint) -> bool:
        """Whether the search failed at a point with equal chances."""
        return point.key in self._failed

    def note_failed(self, point: GuidedPoint) -> None:
        self._failed.add(point.key)

    def worth_trying(
        self, guided: GuidedPoint, start: tuple[int, int]
    ) -> Iterator[DeviceCandidate]:
        """Yield the devices that may lead to a solution, in order."""
        devices = self._guide.devices_for(guided.point)
        if devices == 0:
            return
        for place in range(start[0], len(self._selection.views)):
            size = self._offsets[place + 1] - self._offsets[place]
            if not size:
                continue
            self._charge(1)
            first = start[1] if place == start[0] else 0
            if devices is None or not self._may_skip:
                for each in range(first, size):
                    yield self._selection.candidate(place, each)
                continue
            mask = devices >> self._offsets[place] & ((1 << size) - 1)
            for each in places_of(mask):
                yield self._selection.candidate(place, each)

    def identity(self, candidate: DeviceCandidate) -> Hashable:
        """Return a key that is equal for devices of which any may be taken for another."""
        place = self._offsets[candidate.view_place] + candidate.place
        return self._identity_at(place, candidate), tuple(candidate.taken_by)

    def _identity_at(self, place: int, candidate: DeviceCandidate) -> int:
        found = self._identities.get(place)
        if found is None:
            found = self._number(self._make_identity(candidate, place))
            self._identities[place] = found
        return found

    def _number(self, key: Hashable) -> int:
        """Return the same number for equal keys; places of devices are other numbers."""
        return self._numbers.setdefault(key, -1 - len(self._numbers))

    def _make_identity(self, candidate: DeviceCandidate, place: int) -> Hashable:
        content = candidate.content
        if self._masks is None or not content.is_plain or candidate.usage_matters:
            return candidate.static_key()
        self._charge(1 + len(self._masks) * self._weight // 8)
        return (
            tuple((mask or 0) >> place & 1 for mask in self._masks),
            tuple(content.value_of(name) for name in self._attributes),
            candidate.is_used,
        )
