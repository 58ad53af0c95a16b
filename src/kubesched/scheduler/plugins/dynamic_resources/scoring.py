"""Score nodes by the rank of the alternatives that they can provide.

docs/reference/08 §5.6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.api import AllocationResult, Pod, ResourceClaim
from kubesched.framework import MAX_NODE_SCORE, NodeInfo, NodeView
from kubesched.scheduler.plugins.dynamic_resources.device_search_results import DeviceSearchResult
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import Pick
from kubesched.scheduler.plugins.dynamic_resources.filtering import DeviceFilter
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices

__all__ = ["normalized", "score_node", "score_nodes"]

_BEST = 8  # the maximum number of alternatives of a request


def score_node(filtering: DeviceFilter, data: PodDevices, pod: Pod, node: NodeInfo) -> int:
    found = filtering.search_node(data, pod, node)
    return 0 if found is None else _score(data, found[1])


def score_nodes(
    filtering: DeviceFilter, data: PodDevices, pod: Pod, nodes: NodeView
) -> NDArray[np.int64]:
    scores = np.zeros(len(nodes), dtype=np.int64)
    by_result: dict[int, int] = {}  # nodes of a group share the result
    for index, node in enumerate(nodes):
        found = filtering.search_node(data, pod, node)
        if found is not None:
            result = found[1]
            score = by_result.get(id(result))
            if score is None:
                score = by_result[id(result)] = _score(data, result)
            scores[index] = score
    return scores


def normalized(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    highest = int(scores.max()) if len(scores) else 0
    return scores * MAX_NODE_SCORE // highest if highest > 0 else scores


def _score(data: PodDevices, result: DeviceSearchResult) -> int:
    if result.solution is None:
        return 0
    picks = dict(zip(data.pending, result.solution.picks, strict=True))
    return sum(
        _score_claim(claim, _alternatives(claim.status.allocation, picks.get(place, ())))
        for place, claim in enumerate(data.claims)
    )


def _alternatives(allocation: AllocationResult | None, picks: tuple[Pick, ...]) -> set[str]:
    if allocation is None:
        return {pick.request.full_name for pick in picks}
    return {result.request for result in allocation.devices.results}


def _score_claim(claim: ResourceClaim, allocated: set[str]) -> int:
    return sum(
        _BEST - rank
        for request in claim.spec.devices.requests
        for rank, each in enumerate(request.first_available)
        if f"{request.name}/{each.name}" in allocated
    )
