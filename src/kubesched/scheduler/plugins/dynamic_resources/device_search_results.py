"""Results of device searches by group of nodes, and verdicts by row.

Claims with the same spec have the same result on nodes of the same group. The search therefore
runs once per group, and a row is updated only when its node moves to another group.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolUsage
from kubesched.scheduler.plugins.dynamic_resources.device_candidates import ExhaustedPools
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures
from kubesched.scheduler.plugins.dynamic_resources.device_inventory import (
    DeviceInventory,
    NodeDevices,
)
from kubesched.scheduler.plugins.dynamic_resources.device_pools import PoolState, PoolView
from kubesched.scheduler.plugins.dynamic_resources.device_requests import ClaimRequests
from kubesched.scheduler.plugins.dynamic_resources.device_rows import DeviceRows
from kubesched.scheduler.plugins.dynamic_resources.device_search import DeviceSearch
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import (
    AllocationError,
    NamedClaim,
    SearchBudget,
    SearchLimitError,
    SearchPausedError,
    SearchTimeoutError,
    Solution,
)
from kubesched.scheduler.plugins.dynamic_resources.device_selectors import DeviceSelectors

__all__ = ["DeviceSearchCache", "DeviceSearchResult", "DeviceVerdict", "DeviceVerdicts"]

_MAX_RESULTS = 65_536
_MAX_CACHES = 64
# What a search costs besides its steps.
_STEPS_PER_SEARCH = 30


class DeviceVerdict(enum.IntEnum):
    """The verdict on a node, as stored in a column."""

    FITS = 0
    NO_FIT = 1
    INVALID_POOLS = 2
    ERROR = 3


class DeviceSearchResult(NamedTuple):
    """The outcome of a search; an error names the claims of that search."""

    verdict: DeviceVerdict
    solution: Solution | None = None
    error: AllocationError | SearchTimeoutError | None = None
    # The claims that the text of an error may name.
    names: tuple[str, ...] = ()

    def holds_for(self, names: Sequence[str]) -> bool:
        """Whether the result applies to the same claims with these names.

        An interrupted search may be continued, and a search that timed out may be faster next time.
        """
        if self.error is None:
            return True
        if isinstance(self.error, SearchTimeoutError):
            return isinstance(self.error, SearchLimitError)
        return self.names == tuple(names)


_FITS = DeviceSearchResult(DeviceVerdict.FITS)
_NO_FIT = DeviceSearchResult(DeviceVerdict.NO_FIT)
_INVALID_POOLS = DeviceSearchResult(DeviceVerdict.INVALID_POOLS)

# Starts a timer for one node: the returned function says whether it has expired. None: no limit.
StartTimer = Callable[[], Callable[[], bool] | None]


class DeviceVerdicts:
    """Search results for claims of the given specs, and a column of verdicts."""

    def __init__(self, requests: Sequence[ClaimRequests], search: _SearchRunner) -> None:
        self._requests = requests
        self._runner = search
        self._exhausted = ExhaustedPools()
        self._by_group: dict[tuple[int, tuple[int, ...]], DeviceSearchResult] = {}
        self._rows: DeviceRows | None = None
        self._position = -1
        self._verdicts = np.zeros(0, dtype=np.uint8)  # DeviceVerdict[row]
        self._shared_versions: dict[int, tuple[int, ...]] = {}
        self.has_errors = False

    def search(self, devices: NodeDevices, names: Sequence[str]) -> DeviceSearchResult:
        """Return the result for one node.

        `names` are the names of the claims, for errors.
        """
        group = devices.group
        versions = self._runner.inventory.usage_versions(group) if group.shared else ()
        key = (group.number, versions)
        result = self._by_group.get(key)
        if result is None or not result.holds_for(names):
            claims = [
                NamedClaim(name, requests)
                for name, requests in zip(names, self._requests, strict=True)
            ]
            result = self._runner.run(claims, devices, self._exhausted)
            if isinstance(result.error, SearchPausedError):
                return result
            if len(self._by_group) >= _MAX_RESULTS:
                self._by_group.clear()
            self._by_group[key] = result
        return result

    def column(self, rows: DeviceRows, names: Sequence[str]) -> NDArray[np.uint8] | None:
        """Return DeviceVerdict[row] of all nodes; None if a search timed out."""
        return self._verdicts if self._refresh(rows, names) else None

    def _refresh(self, rows: DeviceRows, names: Sequence[str]) -> bool:
        since = None
        if rows is self._rows and len(self._verdicts) == rows.capacity:
            since = rows.changes.since(self._position)
        if since is None:
            self._rows = rows
            self._verdicts = np.zeros(rows.capacity, dtype=np.uint8)
            changed: Sequence[int] = rows.live()
            self.has_errors = False
        else:
            changed = since.tolist()
        had_errors, self._position = self.has_errors, -1
        for row in changed:
            devices = rows.devices[row]
            result = _FITS if devices is None else self.search(devices, names)
            self._verdicts[row] = result.verdict
            if result.verdict is DeviceVerdict.ERROR:
                self.has_errors = True
                if isinstance(result.error, SearchTimeoutError):
                    return False
        if since is not None and rows.has_shared and not self._refresh_shared(rows, names):
            return False
        if had_errors:
            self.has_errors = bool((self._verdicts == DeviceVerdict.ERROR).any())
        self._position = rows.changes.position
        self._shared_versions = rows.shared_versions()
        return True

    def _refresh_shared(self, rows: DeviceRows, names: Sequence[str]) -> bool:
        """Update the groups that share a pool whose usage changed.

        The result is False if a search timed out.
        """
        for number, versions in rows.shared_versions().items():
            if self._shared_versions.get(number) == versions:
                continue
            result = self.search(rows.sample_of(number), names)
            self._verdicts[: rows.capacity][rows.numbers == number] = result.verdict
            self.has_errors = self.has_errors or result.verdict is DeviceVerdict.ERROR
            if isinstance(result.error, SearchTimeoutError):
                return False
        return True


class _SearchRunner:
    """Runs searches; has all inputs besides the claims and the node."""

    def __init__(
        self, inventory: DeviceInventory, features: DeviceFeatures, start_timer: StartTimer
    ) -> None:
        self.inventory = inventory
        self._features = features
        self._start_timer = start_timer
        self._selectors = DeviceSelectors(list_attributes=features.list_attributes)
        self.budget = SearchBudget()

    def run(
        self, claims: Sequence[NamedClaim], devices: NodeDevices, exhausted: ExhaustedPools
    ) -> DeviceSearchResult:
        search = DeviceSearch(
            claims,
            devices.views,
            self._usage_of,
            self._selectors,
            self._features,
            self._start_timer(),
            exhausted,
            self.budget,
        )
        try:
            self.budget.check()
            self.budget.charge(_STEPS_PER_SEARCH)
            solution = search.run()
        except (AllocationError, SearchTimeoutError) as exc:
            names = tuple(name for name, _ in claims)
            # Without its traceback, whose frames would keep the whole search in memory.
            return DeviceSearchResult(
                DeviceVerdict.ERROR, error=exc.with_traceback(None), names=names
            )
        if solution is not None:
            return DeviceSearchResult(DeviceVerdict.FITS, solution)
        if any(view.state is PoolState.INVALID for view in devices.views):
            return _INVALID_POOLS
        return _NO_FIT

    def _usage_of(self, view: PoolView) -> PoolUsage | None:
        return self.inventory.allocated.usage(view.pool.pool_id)


class DeviceSearchCache:
    """Caches `DeviceVerdicts` by the specs of claims; evicts the least recently used."""

    def __init__(
        self, inventory: DeviceInventory, features: DeviceFeatures, start_timer: StartTimer
    ) -> None:
        self._runner = _SearchRunner(inventory, features, start_timer)
        self.budget = self._runner.budget
        self._entries: OrderedDict[Hashable, tuple[Sequence[ClaimRequests], DeviceVerdicts]] = (
            OrderedDict()
        )

    def find(self, requests: Sequence[tuple[bytes, ClaimRequests]]) -> DeviceVerdicts:
        """Return the verdicts for these requests, each with its spec in bytes."""
        key = tuple(spec for spec, _ in requests)
        current = [each for _, each in requests]
        found = self._entries.get(key)
        if found is not None and all(
            old is new for old, new in zip(found[0], current, strict=True)
        ):
            self._entries.move_to_end(key)
            return found[1]
        verdicts = DeviceVerdicts(current, self._runner)
        self._entries[key] = (current, verdicts)
        if len(self._entries) > _MAX_CACHES:
            self._entries.popitem(last=False)
        return verdicts


encode_spec = msgspec.json.Encoder(order="deterministic").encode
