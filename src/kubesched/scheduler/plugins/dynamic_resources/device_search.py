"""The search for devices: depth first, until the first solution.

(docs/reference/08 §8.4 to §8.6)

The search tries claims, their requests, the alternatives of a request and the devices in order,
and backtracks when a later request cannot be met. The order is the reference's, so the result is
the same. The search skips steps only where that cannot change the result: for example, it does
not try a device that is equivalent to one that failed at the same point.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kubesched.api.quantity import Quantity
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolUsage
from kubesched.scheduler.plugins.dynamic_resources.attempt_usage import AttemptUsage
from kubesched.scheduler.plugins.dynamic_resources.device_candidates import (
    DeviceCandidate,
    ExhaustedPools,
)
from kubesched.scheduler.plugins.dynamic_resources.device_capacity import consumption
from kubesched.scheduler.plugins.dynamic_resources.device_constraints import (
    AttributeConstraint,
    DistinctAttribute,
    make_constraint,
)
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures
from kubesched.scheduler.plugins.dynamic_resources.device_pools import PoolState, PoolView
from kubesched.scheduler.plugins.dynamic_resources.device_requests import (
    ALL,
    MAX_RESULTS,
    ClaimRequests,
    ResolvedDeviceRequest,
)
from kubesched.scheduler.plugins.dynamic_resources.device_selectors import (
    DeviceSelectorError,
    DeviceSelectors,
)
from kubesched.scheduler.plugins.dynamic_resources.device_taints import are_tolerated

__all__ = [
    "MOST_STEPS",
    "AllocationError",
    "DeviceSearch",
    "NamedClaim",
    "Pick",
    "SearchTimeoutError",
    "Solution",
]

_STEPS_PER_CLOCK_READ = 256
MOST_STEPS = 20_000_000  # the limit where the clock stands still, as in a simulation


class AllocationError(Exception):
    """A claim, a class or a slice is invalid; the text is the reference's."""


class SearchTimeoutError(Exception):
    """The search took too long."""


class _TooManyResultsError(Exception):
    """A claim would get more devices than a result may have."""


class NamedClaim(NamedTuple):
    """A claim that needs devices: its name for errors, and its requests."""

    name: str  # namespace/name
    requests: ClaimRequests


class Pick(NamedTuple):
    """A device for a request, by position: valid for every node of the same group."""

    view: int
    device: int
    request: ResolvedDeviceRequest
    is_share: bool
    consumed: Mapping[str, Quantity]


class Solution(NamedTuple):
    """The devices of each claim, in order, and the chosen alternatives."""

    picks: tuple[tuple[Pick, ...], ...]
    chosen: Mapping[tuple[int, int], int]  # claim and request -> alternative


Position = tuple[int, int]  # view, device
_START: Position = (0, 0)

UsageOf = Callable[[PoolView], PoolUsage | None]


class DeviceSearch:
    """One search for the devices of some claims on one node."""

    def __init__(
        self,
        claims: Sequence[NamedClaim],
        views: Sequence[PoolView],
        usage_of: UsageOf,
        selectors: DeviceSelectors,
        features: DeviceFeatures,
        is_timed_out: Callable[[], bool] | None = None,
        exhausted: ExhaustedPools | None = None,
    ) -> None:
        self._exhausted = ExhaustedPools() if exhausted is None else exhausted
        self._claims = claims
        self._views = views
        self._selectors = selectors
        self._features = features
        self._is_timed_out = is_timed_out
        self._steps = 0
        self._usage_of = usage_of
        # Of each visited pool: its usage, and its devices with the changes of this search.
        self._usage: dict[int, PoolUsage | None] = {}
        self._candidates: dict[int, list[DeviceCandidate]] = {}
        self._all_devices: dict[tuple[int, int, int], list[DeviceCandidate]] = {}
        self._constraints: list[list[AttributeConstraint]] = []
        self._results: list[list[tuple[DeviceCandidate, Pick]]] = [[] for _ in claims]
        self._chosen: dict[tuple[int, int], int] = {}
        self._taken = AttemptUsage()
        self._selectable: dict[tuple[int, int, int, int], bool] = {}
        self._may_skip_equivalent = True
        self._touched: dict[int, int] = {}  # view -> number of devices this search took
        self._constraint_refusals = 0

    def run(self) -> Solution | None:
        """Find devices for all claims; None: there are too few suitable devices.

        Raises:
            AllocationError: a claim, a class or a slice is invalid.
            SearchTimeoutError: the time or the number of steps is exceeded.
        """
        self._prepare()
        if self._cannot_fit():
            return None
        levels = sum(MAX_RESULTS + 2 * len(claim.requests.choices) + 2 for claim in self._claims)
        with _raised_recursion_limit(levels):
            found = self._step(0, 0, 0, 0, False, _START)
        if not found:
            return None
        picks = tuple(tuple(pick for _, pick in results) for results in self._results)
        self._check_node_selectors()
        return Solution(picks, dict(self._chosen))

    def _candidates_in(self, view_place: int) -> list[DeviceCandidate]:
        found = self._candidates.get(view_place)
        if found is None:
            view = self._views[view_place]
            usage = self._usage_in(view_place)
            found = self._candidates[view_place] = [
                DeviceCandidate(view_place, view, place, usage)
                for place in range(len(view.devices))
            ]
        return found

    def _usage_in(self, view_place: int) -> PoolUsage | None:
        if view_place not in self._usage:
            self._usage[view_place] = self._usage_of(self._views[view_place])
        return self._usage[view_place]

    def _all_candidates(self) -> Iterator[DeviceCandidate]:
        for view_place in range(len(self._views)):
            yield from self._candidates_in(view_place)

    def _is_exhausted(self, key: tuple[int, int, int], view_place: int) -> bool:
        usage = self._usage_in(view_place)
        number = self._views[view_place].number
        return self._exhausted.has((*key, number), 0 if usage is None else usage.version)

    def _prepare(self) -> None:
        """Check all requests once, in order; the first problem ends the search."""
        for place, (name, requests) in enumerate(self._claims):
            least = 0
            for number, choice in enumerate(requests.choices):
                if choice.problem:
                    raise AllocationError(f"claim {name}{choice.problem}")
                least += min(
                    self._count_needed(place, number, alternative, request)
                    for alternative, request in enumerate(choice.alternatives)
                )
            if least > MAX_RESULTS:
                raise AllocationError(
                    f"claim {name}: number of requested devices {least} exceeds the claim "
                    f"limit of {MAX_RESULTS}"
                )
            self._constraints.append(self._make_constraints(name, requests))

    def _count_needed(
        self, claim: int, number: int, alternative: int, request: ResolvedDeviceRequest
    ) -> int:
        name = self._claims[claim].name
        if request.problem:
            raise AllocationError(f"claim {name}{request.problem}")
        if request.mode != ALL:
            return request.count
        for view in self._views:
            if view.state is not PoolState.COMPLETE:
                problem = "being updated" if view.state is PoolState.INCOMPLETE else "invalid"
                raise AllocationError(
                    f"claim {name}, request {request.own_name}: asks for all devices, but "
                    f"resource pool {'/'.join(view.pool.pool_id)} is currently {problem}"
                )
        found = [
            candidate
            for candidate in self._all_candidates()
            if self._is_selectable(claim, number, alternative, request, candidate)
            and self._has_room(request, candidate)
        ]
        self._all_devices[claim, number, alternative] = found
        return len(found)

    def _make_constraints(self, name: str, requests: ClaimRequests) -> list[AttributeConstraint]:
        found = []
        for place, spec in enumerate(requests.spec.constraints):
            constraint = make_constraint(
                spec, knows_distinct=self._features.has_distinct_constraints
            )
            if constraint is None:
                raise AllocationError(
                    f"claim {name}, constraint #{place}: empty constraint "
                    "(unsupported constraint type?)"
                )
            if isinstance(constraint, DistinctAttribute):
                # It forgets what is removed, so even a failed try changes its state.
                self._may_skip_equivalent = False
            found.append(constraint)
        return found

    def _cannot_fit(self) -> bool:
        """Whether there are too few devices by number alone.

        True only if the search would find that out without an error.
        """
        is_short = False
        for claim, (_, requests) in enumerate(self._claims):
            for number, choice in enumerate(requests.choices):
                if any(request.mode == ALL for request in choice.alternatives):
                    return False
                try:
                    is_short |= not any(
                        self._has_enough(claim, number, alternative, request)
                        for alternative, request in enumerate(choice.alternatives)
                    )
                except AllocationError:
                    return False
        return is_short

    def _has_enough(
        self, claim: int, number: int, alternative: int, request: ResolvedDeviceRequest
    ) -> bool:
        """Whether there are enough devices for the request, without all other requests."""
        left = request.count
        key = (claim, number, alternative)
        for view_place in range(len(self._views)):
            if left <= 0:
                break
            if not request.admin_access and self._is_exhausted(key, view_place):
                continue
            left -= sum(
                (request.admin_access or not candidate.is_used)
                and self._is_selectable(claim, number, alternative, request, candidate)
                for candidate in self._candidates_in(view_place)
            )
        return left <= 0

    def _check_node_selectors(self) -> None:
        for (name, _), results in zip(self._claims, self._results, strict=True):
            for candidate, _ in results:
                device = candidate.device
                of = device.content.device if device.slice.is_per_device else device.slice.selection
                if of.node_name or device.content.device.binds_to_node:
                    break
                terms = of.node_selector.node_selector_terms if of.node_selector else ()
                if len(terms) > 1:
                    raise AllocationError(
                        f"create NodeSelector for claim {name.partition('/')[2]}: unsupported "
                        f"ResourceSlice.NodeSelector with {len(terms)} terms"
                    )

    def _check_deadline(self) -> None:
        self._steps += 1
        if self._steps % _STEPS_PER_CLOCK_READ == 1 and (
            self._steps > MOST_STEPS or (self._is_timed_out is not None and self._is_timed_out())
        ):
            raise SearchTimeoutError

    def _step(
        self, claim: int, number: int, alternative: int, taken: int, inside: bool, start: Position
    ) -> bool:
        """Continue from this point; return whether all remaining requests can be met.

        `inside` is set while an alternative of a prioritised list is tried.
        """
        self._check_deadline()
        if claim == len(self._claims):
            return True
        choices = self._claims[claim].requests.choices
        if number == len(choices):
            try:
                return self._step(claim + 1, 0, 0, 0, False, _START)
            except _TooManyResultsError:
                return False
        choice = choices[number]
        if choice.is_prioritized and not inside:
            return self._first_available(claim, number)
        request = choice.alternatives[alternative]
        if request.mode == ALL:
            return self._step_all(claim, number, alternative, request, taken, inside)
        if taken == request.count:
            return self._step(claim, number + 1, 0, 0, False, _START)
        self._check_size(claim, request.count - taken)
        return self._step_exact(claim, number, alternative, request, taken, inside, start)

    def _first_available(self, claim: int, number: int) -> bool:
        only_too_many = True
        for alternative in range(len(self._claims[claim].requests.choices[number].alternatives)):
            try:
                found = self._step(claim, number, alternative, 0, True, _START)
            except _TooManyResultsError:
                continue
            only_too_many = False
            if found:
                self._chosen[claim, number] = alternative
                return True
        if only_too_many:
            raise _TooManyResultsError
        return False

    def _step_all(
        self,
        claim: int,
        number: int,
        alternative: int,
        request: ResolvedDeviceRequest,
        taken: int,
        inside: bool,
    ) -> bool:
        devices = self._all_devices[claim, number, alternative]
        if not devices:
            return False
        if taken == len(devices):
            return self._step(claim, number + 1, 0, 0, False, _START)
        self._check_size(claim, len(devices) - taken)
        undo = self._take(claim, request, devices[taken], must=True)
        if undo is None:
            return False
        found = False
        try:
            found = self._step(claim, number, alternative, taken + 1, inside, _START)
        finally:
            if not found:
                undo()
        return found

    def _step_exact(
        self,
        claim: int,
        number: int,
        alternative: int,
        request: ResolvedDeviceRequest,
        taken: int,
        inside: bool,
        start: Position,
    ) -> bool:
        key = (claim, number, alternative)
        for view_place in range(start[0], len(self._views)):
            first = start[1] if view_place == start[0] else 0
            if self._is_exhausted(key, view_place) or self._is_refused(key, request, view_place):
                continue
            is_exhausted = not first and not self._is_touched(view_place)
            failed: set[object] = set()  # equivalence keys of devices that led to no solution
            for candidate in self._candidates_in(view_place)[first:]:
                undo = None
                if not failed or candidate.equivalence_key() not in failed:
                    undo, is_out = self._try(claim, number, alternative, request, candidate)
                    is_exhausted = is_exhausted and is_out
                if undo is None:
                    continue
                found = False
                try:
                    after = (view_place, candidate.place + 1)
                    found = self._step(claim, number, alternative, taken + 1, inside, after)
                finally:
                    if not found:
                        undo()
                if found:
                    return True
                if self._may_skip_equivalent and not self._is_shareable(candidate):
                    failed.add(candidate.equivalence_key())
            if is_exhausted:
                usage = self._usage_in(view_place)
                version = 0 if usage is None else usage.version
                self._exhausted.add((*key, self._views[view_place].number), version)
        return False

    def _is_refused(
        self, key: tuple[int, int, int], request: ResolvedDeviceRequest, view_place: int
    ) -> bool:
        """Whether a constraint refuses every device of a pool.

        False if trying a device could raise an error: selectors are evaluated before constraints.
        """
        view = self._views[view_place]
        for constraint in self._constraints[key[0]]:
            if constraint.refuses_all(request.request, request.subrequest, view):
                return self._exhausted.is_without_errors(
                    (*key, view.number),
                    lambda: self._is_selecting_without_error(key, request, view_place),
                )
        return False

    def _is_selecting_without_error(
        self, key: tuple[int, int, int], request: ResolvedDeviceRequest, view_place: int
    ) -> bool:
        try:
            for candidate in self._candidates_in(view_place):
                self._is_selectable(*key, request, candidate)
        except AllocationError:
            return False
        return True

    def _is_touched(self, view_place: int) -> bool:
        """Whether this search took a device of the pool."""
        return view_place in self._touched and self._touched[view_place] > 0

    def _try(
        self,
        claim: int,
        number: int,
        alternative: int,
        request: ResolvedDeviceRequest,
        candidate: DeviceCandidate,
    ) -> tuple[Callable[[], None] | None, bool]:
        """Take a device if possible.

        Return how to undo that, and whether it is permanently out.

        A device is permanently out if it is in use or unsuitable, not if only a constraint of
        this search refuses it.
        """
        if claim in candidate.taken_by if request.admin_access else candidate.is_in_use:
            return None, not candidate.taken_by
        if not self._is_selectable(claim, number, alternative, request, candidate):
            return None, True
        # Early, because it is cheap: it refuses most devices of other kinds.
        for constraint in self._constraints[claim]:
            if constraint.refuses(request.request, request.subrequest, candidate.content):
                return None, False
        if not self._has_room(request, candidate):
            return None, True
        self._check_deadline()
        refusals = self._constraint_refusals
        undo = self._take(claim, request, candidate, must=False)
        return undo, undo is None and refusals == self._constraint_refusals

    def _check_size(self, claim: int, more: int) -> None:
        if len(self._results[claim]) + more > MAX_RESULTS:
            raise _TooManyResultsError

    def _is_selectable(
        self,
        claim: int,
        number: int,
        alternative: int,
        request: ResolvedDeviceRequest,
        candidate: DeviceCandidate,
    ) -> bool:
        """Whether the selectors of class and request match; raises AllocationError."""
        key = (claim, number, alternative, candidate.content.number)
        selectable = self._selectable.get(key)
        if selectable is None:
            selectable = self._selectable[key] = self._is_selected(claim, request, candidate)
        return selectable and candidate.device.is_for_node

    def _is_selected(
        self, claim: int, request: ResolvedDeviceRequest, candidate: DeviceCandidate
    ) -> bool:
        content = candidate.content
        if content.has_conditions and not self._features.binding_conditions:
            return False
        if content.is_invalid:
            return False
        assert request.device_class is not None, "checked before the search"
        for whose, expressions in (
            (f"class {request.device_class.metadata.name}", request.class_selectors),
            (f"claim {self._claims[claim].name}", request.selectors),
        ):
            for place, expression in enumerate(expressions):
                try:
                    if not self._selectors.matches(expression, content):
                        return False
                except DeviceSelectorError as exc:
                    raise AllocationError(f"{whose}: selector #{place}: {exc}") from exc
        return True

    def _is_shareable(self, candidate: DeviceCandidate) -> bool:
        return self._features.consumable_capacity and candidate.content.allows_sharing

    def _has_room(self, request: ResolvedDeviceRequest, candidate: DeviceCandidate) -> bool:
        return not self._features.consumable_capacity or self._taken.has_room(
            candidate, request.capacity
        )

    def _take(
        self, claim: int, request: ResolvedDeviceRequest, candidate: DeviceCandidate, *, must: bool
    ) -> Callable[[], None] | None:
        """Take the device for the request.

        Return how to undo that, or None if it is refused.
        """
        is_share = self._is_shareable(candidate)
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
        if not self._has_room(request, candidate):
            self._undo(claim, request, candidate, counts=counts, is_share=is_share)
            return None
        if is_share:
            consumed = consumption(content.capacity, request.capacity)
            self._taken.take_capacity(candidate, consumed)
        pick = Pick(candidate.view_place, candidate.place, request, is_share, consumed)
        self._results[claim].append((candidate, pick))
        view_place = candidate.view_place
        self._touched[view_place] = self._touched.get(view_place, 0) + 1

        def undo() -> None:
            self._results[claim].pop()
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
        if (
            self._features.device_taints
            and content.blocking_taints
            and not are_tolerated(content.blocking_taints, request.tolerations)
        ):
            if counts:
                self._taken.give_back_counters(candidate)
            return False
        for place, constraint in enumerate(self._constraints[claim]):
            if constraint.add(request.request, request.subrequest, content):
                continue
            for added in reversed(self._constraints[claim][:place]):
                added.remove(request.request, request.subrequest, content)
            self._constraint_refusals += 1
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
        for constraint in reversed(self._constraints[claim]):
            constraint.remove(request.request, request.subrequest, candidate.content)
        if counts:
            self._taken.give_back_counters(candidate)


@contextmanager
def _raised_recursion_limit(levels: int) -> Iterator[None]:
    """Raise the recursion limit: the search makes a few nested calls per device."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 3 * levels)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
