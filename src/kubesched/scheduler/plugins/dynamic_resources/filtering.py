"""Whether nodes have the devices that a pod's claims need (docs/reference/08 §5.4).

The one-node form is the rule. The form for many nodes reads kept verdicts by row, and comes to
the same.
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
from kubesched.scheduler.plugins.dynamic_resources.device_search import SearchTimeoutError
from kubesched.scheduler.plugins.dynamic_resources.device_search_results import (
    DeviceSearchCache,
    DeviceSearchResult,
    DeviceVerdict,
    NodeVerdicts,
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
# What the numbers of a column of verdicts stand for, and those added to them here.
_STATUSES = (CANNOT_ALLOCATE, INVALID_POOLS)
_UNAVAILABLE = 3
_CANNOT_FIT = 4
_FIRST_ERROR = 5


class Variant(NamedTuple):
    """The claims that need devices, as they are on nodes that lack the same resources."""

    extended: ExtendedRequests | None
    requests: Sequence[ClaimRequests]
    names: Sequence[str]
    answers: NodeVerdicts


class DeviceFilter:
    """Filter for pods with claims. Facts of an attempt are in `PodDevices`."""

    def __init__(self, devices: DeviceState, answers: DeviceSearchCache) -> None:
        self._devices = devices
        self._answers = answers
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
            if not _has_others(data, node):
                return CANNOT_FIT
            lacking = _lacking(data, node)
            if not lacking and not data.has_user_claims:
                return SUCCESS
        if data.pending:
            answer = self.answer(data, pod, node, lacking)
            if answer.verdict is not DeviceVerdict.FITS:
                return _status_of(answer, node.name)
        if self.node_allocatable is not None:
            try:
                allocations = self.allocations_on(data, pod, node)
                status = self.node_allocatable.check(data, pod, node, allocations)
            except NodeAllocatableError as exc:
                return Status.failure(exc)
            if not status.is_success:
                return status
        assert node.node is not None
        labels, name = node.node.metadata.labels, node.name
        unavailable = data.unusable.union(
            place for place, matcher in data.selectors.items() if not matcher.matches(labels, name)
        )
        if unavailable:
            data.unavailable |= unavailable
            return UNAVAILABLE
        return SUCCESS

    def answer(
        self, data: PodDevices, pod: Pod, node: NodeInfo, lacking: int
    ) -> DeviceSearchResult:
        """What the search found on a node that lacks these of the served resources."""
        assert node.node is not None
        variant = self.variant(data, pod, lacking)
        return variant.answers.answer(self._devices.inventory.of_node(node.node), variant.names)

    def found_on(
        self, data: PodDevices, pod: Pod, node: NodeInfo
    ) -> tuple[Variant, DeviceSearchResult] | None:
        """The claims as they are on the node, and what the search found; None: no claim is."""
        lacking = 0
        if data.special is not None:
            lacking = _lacking(data, node)
            if not lacking and not data.has_user_claims:
                return None
        if not data.pending:
            return None
        return self.variant(data, pod, lacking), self.answer(data, pod, node, lacking)

    def allocations_on(
        self, data: PodDevices, pod: Pod, node: NodeInfo, share_id: Callable[[], str] = str
    ) -> dict[int, AllocationResult]:
        """What claims that need devices get on a node where all of them fit, by place."""
        found = self.found_on(data, pod, node)
        if found is None or found[1].solution is None:
            return {}
        assert node.node is not None
        (variant, answer), views = found, self._devices.inventory.of_node(node.node).views
        assert answer.solution is not None
        return {
            place: allocation_of(
                answer.solution, number, variant.requests[number], views, node.name, share_id
            )
            for number, place in enumerate(data.pending)
        }

    def variant(self, data: PodDevices, pod: Pod, lacking: int) -> Variant:
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
        answers = self._answers.find(requests)
        return Variant(extended, [each for _, each in requests], names, answers)

    def filter_nodes(self, data: PodDevices, pod: Pod, nodes: NodeView) -> Rejections:
        if not data.claims or not len(nodes):
            return Rejections.none()
        if self.node_allocatable is not None:
            return Rejections.from_statuses(self.filter(data, pod, node) for node in nodes)
        codes = np.zeros(len(nodes), dtype=np.uint8)
        statuses = [*_STATUSES, UNAVAILABLE, CANNOT_FIT]
        asked = np.ones(len(nodes), dtype=bool)  # those whose claims must be looked at
        lacking: NDArray[np.int64] | None = None
        if data.special is not None:
            if data.claims[data.special].spec.devices.requests:
                return Rejections.where(asked, LEFT_OVER_CLAIM)
            codes[_without_others(data, nodes)] = _CANNOT_FIT
            lacking = _lacking_of(data, nodes)
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
        """Note the verdicts on the nodes that are asked; an error, with the node it is about."""
        rows = self._devices.rows(nodes)
        kinds = [0] if lacking is None else np.unique(lacking[asked]).tolist()
        for kind in kinds:
            among = asked if lacking is None else asked & (lacking == kind)
            variant = self.variant(data, pod, kind)
            column = variant.answers.verdicts(rows, variant.names)
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
                answer = self.answer(data, pod, node, kind)
                return index, _status_of(answer, node.name)
        return None

    def _one_by_one(self, variant: Variant, nodes: NodeView, places: Sequence[int]) -> list[int]:
        """Verdicts up to the first error: there are nodes whose search takes too long."""
        verdicts: list[int] = []
        for place in places:
            node = _node_at(nodes, place).node
            assert node is not None
            devices = self._devices.inventory.of_node(node)
            verdict = variant.answers.answer(devices, variant.names).verdict
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
        """Reject nodes where an allocated claim cannot be used, and note which claims those are."""
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
        """Whether the search ends in an error on some node, which then ends the attempt."""
        if not data.pending:
            return False
        kinds = [0]
        if data.special is not None:
            kinds = np.unique(_lacking_of(data, nodes)).tolist()
        rows = self._devices.rows(nodes)
        for kind in kinds:
            variant = self.variant(data, pod, kind)
            variant.answers.verdicts(rows, variant.names)
            if variant.answers.has_errors:
                return True
        return False


def _status_of(answer: DeviceSearchResult, node_name: str) -> Status:
    if answer.verdict is DeviceVerdict.ERROR:
        if isinstance(answer.error, SearchTimeoutError):
            return Status.failure(f"node {node_name}: timed out trying to allocate devices")
        assert answer.error is not None
        return Status.failure(str(answer.error))
    return _OF_VERDICT.get(answer.verdict, SUCCESS)


def _node_at(nodes: NodeView, index: int) -> NodeInfo:
    """The node, whatever pods it is thought to have: they make no difference here."""
    return nodes.info_at(int(nodes.rows[index]))


def _lacking(data: PodDevices, node: NodeInfo) -> int:
    """A bit for each served resource that the node itself has nothing of."""
    bits = 0
    for bit, (resource, _) in enumerate(data.served):
        if not node.allocatable.amount(resource):
            bits |= 1 << bit
    return bits


def _lacking_of(data: PodDevices, nodes: NodeView) -> NDArray[np.int64]:
    bits = np.zeros(len(nodes), dtype=np.int64)
    for bit, (resource, _) in enumerate(data.served):
        bits |= (nodes.allocatable(resource) == 0).astype(np.int64) << bit
    return bits


def _has_others(data: PodDevices, node: NodeInfo) -> bool:
    """Whether the node knows the extended resources that no class serves."""
    return all(name in node.allocatable.scalar for name in data.not_served)


def _without_others(data: PodDevices, nodes: NodeView) -> NDArray[np.bool_]:
    """Where that is not so. Columns do not tell nothing from none, so such nodes are asked."""
    missing = np.zeros(len(nodes), dtype=bool)
    for resource in data.not_served:
        for index in np.flatnonzero(nodes.allocatable(resource) == 0).tolist():
            missing[index] |= resource not in _node_at(nodes, index).allocatable.scalar
    return missing


def special_claim_on(claim: ResourceClaim, extended: ExtendedRequests) -> ResourceClaim:
    """The claim for extended resources as it is on a node."""
    spec = DeviceClaim(requests=extended.requests)
    return replace(claim, spec=replace(claim.spec, devices=spec))
