"""Which devices a search need not try, because they cannot lead to a solution.

A search without limits tries every combination of devices before it fails: with 40 devices and a
request for 20, more than 10^11 of them. The guide counts instead. At a point of the search it
computes how many devices remain for this request and the following ones: per value of a
matchAttribute constraint, per request, and for all requests together. It only excludes devices that
cannot lead to a solution, so the first solution is the same as the reference's (decision 0041).

Devices are bits of an integer, in the order of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kubesched.scheduler.plugins.dynamic_resources.device_constraints import (
    AttributeConstraint,
    DistinctAttribute,
    MatchAttribute,
)
from kubesched.scheduler.plugins.dynamic_resources.device_content import AttributeValue
from kubesched.scheduler.plugins.dynamic_resources.device_requests import ALL, MAX_RESULTS
from kubesched.scheduler.plugins.dynamic_resources.request_matching import DeviceDemand, can_be_met

__all__ = ["GuidedAlternative", "SearchGuide", "SearchPoint", "places_of"]

# More bytes of value masks than this are not built; such a group is not used.
_MOST_MASK_BYTES = 32 << 20
_PASSES = 3

Place = tuple[int, int, int]  # claim, request, alternative


class GuidedAlternative(NamedTuple):
    """The inputs of the guide from a request, or from one alternative of it."""

    place: Place
    request: str
    subrequest: str
    wanted: int
    mode: str
    is_admin: bool
    # The devices that may be taken; None if an error may occur for one of them.
    devices: int | None


class SearchPoint(NamedTuple):
    """A point of the search: some devices of a request are taken."""

    place: Place
    left: int  # devices that the request still needs
    start: int  # the first device that may be taken for it
    # The devices that this search took as a whole, in all and by this claim.
    taken: int
    taken_by_claim: int


class _Group(NamedTuple):
    """Constraints that require one combination of values for the same requests."""

    constraints: tuple[MatchAttribute, ...]
    members: frozenset[Place]
    masks: Mapping[tuple[AttributeValue | None, ...], int]


class _Option(NamedTuple):
    """An alternative at a point of the search: devices that it needs, and devices left for it."""

    place: Place
    need: int
    devices: int
    is_exclusive: bool


class SearchGuide:
    """The guide for one search; `charge` is called with the work that it does."""

    def __init__(
        self,
        alternatives: Sequence[Sequence[Sequence[GuidedAlternative]]],
        constraints: Sequence[Sequence[AttributeConstraint]],
        shareable: int,
        values_of: Callable[[str], Sequence[AttributeValue | None]],
        charge: Callable[[int], None],
        weight: int,
    ) -> None:
        """`values_of` returns the value of an attribute for each device; None means unknown."""
        self._constraints = constraints
        self._shareable = shareable
        self._values_of = values_of
        self._charge = charge
        self._weight = weight  # the steps of an operation on bits of all devices
        self._value_masks: dict[tuple[str, AttributeValue], int] = {}
        self._requests = [[list(each) for each in claim] for claim in alternatives]
        self._clean = [[_is_clean(each) for each in claim] for claim in self._requests]
        self._fits_in_a_claim = [
            sum(max((a.wanted for a in each), default=0) for each in claim) <= MAX_RESULTS
            for claim in self._requests
        ]
        self._groups: list[list[_Group]] = []
        for claim, clean in enumerate(self._clean):
            groups: list[_Group] = []
            # What all requests of the claim need may be used only if the search reaches them all.
            if all(clean) and self._fits_in_a_claim[claim]:
                self._restrict(claim)
                groups = self._make_groups(claim)
            self._groups.append(groups)

    def devices_for(self, point: SearchPoint) -> int | None:
        """Return the devices worth trying, 0 if there are none; None if the guide cannot decide."""
        claim, number, alternative = point.place
        if not self._clean[claim][number]:
            return None
        current = self._requests[claim][number][alternative]
        assert current.devices is not None
        devices = current.devices >> point.start << point.start
        left = self._left(current, devices, point)
        wanted = [[_Option(current.place, point.left, left, not current.is_admin)]]
        for after_claim, after_number in self._ahead(claim, number):
            options = []
            for each in self._requests[after_claim][after_number]:
                assert each.devices is not None
                found = self._left(each, each.devices, point)
                options.append(_Option(each.place, each.wanted, found, not each.is_admin))
            wanted.append(options)
        self._charge(5 * len(wanted) * self._weight)
        return self._narrowed(wanted)

    def _left(self, each: GuidedAlternative, devices: int, point: SearchPoint) -> int:
        """Return which devices are not taken and agree with the values that are set."""
        if not each.is_admin:
            devices &= ~point.taken
        elif each.place[0] == point.place[0]:
            devices &= ~point.taken_by_claim
        for constraint in self._constraints[each.place[0]]:
            if (
                isinstance(constraint, MatchAttribute)
                and constraint.is_set
                and constraint.applies(each.request, each.subrequest)
            ):
                devices &= self._devices_with(constraint)
        return devices

    def _ahead(self, claim: int, number: int) -> Iterable[tuple[int, int]]:
        """Yield the requests after this one, up to the first that may cause an error."""
        if not self._fits_in_a_claim[claim]:
            return
        first = number + 1
        for place in range(claim, len(self._requests)):
            for after in range(first, len(self._requests[place])):
                if not self._clean[place][after]:
                    return
                yield place, after
            first = 0

    def _narrowed(self, wanted: list[list[_Option]]) -> int:
        for _ in range(_PASSES):
            before = wanted
            wanted = self._with_enough_devices(wanted)
            if not all(wanted):
                return 0
            if wanted == before:
                break
        if not self._has_distinct_values(wanted):
            return 0
        demands = [_demand(options, self._shareable) for options in wanted]
        charge = self._charge
        charge(len(demands) * self._weight)
        if not can_be_met(
            [each for each in demands if each is not None],
            lambda steps: charge(steps * self._weight),
        ):
            return 0
        return wanted[0][0].devices

    def _with_enough_devices(self, wanted: list[list[_Option]]) -> list[list[_Option]]:
        """Apply the groups once, and remove the alternatives that have too few devices left."""
        for claim in {options[0].place[0] for options in wanted if options}:
            for group in self._groups[claim]:
                if not all(each.is_set for each in group.constraints):
                    wanted = self._with_common_values(group, wanted)
        return [
            [each for each in options if each.devices.bit_count() >= each.need]
            for options in wanted
        ]

    def _with_common_values(
        self, group: _Group, wanted: list[list[_Option]]
    ) -> list[list[_Option]]:
        """Remove the devices whose values not all members of the group can have."""
        members = [
            options for options in wanted if any(each.place in group.members for each in options)
        ]
        if not members:
            return wanted
        allowed = 0
        for mask in group.masks.values():
            self._charge((1 + len(members)) * self._weight)
            if _suffices(mask, members, group.members, self._shareable):
                allowed |= mask
        return [
            [
                each._replace(devices=each.devices & allowed)
                if each.place in group.members
                else each
                for each in options
            ]
            for options in wanted
        ]

    def _has_distinct_values(self, wanted: list[list[_Option]]) -> bool:
        """Whether there are enough values where no two devices may have the same."""
        for claim, constraints in enumerate(self._constraints):
            for constraint in constraints:
                if isinstance(constraint, DistinctAttribute) and not self._is_distinct(
                    claim, constraint, wanted
                ):
                    return False
        return True

    def _is_distinct(
        self, claim: int, constraint: DistinctAttribute, wanted: list[list[_Option]]
    ) -> bool:
        first = self._of(wanted[0][0].place)
        used = constraint.values_of_others(first.request)
        values = self._values_of(constraint.name)
        single, union = 0, 0
        for options in wanted:
            if len(options) != 1 or options[0].place[0] != claim:
                continue
            each = self._of(options[0].place)
            # With several devices of a request, only its latest value counts.
            if each.wanted != 1 or not constraint.applies(each.request, each.subrequest):
                continue
            single += 1
            union |= options[0].devices
        if not single or union.bit_count() > _MOST_COMPARED:
            return True
        self._charge(union.bit_count() // 4)
        found = {values[place] for place in places_of(union)} - used
        return len(found) >= single

    def _of(self, place: Place) -> GuidedAlternative:
        return self._requests[place[0]][place[1]][place[2]]

    def _restrict(self, claim: int) -> None:
        """Remove devices that a constraint refuses in every state."""
        for requests in self._requests[claim]:
            for index, each in enumerate(requests):
                if each.devices is None:
                    continue
                devices = each.devices
                for constraint in self._constraints[claim]:
                    if not constraint.applies(each.request, each.subrequest):
                        continue
                    known = self._devices_with_value(constraint.name)
                    if isinstance(constraint, DistinctAttribute) or not self._decides(
                        claim, constraint
                    ):
                        continue  # a device with an unknown value may be the first
                    devices &= known
                requests[index] = each._replace(devices=devices)

    def _decides(self, claim: int, constraint: AttributeConstraint) -> bool:
        """Whether at least two devices must have the value of the constraint."""
        least = 0
        for requests in self._requests[claim]:
            least += min(
                (
                    each.wanted if constraint.applies(each.request, each.subrequest) else 0
                    for each in requests
                ),
                default=0,
            )
        return least >= 2

    def _devices_with_value(self, attribute: str) -> int:
        values = self._values_of(attribute)
        self._charge(len(values) // 10)
        return _mask_of([place for place, value in enumerate(values) if value is not None])

    def _devices_with(self, constraint: MatchAttribute) -> int:
        """Return the devices with the value that the constraint has now."""
        value = constraint.value
        if value is None:
            return 0
        key = (constraint.name, value)
        found = self._value_masks.get(key)
        if found is None:
            values = self._values_of(constraint.name)
            self._charge(len(values) // 32)
            found = _mask_of([place for place, each in enumerate(values) if each == value])
            self._value_masks[key] = found
        return found

    def _make_groups(self, claim: int) -> list[_Group]:
        made = (
            self._make_group(under, tuple(constraints))
            for under, constraints in self._members(claim).items()
        )
        return [group for group in made if group is not None]

    def _members(self, claim: int) -> dict[frozenset[Place], list[MatchAttribute]]:
        """Return the constraints of each set of requests that must have common values."""
        constraints = [
            each
            for each in self._constraints[claim]
            if isinstance(each, MatchAttribute) and self._decides(claim, each)
        ]
        members: dict[frozenset[Place], list[MatchAttribute]] = {}
        alternatives = [each for requests in self._requests[claim] for each in requests]
        for constraint in constraints:
            under = frozenset(
                each.place
                for each in alternatives
                if constraint.applies(each.request, each.subrequest)
            )
            members.setdefault(under, []).append(constraint)
        for each in alternatives:
            own = [c for c in constraints if c.applies(each.request, each.subrequest)]
            if each.wanted >= 2 and len(own) > 1:
                members.setdefault(frozenset([each.place]), []).extend(own)
        return members

    def _make_group(
        self, members: frozenset[Place], constraints: tuple[MatchAttribute, ...]
    ) -> _Group | None:
        devices = 0
        least = total = 1
        for place in members:
            each = self._of(place)
            if each.devices is None:
                return None
            devices |= each.devices
            if len(self._requests[place[0]][place[1]]) == 1:
                least = max(least, each.wanted)
                total += 0 if each.is_admin else each.wanted
        if not devices & self._shareable:
            least = max(least, total - 1)
        columns = [self._values_of(constraint.name) for constraint in constraints]
        by_value: dict[tuple[AttributeValue | None, ...], list[int]] = {}
        found = list(places_of(devices))
        self._charge(len(found) // 3)
        for device in found:
            values = tuple(column[device] for column in columns)
            by_value.setdefault(values, []).append(device)
        enough = {value: of for value, of in by_value.items() if len(of) >= least}
        size = devices.bit_length() // 8
        if len(enough) * size > _MOST_MASK_BYTES:
            return None
        self._charge(len(enough))
        return _Group(constraints, members, {value: _mask_of(of) for value, of in enough.items()})


# number of devices whose values are compared for a distinctAttribute constraint
_MOST_COMPARED = 4_096


def _is_clean(alternatives: Sequence[GuidedAlternative]) -> bool:
    """Whether the search of the request ends without an error."""
    return all(each.mode != ALL and each.devices is not None for each in alternatives)


def _suffices(
    mask: int, members: list[list[_Option]], under: frozenset[Place], shareable: int
) -> bool:
    """Whether devices with some values are enough for all members of a group."""
    union = needed = 0
    for options in members:
        if not any(
            each.place not in under or (each.devices & mask).bit_count() >= each.need
            for each in options
        ):
            return False
        if all(each.place in under and each.is_exclusive for each in options):
            needed += min(each.need for each in options)
            for each in options:
                union |= each.devices & mask
    return bool(union & shareable) or union.bit_count() >= needed


def _demand(options: list[_Option], shareable: int) -> DeviceDemand | None:
    """Return what a request takes from all others at least; None if that is nothing."""
    if not all(each.is_exclusive for each in options):
        return None
    union, need = 0, MAX_RESULTS
    for each in options:
        union |= each.devices
        need = min(need, each.need)
    need -= (union & shareable).bit_count()
    return DeviceDemand(need, union & ~shareable) if need > 0 else None


def places_of(mask: int) -> Iterable[int]:
    """Yield the places of the bits, in order."""
    text = bin(mask)[:1:-1]
    place = text.find("1")
    while place >= 0:
        yield place
        place = text.find("1", place + 1)


def _mask_of(places: Sequence[int]) -> int:
    if not places:
        return 0
    raw = bytearray(max(places) // 8 + 1)
    for place in places:
        raw[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(raw, "little")
