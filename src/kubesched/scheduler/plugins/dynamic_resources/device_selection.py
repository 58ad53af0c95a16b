"""Which devices of a node the requests of some claims select (docs/reference/08 §8.5).

Selectors are evaluated once per content of a device, and their results per pool are cached for
all searches for the same claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolUsage
from kubesched.scheduler.plugins.dynamic_resources.device_candidates import (
    DeviceCandidate,
    ExhaustedPools,
)
from kubesched.scheduler.plugins.dynamic_resources.device_content import (
    AttributeValue,
    DeviceContent,
)
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures
from kubesched.scheduler.plugins.dynamic_resources.device_pools import PoolView
from kubesched.scheduler.plugins.dynamic_resources.device_requests import ResolvedDeviceRequest
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import (
    AllocationError,
    NamedClaim,
    SearchBudget,
    SearchPausedError,
)
from kubesched.scheduler.plugins.dynamic_resources.device_selectors import (
    DeviceSelectorError,
    DeviceSelectors,
)

__all__ = ["DeviceSelection", "RequestKey", "UsageOf"]


RequestKey = tuple[int, int, int]  # claim, request, alternative
UsageOf = Callable[[PoolView], PoolUsage | None]


class DeviceSelection:
    """The devices of one node for one search, by pool and by request."""

    def __init__(
        self,
        claims: Sequence[NamedClaim],
        views: Sequence[PoolView],
        usage_of: UsageOf,
        selectors: DeviceSelectors,
        features: DeviceFeatures,
        exhausted: ExhaustedPools,
        budget: SearchBudget,
    ) -> None:
        self._claims = claims
        self.views = views
        self._usage_of = usage_of
        self._selectors = selectors
        self._features = features
        self.exhausted = exhausted
        self._budget = budget
        self._usage: dict[int, PoolUsage | None] = {}
        self._candidates: dict[tuple[int, int], DeviceCandidate] = {}
        self._selectable: dict[tuple[int, int, int, int], bool] = {}
        # The first request of the claim with the same selectors represents all of them.
        self._same: dict[RequestKey, RequestKey] = {}
        for claim, (_, requests) in enumerate(claims):
            first: dict[tuple[object, ...], RequestKey] = {}
            for number, choice in enumerate(requests.choices):
                for place, request in enumerate(choice.alternatives):
                    key = (claim, number, place)
                    selects = (id(request.device_class), request.selectors)
                    self._same[key] = first.setdefault(selects, key)

    def candidate(self, view_place: int, place: int) -> DeviceCandidate:
        """Return a device of a pool, with the changes of this search."""
        found = self._candidates.get((view_place, place))
        if found is None:
            view, usage = self.views[view_place], self.usage_in(view_place)
            found = DeviceCandidate(view_place, view, place, usage)
            self._candidates[view_place, place] = found
        return found

    def usage_in(self, view_place: int) -> PoolUsage | None:
        if view_place not in self._usage:
            self._usage[view_place] = self._usage_of(self.views[view_place])
        return self._usage[view_place]

    def is_exhausted(self, key: RequestKey, view_place: int) -> bool:
        """Whether a pool has nothing left for a request, as an earlier search found."""
        usage = self.usage_in(view_place)
        number = self.views[view_place].number
        return self.exhausted.has((*key, number), 0 if usage is None else usage.version)

    def note_exhausted(self, key: RequestKey, view_place: int) -> None:
        usage = self.usage_in(view_place)
        version = 0 if usage is None else usage.version
        self.exhausted.add((*key, self.views[view_place].number), version)

    def unused(self, view_place: int) -> int:
        """Return the devices of a pool that are not allocated as a whole, as bits."""
        view, usage = self.views[view_place], self.usage_in(view_place)
        free = (1 << len(view.devices)) - 1
        if usage is not None:
            for name in usage.dedicated:
                place = view.index.get(name)
                if place is not None:
                    free &= ~(1 << place)
        return free

    def selected(
        self, key: RequestKey, request: ResolvedDeviceRequest, view_place: int
    ) -> int | None:
        """Return the devices of a pool that the request selects, as bits.

        The result is None if a selector fails on a device.

        Raises:
            SearchPausedError: too many selectors were evaluated in this iteration of the loop.
        """
        key = self._same[key]
        of_pool = (*key, self.views[view_place].number)
        if not self.exhausted.is_known(of_pool):
            mask = self._select(key, request, view_place)
            self.exhausted.note_selected(of_pool, mask)
        return self.exhausted.selected(of_pool)

    def _select(
        self, key: RequestKey, request: ResolvedDeviceRequest, view_place: int
    ) -> int | None:
        view = self.views[view_place]
        of_pool = (*key, view.number)
        mask, seen = self.exhausted.begun(of_pool)
        try:
            for place in range(seen, len(view.devices)):
                self._budget.charge(1)
                seen = place
                self._budget.check()
                device = view.devices[place]
                if self.is_selectable(key, request, device.content) and device.is_for_node:
                    mask |= 1 << place
        except SearchPausedError:
            self.exhausted.note_begun(of_pool, mask, seen)
            raise
        except AllocationError:
            return None
        return mask

    def is_selectable(
        self, key: RequestKey, request: ResolvedDeviceRequest, content: DeviceContent
    ) -> bool:
        """Whether the selectors of class and request match; raises AllocationError."""
        of_content = (*self._same[key], content.number)
        selectable = self._selectable.get(of_content)
        if selectable is None:
            selectable = self._selectable[of_content] = self._is_selected(key[0], request, content)
        return selectable

    def _is_selected(
        self, claim: int, request: ResolvedDeviceRequest, content: DeviceContent
    ) -> bool:
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
                before = self._selectors.steps
                try:
                    if not self._selectors.matches(expression, content):
                        return False
                except DeviceSelectorError as exc:
                    raise AllocationError(f"{whose}: selector #{place}: {exc}") from exc
                finally:
                    self._budget.charge(self._selectors.steps - before)
                self._budget.check()
        return True

    def value_reader(self) -> Callable[[str], Sequence[AttributeValue | None]]:
        """Return a function that returns the values of an attribute for all devices."""
        columns: dict[str, list[AttributeValue | None]] = {}

        def values_of(attribute: str) -> Sequence[AttributeValue | None]:
            column = columns.get(attribute)
            if column is None:
                column = columns[attribute] = list(self._values(attribute))
            return column

        return values_of

    def _values(self, attribute: str) -> Iterator[AttributeValue | None]:
        for view in self.views:
            self.prepare_values(attribute, view)
            yield from view.values_by_device(attribute)

    def prepare_values(self, attribute: str, view: PoolView) -> None:
        """Read an attribute of all devices of a pool, unless it is cached.

        Raises:
            SearchPausedError: this turn is over.
        """
        if not view.has_values_of(attribute):
            self._budget.check()
            self._budget.charge(len(view.devices))
            view.values_by_device(attribute)
