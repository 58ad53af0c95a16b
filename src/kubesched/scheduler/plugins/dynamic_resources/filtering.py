"""Whether nodes have the devices that a pod's claims need.

docs/reference/08 §5.4.

The one-node form defines the rule. The many-node form reads cached verdicts by row and has the
same results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.api import AllocationResult, DeviceClaim, Pod, ResourceClaim
from kubesched.framework import SUCCESS, NodeInfo, NodeView, Rejections, Status
from kubesched.framework.causes import AllocatedDeviceUnreachable, DevicesUnavailable
from kubesched.scheduler.plugins.dynamic_resources.allocation_results import allocation_of
from kubesched.scheduler.plugins.dynamic_resources.device_requests import ClaimRequests
from kubesched.scheduler.plugins.dynamic_resources.device_search_results import (
    DeviceSearchCache,
    DeviceSearchResult,
    DeviceVerdict,
    DeviceVerdicts,
)
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import (
    SearchPausedError,
    SearchTimeoutError,
)
from kubesched.scheduler.plugins.dynamic_resources.device_state import DeviceState
from kubesched.scheduler.plugins.dynamic_resources.extended_requests import (
    ExtendedRequests,
    extended_requests,
)
from kubesched.scheduler.plugins.dynamic_resources.node_allocatable import (
    NodeAllocatable,
    NodeAllocatableError,
)
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices
from kubesched.scheduler.plugins.helpers.node_matching import match_any_term

__all__ = ["DeviceFilter", "Variant", "special_claim_on"]

CANNOT_ALLOCATE = Status.unresolvable("cannot allocate all claims", causes=(DevicesUnavailable(),))
INVALID_POOLS = Status.unresolvable(
    "invalid resource pools were encountered", causes=(DevicesUnavailable(),)
)
UNAVAILABLE = Status.unresolvable(
    "resourceclaim not available on the node", causes=(AllocatedDeviceUnreachable(),)
)
LEFT_OVER_CLAIM = Status.unresolvable(
    "cannot schedule extended resource claim", causes=(DevicesUnavailable(),)
)
CANNOT_FIT = Status.unresolvable("cannot fit resource", causes=(DevicesUnavailable(),))

_OF_VERDICT = {DeviceVerdict.NO_FIT: CANNOT_ALLOCATE, DeviceVerdict.INVALID_POOLS: INVALID_POOLS}
# The statuses of the verdicts 1 and 2, and the codes of further statuses.
_STATUSES = (CANNOT_ALLOCATE, INVALID_POOLS)
_UNAVAILABLE = 3
_CANNOT_FIT = 4
_FIRST_ERROR = 5


class Variant(NamedTuple):
    """The claims that need devices, for nodes that lack the same extended resources."""

    extended: ExtendedRequests | None
    requests: Sequence[ClaimRequests]
    names: Sequence[str]
    verdicts: DeviceVerdicts


class DeviceFilter:
    """Filters nodes for pods with claims; the state of an attempt is in `PodDevices`."""

    def __init__(self, devices: DeviceState, cache: DeviceSearchCache) -> None:
        self._devices = devices
        self._cache = cache
        self.budget = cache.budget
        self.node_allocatable: NodeAllocatable | None = None
        if devices.features.node_allocatable:
            self.node_allocatable = NodeAllocatable(devices.inventory)

    def filter(self, data: PodDevices, pod: Pod, node: NodeInfo) -> Status:
        if not data.claims:
            return SUCCESS
        lacking = 0
        if data.special is not None:
            if data.claims[data.special].spec.devices.requests:
                return LEFT_OVER_CLAIM
            if not _has_unserved(data, node):
                return CANNOT_FIT
            lacking = _lacking(data, node)
            if not lacking and not data.has_user_claims:
                return SUCCESS
        if data.pending:
            result = self.search(data, pod, node, lacking)
            if result.verdict is not DeviceVerdict.FITS:
                return _status_of(result, node.name)
        if self.node_allocatable is not None:
            status = self._check_node_allocatable(self.node_allocatable, data, pod, node)
            if not status.is_success:
                return status
        return _check_allocated(data, node)

    def _check_node_allocatable(
        self, rule: NodeAllocatable, data: PodDevices, pod: Pod, node: NodeInfo
    ) -> Status:
        try:
            return rule.check(data, pod, node, self.allocations_on(data, pod, node))
        except NodeAllocatableError as exc:
            return Status.failure(exc)

    def search(
        self, data: PodDevices, pod: Pod, node: NodeInfo, lacking: int
    ) -> DeviceSearchResult:
        """Search a node that lacks these resources, or return the cached result."""
        assert node.node is not None
        variant = self.variant(data, pod, lacking)
        return variant.verdicts.search(self._devices.inventory.of_node(node.node), variant.names)

    def search_node(
        self, data: PodDevices, pod: Pod, node: NodeInfo
    ) -> tuple[Variant, DeviceSearchResult] | None:
        """Return the claims for the node and the search result.

        The result is None if no claim needs devices.
        """
        lacking = 0
        if data.special is not None:
            lacking = _lacking(data, node)
            if not lacking and not data.has_user_claims:
                return None
        if not data.pending:
            return None
        return self.variant(data, pod, lacking), self.search(data, pod, node, lacking)

    def allocations_on(
        self, data: PodDevices, pod: Pod, node: NodeInfo, share_id: Callable[[], str] = str
    ) -> dict[int, AllocationResult]:
        """Return the allocations, by place of the claim, on a node where all claims fit."""
        found = self.search_node(data, pod, node)
        if found is None or found[1].solution is None:
            return {}
        assert node.node is not None
        (variant, result), views = found, self._devices.inventory.of_node(node.node).views
        assert result.solution is not None
        return {
            place: allocation_of(
                result.solution, number, variant.requests[number], views, node.name, share_id
            )
            for number, place in enumerate(data.pending)
        }

    def variant(self, data: PodDevices, pod: Pod, lacking: int) -> Variant:
        """Return the claims for nodes that lack these of the served resources."""
        found = data.variants.get(lacking)
        if found is None:
            found = data.variants[lacking] = self._make_variant(data, pod, lacking)
        return found

    def _make_variant(self, data: PodDevices, pod: Pod, lacking: int) -> Variant:
        extended = None
        requests, names = [], []
        for place in data.pending:
            claim = data.claims[place]
            spec = claim.spec.devices
            if place == data.special:
                served = [each for bit, each in enumerate(data.served) if lacking >> bit & 1]
                extended = extended_requests(pod, served)
                spec = replace(spec, requests=extended.requests)
            requests.append(self._devices.requests_of(spec))
            names.append(f"{claim.metadata.namespace}/{claim.metadata.name}")
        verdicts = self._cache.find(requests)
        return Variant(extended, [each for _, each in requests], names, verdicts)

    def filter_nodes(self, data: PodDevices, pod: Pod, nodes: NodeView) -> Rejections:
        if not data.claims or not len(nodes):
            return Rejections.none()
        if self.node_allocatable is not None:
            return Rejections.from_statuses(self.filter(data, pod, node) for node in nodes)
        codes = np.zeros(len(nodes), dtype=np.uint8)
        statuses = [*_STATUSES, UNAVAILABLE, CANNOT_FIT]
        asked = np.ones(len(nodes), dtype=bool)  # nodes for which the claims must be checked
        lacking: NDArray[np.int64] | None = None
        if data.special is not None:
            if data.claims[data.special].spec.devices.requests:
                return Rejections.where(asked, LEFT_OVER_CLAIM)
            codes[_lacks_unserved(data, nodes)] = _CANNOT_FIT
            lacking = _lacking_per_node(data, nodes)
            asked = codes == 0
            if not data.has_user_claims:
                asked &= lacking != 0
        if data.pending:
            error = self._search(data, pod, nodes, asked, lacking, codes)
            if error is not None:
                index, status = error
                codes[index] = _FIRST_ERROR
                statuses.append(status)
                return Rejections(codes, tuple(statuses))
            asked &= codes == 0
        self._check_availability(data, nodes, asked, codes)
        return Rejections(codes, tuple(statuses)) if codes.any() else Rejections.none()

    def _search(
        self,
        data: PodDevices,
        pod: Pod,
        nodes: NodeView,
        asked: NDArray[np.bool_],
        lacking: NDArray[np.int64] | None,
        codes: NDArray[np.uint8],
    ) -> tuple[int, Status] | None:
        """Set the verdicts on the asked nodes.

        Return the first error with the node's index.
        """
        rows = self._devices.rows(nodes)
        kinds = [0] if lacking is None else np.unique(lacking[asked]).tolist()
        for kind in kinds:
            among = asked if lacking is None else asked & (lacking == kind)
            variant = self.variant(data, pod, kind)
            column = variant.verdicts.column(rows, variant.names)
            if column is None:
                places = np.flatnonzero(among).tolist()
                verdicts = self._one_by_one(variant, nodes, places)
                codes[places[: len(verdicts)]] = verdicts
            else:
                codes[among] = nodes.at(column)[among]
            failed = np.flatnonzero(among & (codes == DeviceVerdict.ERROR))
            if len(failed):
                index = int(failed[0])
                node = _node_at(nodes, index)
                result = self.search(data, pod, node, kind)
                return index, _status_of(result, node.name)
        return None

    def _one_by_one(self, variant: Variant, nodes: NodeView, places: Sequence[int]) -> list[int]:
        """Return the verdicts up to the first error, without the column."""
        verdicts: list[int] = []
        for place in places:
            node = _node_at(nodes, place).node
            assert node is not None
            devices = self._devices.inventory.of_node(node)
            verdict = variant.verdicts.search(devices, variant.names).verdict
            verdicts.append(verdict)
            if verdict is DeviceVerdict.ERROR:
                break
        return verdicts

    def _check_availability(
        self,
        data: PodDevices,
        nodes: NodeView,
        asked: NDArray[np.bool_],
        codes: NDArray[np.uint8],
    ) -> None:
        """Reject nodes that cannot use an allocated claim, and record these claims."""
        if not asked.any():
            return
        for place in data.unusable:
            codes[asked] = _UNAVAILABLE
            data.unavailable.add(place)
        for place, matcher in data.selectors.items():
            elsewhere = asked & ~match_any_term(matcher, nodes)
            if elsewhere.any():
                codes[elsewhere] = _UNAVAILABLE
                data.unavailable.add(place)

    def may_fail(self, data: PodDevices, pod: Pod, nodes: NodeView) -> bool:
        """Whether the search fails on some node, which then ends the attempt."""
        if not data.pending:
            return False
        kinds = [0]
        if data.special is not None:
            kinds = np.unique(_lacking_per_node(data, nodes)).tolist()
        try:
            rows = self._devices.rows(nodes, self.budget)
        except SearchPausedError:
            return False
        for kind in kinds:
            variant = self.variant(data, pod, kind)
            variant.verdicts.column(rows, variant.names)
            if variant.verdicts.has_errors:
                return True
        return False


def _check_allocated(data: PodDevices, node: NodeInfo) -> Status:
    """Reject a node that cannot use an allocated claim, and record these claims."""
    assert node.node is not None
    labels, name = node.node.metadata.labels, node.name
    unavailable = data.unusable.union(
        place for place, matcher in data.selectors.items() if not matcher.matches(labels, name)
    )
    if not unavailable:
        return SUCCESS
    data.unavailable |= unavailable
    return UNAVAILABLE


def _status_of(result: DeviceSearchResult, node_name: str) -> Status:
    if result.verdict is DeviceVerdict.ERROR:
        if isinstance(result.error, SearchTimeoutError):
            return Status.failure(f"node {node_name}: timed out trying to allocate devices")
        assert result.error is not None
        return Status.failure(str(result.error))
    return _OF_VERDICT.get(result.verdict, SUCCESS)


def _node_at(nodes: NodeView, index: int) -> NodeInfo:
    """Return the node of the snapshot.

    A dry run's changes of its pods do not matter here.
    """
    return nodes.info(index)


def _lacking(data: PodDevices, node: NodeInfo) -> int:
    """Return a bit for each served resource of which the node itself has 0."""
    bits = 0
    for bit, (resource, _) in enumerate(data.served):
        if not node.allocatable.amount(resource):
            bits |= 1 << bit
    return bits


def _lacking_per_node(data: PodDevices, nodes: NodeView) -> NDArray[np.int64]:
    bits = np.zeros(len(nodes), dtype=np.int64)
    for bit, (resource, _) in enumerate(data.served):
        bits |= (nodes.allocatable(resource) == 0).astype(np.int64) << bit
    return bits


def _has_unserved(data: PodDevices, node: NodeInfo) -> bool:
    """Whether the node lists the requested extended resources that no class serves."""
    return all(name in node.allocatable.scalar for name in data.not_served)


def _lacks_unserved(data: PodDevices, nodes: NodeView) -> NDArray[np.bool_]:
    """The opposite per node.

    A column does not distinguish 0 from absent, so zeros are looked up.
    """
    missing = np.zeros(len(nodes), dtype=bool)
    for resource in data.not_served:
        for index in np.flatnonzero(nodes.allocatable(resource) == 0).tolist():
            missing[index] |= resource not in _node_at(nodes, index).allocatable.scalar
    return missing


def special_claim_on(claim: ResourceClaim, extended: ExtendedRequests) -> ResourceClaim:
    """Return the claim for extended resources with its requests on a node."""
    spec = DeviceClaim(requests=extended.requests)
    return replace(claim, spec=replace(claim.spec, devices=spec))
