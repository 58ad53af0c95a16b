"""What came of searching devices for some claims, kept by group of nodes and by row.

Claims of the same spec get the same answer from nodes of the same group. So a search is made once
per group, and a row is looked at again only when its node came into another group.
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
from kubesched.scheduler.plugins.dynamic_resources.device_search import (
    AllocationError,
    DeviceSearch,
    NamedClaim,
    SearchTimeoutError,
    Solution,
)
from kubesched.scheduler.plugins.dynamic_resources.device_selectors import DeviceSelectors

__all__ = ["DeviceSearchCache", "DeviceSearchResult", "DeviceVerdict", "NodeVerdicts"]

_ANSWERS_KEPT = 65_536
_CACHES_KEPT = 64


class DeviceVerdict(enum.IntEnum):
    """What a node is told; the numbers stand in a column."""

    FITS = 0
    NO_FIT = 1
    INVALID_POOLS = 2
    ERROR = 3


class DeviceSearchResult(NamedTuple):
    """The outcome of a search; the words of an error are those of the claims it was made for."""

    verdict: DeviceVerdict
    solution: Solution | None = None
    error: AllocationError | SearchTimeoutError | None = None


_FITS = DeviceSearchResult(DeviceVerdict.FITS)
_NO_FIT = DeviceSearchResult(DeviceVerdict.NO_FIT)
_INVALID_POOLS = DeviceSearchResult(DeviceVerdict.INVALID_POOLS)

# Begins to measure time: the result tells whether the time for one node is over.
LateAfter = Callable[[], Callable[[], bool] | None]


class NodeVerdicts:
    """Answers for claims of one spec each, row by row."""

    def __init__(self, requests: Sequence[ClaimRequests], search: _Searching) -> None:
        self._requests = requests
        self._search = search
        self._dead = ExhaustedPools()
        self._by_group: dict[tuple[int, tuple[int, ...]], DeviceSearchResult] = {}
        self._rows: DeviceRows | None = None
        self._position = -1
        self._verdicts = np.zeros(0, dtype=np.uint8)  # Verdict[row]
        self._shared_versions: dict[int, tuple[int, ...]] = {}
        self.has_errors = False

    def answer(self, devices: NodeDevices, names: Sequence[str]) -> DeviceSearchResult:
        """The answer of one node. `names` are those of the claims, for errors."""
        group = devices.group
        versions = self._search.inventory.usage_versions(group) if group.shared else ()
        key = (group.number, versions)
        answer = self._by_group.get(key)
        if answer is None or answer.verdict is DeviceVerdict.ERROR:
            claims = [
                NamedClaim(name, requests)
                for name, requests in zip(names, self._requests, strict=True)
            ]
            answer = self._search.run(claims, devices, self._dead)
            if len(self._by_group) >= _ANSWERS_KEPT:
                self._by_group.clear()
            self._by_group[key] = answer
        return answer

    def verdicts(self, rows: DeviceRows, names: Sequence[str]) -> NDArray[np.uint8] | None:
        """Verdict[row] of all nodes, up to date; None: some search takes too long to know."""
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
            answer = _FITS if devices is None else self.answer(devices, names)
            self._verdicts[row] = answer.verdict
            if answer.verdict is DeviceVerdict.ERROR:
                self.has_errors = True
                if isinstance(answer.error, SearchTimeoutError):
                    return False
        if since is not None and rows.has_shared and not self._refresh_shared(rows, names):
            return False
        if had_errors:
            self.has_errors = bool((self._verdicts == DeviceVerdict.ERROR).any())
        self._position = rows.changes.position
        self._shared_versions = rows.shared_versions()
        return True

    def _refresh_shared(self, rows: DeviceRows, names: Sequence[str]) -> bool:
        """Ask again where usage changed of pools that several nodes see; False: too late."""
        for number, versions in rows.shared_versions().items():
            if self._shared_versions.get(number) == versions:
                continue
            answer = self.answer(rows.sample_of(number), names)
            self._verdicts[: rows.capacity][rows.numbers == number] = answer.verdict
            self.has_errors = self.has_errors or answer.verdict is DeviceVerdict.ERROR
            if isinstance(answer.error, SearchTimeoutError):
                return False
        return True


class _Searching:
    """Makes searches: everything but the claims and the node."""

    def __init__(
        self, inventory: DeviceInventory, features: DeviceFeatures, late_after: LateAfter
    ) -> None:
        self.inventory = inventory
        self._features = features
        self._late_after = late_after
        self._selectors = DeviceSelectors(list_attributes=features.list_attributes)

    def run(
        self, claims: Sequence[NamedClaim], devices: NodeDevices, dead: ExhaustedPools
    ) -> DeviceSearchResult:
        search = DeviceSearch(
            claims,
            devices.views,
            self._usage_of,
            self._selectors,
            self._features,
            self._late_after(),
            dead,
        )
        try:
            solution = search.run()
        except (AllocationError, SearchTimeoutError) as exc:
            return DeviceSearchResult(DeviceVerdict.ERROR, error=exc)
        if solution is not None:
            return DeviceSearchResult(DeviceVerdict.FITS, solution)
        if any(view.state is PoolState.INVALID for view in devices.views):
            return _INVALID_POOLS
        return _NO_FIT

    def _usage_of(self, view: PoolView) -> PoolUsage | None:
        return self.inventory.allocated.usage(view.pool.pool_id)


class DeviceSearchCache:
    """Search results by the specs of the claims; the least recently used are evicted."""

    def __init__(
        self, inventory: DeviceInventory, features: DeviceFeatures, late_after: LateAfter
    ) -> None:
        self._search = _Searching(inventory, features, late_after)
        self._kept: OrderedDict[Hashable, tuple[Sequence[ClaimRequests], NodeVerdicts]] = (
            OrderedDict()
        )

    def find(self, requests: Sequence[tuple[bytes, ClaimRequests]]) -> NodeVerdicts:
        """The answers for claims with these requests, each with its spec in bytes."""
        key = tuple(spec for spec, _ in requests)
        wanted = [each for _, each in requests]
        found = self._kept.get(key)
        if found is not None and all(old is new for old, new in zip(found[0], wanted, strict=True)):
            self._kept.move_to_end(key)
            return found[1]
        answers = NodeVerdicts(wanted, self._search)
        self._kept[key] = (wanted, answers)
        if len(self._kept) > _CACHES_KEPT:
            self._kept.popitem(last=False)
        return answers


encode_spec = msgspec.json.Encoder(order="deterministic").encode
