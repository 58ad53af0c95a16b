"""The search for devices: depth first, until the first solution.

(docs/reference/08 §8.4 to §8.6)

The search tries claims, their requests, the alternatives of a request and the devices in order, and
backtracks when a later request cannot be met. The order is the reference's, so the result is the
same. The search skips steps only where that cannot change the result: for example, it does not try
a device that is equivalent to one that failed at the same point. A search that takes long starts
again with a guide, which counts the remaining devices, and stores the points that failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kubesched.scheduler.plugins.dynamic_resources.device_candidates import (
    DeviceCandidate,
    ExhaustedPools,
)
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
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import (
    MOST_STEPS,
    AllocationError,
    NamedClaim,
    SearchBudget,
    SearchLimitError,
    SearchTimeoutError,
    Solution,
)
from kubesched.scheduler.plugins.dynamic_resources.device_selection import (
    DeviceSelection,
    RequestKey,
    UsageOf,
)
from kubesched.scheduler.plugins.dynamic_resources.device_selectors import DeviceSelectors
from kubesched.scheduler.plugins.dynamic_resources.device_taking import DeviceTaking
from kubesched.scheduler.plugins.dynamic_resources.guided_search import GuidedPoints

__all__ = ["DeviceSearch"]

_STEPS_PER_CLOCK_READ = 256
# A search that takes more steps than this begins again with a guide.
STEPS_WITHOUT_GUIDE = 2_000


class _TooManyResultsError(Exception):
    """A claim would get more devices than a result may have."""


class _GuideNeededError(Exception):
    """The search took many steps."""


Position = tuple[int, int]  # view, device
_START: Position = (0, 0)


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
        budget: SearchBudget | None = None,
    ) -> None:
        self._claims = claims
        self._views = views
        self._features = features
        self._is_timed_out = is_timed_out
        self._budget = SearchBudget() if budget is None else budget
        self._selection = DeviceSelection(
            claims,
            views,
            usage_of,
            selectors,
            features,
            ExhaustedPools() if exhausted is None else exhausted,
            self._budget,
        )
        self._taking = DeviceTaking(claims, features)
        self._all_devices: dict[RequestKey, list[DeviceCandidate]] = {}
        self._all_counts: dict[RequestKey, int] = {}
        self._chosen: dict[tuple[int, int], int] = {}
        self._may_skip_equivalent = True
        self._needs_guide = False
        self._most_steps = MOST_STEPS
        self._guided: GuidedPoints | None = None
        self.steps = 0
        self._next_check = 0

    def run(self) -> Solution | None:
        """Find devices for all claims; None: there are too few suitable devices.

        Raises:
            AllocationError: a claim, a class or a slice is invalid.
            SearchTimeoutError: the time or the number of steps is exceeded.
        """
        try:
            return self._run()
        finally:
            self._budget.charge(self.steps)

    def _run(self) -> Solution | None:
        self._prepare()
        if self._cannot_fit():
            return None
        levels = sum(MAX_RESULTS + 2 * len(claim.requests.choices) + 2 for claim in self._claims)
        with _raised_recursion_limit(levels):
            try:
                found = self._step(0, 0, 0, 0, False, _START)
            except _GuideNeededError:
                self._needs_guide = True
                self._most_steps = self.steps + MOST_STEPS
                self._guided = self._make_guide()
                found = self._step(0, 0, 0, 0, False, _START)
        if not found:
            return None
        picks = tuple(tuple(pick for _, pick in results) for results in self._taking.results)
        self._check_node_selectors()
        return Solution(picks, dict(self._chosen))

    def _make_guide(self) -> GuidedPoints:
        return GuidedPoints(
            self._claims,
            self._selection,
            self._taking,
            self._all_counts,
            self._charge,
            may_skip=self._may_skip_equivalent,
        )

    def _prepare(self) -> None:
        """Check all requests once, in order; the first problem ends the search."""
        for place, (name, requests) in enumerate(self._claims):
            least = 0
            for number, choice in enumerate(requests.choices):
                if choice.problem:
                    raise AllocationError(f"claim {name}{choice.problem}")
                least += min(
                    self._count_needed((place, number, alternative), request)
                    for alternative, request in enumerate(choice.alternatives)
                )
            if least > MAX_RESULTS:
                raise AllocationError(
                    f"claim {name}: number of requested devices {least} exceeds the claim "
                    f"limit of {MAX_RESULTS}"
                )
            self._taking.constraints.append(self._make_constraints(name, requests))

    def _count_needed(self, key: RequestKey, request: ResolvedDeviceRequest) -> int:
        name = self._claims[key[0]].name
        if request.problem:
            raise AllocationError(f"claim {name}{request.problem}")
        if request.mode != ALL:
            return request.count
        self._check_pools(name, request)
        return self._count_all(key, request)

    def _check_pools(self, claim: str, request: ResolvedDeviceRequest) -> None:
        """Refuse a request for all devices while a pool is not complete."""
        for view in self._views:
            if view.state is not PoolState.COMPLETE:
                problem = "being updated" if view.state is PoolState.INCOMPLETE else "invalid"
                raise AllocationError(
                    f"claim {claim}, request {request.own_name}: asks for all devices, but "
                    f"resource pool {'/'.join(view.pool.pool_id)} is currently {problem}"
                )

    def _count_all(self, key: RequestKey, request: ResolvedDeviceRequest) -> int:
        """Find and count the devices of a request for all devices."""
        found = self._all_devices[key] = []
        count = 0
        for view_place, view in enumerate(self._views):
            mask = self._selection.selected(key, request, view_place)
            if mask is not None and view.is_plain and not request.capacity:
                count += mask.bit_count()
                if count > MAX_RESULTS or not mask:
                    continue  # a claim cannot have them: only their number matters
            for device in range(len(view.devices)):
                candidate = self._selection.candidate(view_place, device)
                if self._is_selectable(key, request, candidate) and self._taking.has_room(
                    request, candidate
                ):
                    found.append(candidate)
                    count += mask is None or not view.is_plain or bool(request.capacity)
        self._all_counts[key] = count
        return count

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
                # It discards removed devices, so even a failed try changes its state.
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
                has_enough = False
                for alternative, request in enumerate(choice.alternatives):
                    enough = self._has_enough((claim, number, alternative), request)
                    if enough is None:
                        return False
                    if enough:
                        has_enough = True
                        break
                is_short |= not has_enough
        return is_short

    def _has_enough(self, key: RequestKey, request: ResolvedDeviceRequest) -> bool | None:
        """Whether there are enough devices for the request, without all other requests.

        The result is None if a selector fails on a device.
        """
        left = request.count
        for view_place in range(len(self._views)):
            if left <= 0:
                break
            if not request.admin_access and self._selection.is_exhausted(key, view_place):
                continue
            mask = self._selection.selected(key, request, view_place)
            if mask is None:
                return None
            if not request.admin_access:
                mask &= self._selection.unused(view_place)
            left -= mask.bit_count()
        return left <= 0

    def _check_node_selectors(self) -> None:
        for (name, _), results in zip(self._claims, self._taking.results, strict=True):
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

    def _charge(self, steps: int) -> None:
        """Count steps; raise an error if there were too many, or if the time is over."""
        self.steps += steps
        if self.steps < self._next_check:
            return
        self._next_check = self.steps + _STEPS_PER_CLOCK_READ
        if self._is_timed_out is not None and self._is_timed_out():
            raise SearchTimeoutError
        if not self._needs_guide:
            if self.steps > STEPS_WITHOUT_GUIDE:
                raise _GuideNeededError
        elif self.steps > self._most_steps:
            raise SearchLimitError

    def _step(
        self, claim: int, number: int, alternative: int, taken: int, inside: bool, start: Position
    ) -> bool:
        """Continue from this point; return whether all remaining requests can be met.

        `inside` is set while an alternative of a prioritised list is tried.
        """
        self._charge(1)
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
        key = (claim, number, alternative)
        if request.mode == ALL:
            return self._step_all(key, request, taken, inside)
        if taken == request.count:
            return self._step(claim, number + 1, 0, 0, False, _START)
        self._check_size(claim, request.count - taken)
        if self._guided is not None:
            return self._step_guided(self._guided, key, request, taken, inside, start)
        return self._step_exact(key, request, taken, inside, start)

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
        self, key: RequestKey, request: ResolvedDeviceRequest, taken: int, inside: bool
    ) -> bool:
        claim, number, alternative = key
        devices, count = self._all_devices[key], self._all_counts[key]
        if not count:
            return False
        if taken == count:
            return self._step(claim, number + 1, 0, 0, False, _START)
        self._check_size(claim, count - taken)
        undo = self._taking.take(claim, request, devices[taken], must=True)
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
        key: RequestKey,
        request: ResolvedDeviceRequest,
        taken: int,
        inside: bool,
        start: Position,
    ) -> bool:
        selection = self._selection
        for view_place in range(start[0], len(self._views)):
            first = start[1] if view_place == start[0] else 0
            if selection.is_exhausted(key, view_place) or self._is_refused(
                key, request, view_place
            ):
                continue
            is_exhausted = not first and not self._taking.is_touched(view_place)
            failed: set[object] = set()  # equivalence keys of devices that led to no solution
            for place in range(first, len(self._views[view_place].devices)):
                self._charge(1)
                candidate = selection.candidate(view_place, place)
                undo = None
                if not failed or candidate.equivalence_key() not in failed:
                    undo, is_out = self._try(key, request, candidate)
                    is_exhausted = is_exhausted and is_out
                if undo is None:
                    continue
                if self._rest_succeeds(key, taken, inside, candidate, undo):
                    return True
                if self._may_skip_equivalent and not self._taking.is_shareable(candidate.content):
                    failed.add(candidate.equivalence_key())
            if is_exhausted:
                selection.note_exhausted(key, view_place)
        return False

    def _rest_succeeds(
        self,
        key: RequestKey,
        taken: int,
        inside: bool,
        candidate: DeviceCandidate,
        undo: Callable[[], None],
    ) -> bool:
        """Whether the rest of the search succeeds with this device taken; if not, release it."""
        found = False
        try:
            after = (candidate.view_place, candidate.place + 1)
            found = self._step(*key, taken + 1, inside, after)
        finally:
            if not found:
                undo()
        return found

    def _step_guided(
        self,
        guided: GuidedPoints,
        key: RequestKey,
        request: ResolvedDeviceRequest,
        taken: int,
        inside: bool,
        start: Position,
    ) -> bool:
        """Do the same as `_step_exact`, but skip choices that cannot succeed."""
        point = guided.point(key, request.count - taken, start)
        if guided.has_failed(point):
            return False
        failed: set[object] = set()
        for candidate in guided.worth_trying(point, start):
            identity = guided.identity(candidate)
            if identity in failed:
                continue
            self._charge(1)
            undo, _ = self._try(key, request, candidate)
            if undo is None:
                continue
            if self._rest_succeeds(key, taken, inside, candidate, undo):
                return True
            if self._may_skip_equivalent and not self._taking.is_shareable(candidate.content):
                failed.add(identity)
        guided.note_failed(point)
        return False

    def _is_refused(self, key: RequestKey, request: ResolvedDeviceRequest, view_place: int) -> bool:
        """Whether a constraint refuses every device of a pool.

        False if trying a device could raise an error: selectors are evaluated before constraints.
        """
        if not self._may_skip_equivalent:
            return False
        view = self._views[view_place]
        for constraint in self._taking.constraints[key[0]]:
            self._charge(1)
            self._selection.prepare_values(constraint.name, view)
            if constraint.refuses_all(request.request, request.subrequest, view):
                return self._selection.selected(key, request, view_place) is not None
        return False

    def _try(
        self, key: RequestKey, request: ResolvedDeviceRequest, candidate: DeviceCandidate
    ) -> tuple[Callable[[], None] | None, bool]:
        """Take a device if possible.

        Return how to undo that, and whether it is permanently out.

        A device is permanently out if it is in use or unsuitable, not if only a constraint of
        this search refuses it.
        """
        claim = key[0]
        if claim in candidate.taken_by if request.admin_access else candidate.is_in_use:
            return None, not candidate.taken_by
        if not self._is_selectable(key, request, candidate):
            return None, True
        # Early, because it is cheap: it refuses most devices of other kinds.
        for constraint in self._taking.constraints[claim] if self._may_skip_equivalent else ():
            if constraint.refuses(request.request, request.subrequest, candidate.content):
                return None, False
        if not self._taking.has_room(request, candidate):
            return None, True
        refusals = self._taking.constraint_refusals
        undo = self._taking.take(claim, request, candidate, must=False)
        return undo, undo is None and refusals == self._taking.constraint_refusals

    def _is_selectable(
        self, key: RequestKey, request: ResolvedDeviceRequest, candidate: DeviceCandidate
    ) -> bool:
        return (
            self._selection.is_selectable(key, request, candidate.content)
            and candidate.device.is_for_node
        )

    def _check_size(self, claim: int, more: int) -> None:
        if len(self._taking.results[claim]) + more > MAX_RESULTS:
            raise _TooManyResultsError


@contextmanager
def _raised_recursion_limit(levels: int) -> Iterator[None]:
    """Raise the recursion limit: the search makes a few nested calls per device."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 3 * levels)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
