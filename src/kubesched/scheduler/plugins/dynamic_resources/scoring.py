"""Scores of nodes by how good the alternatives are that they can give (docs/reference/08 §5.6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.api import AllocationResult, Pod, ResourceClaim
from kubesched.framework import MAX_NODE_SCORE, NodeInfo, NodeView
from kubesched.scheduler.plugins.dynamic_resources.device_search import Pick
from kubesched.scheduler.plugins.dynamic_resources.device_search_results import DeviceSearchResult
from kubesched.scheduler.plugins.dynamic_resources.filtering import DeviceFilter
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices

__all__ = ["normalized", "score_node", "score_nodes"]

_BEST = 8  # as many alternatives as a request may have


def score_node(filtering: DeviceFilter, data: PodDevices, pod: Pod, node: NodeInfo) -> int:
    found = filtering.found_on(data, pod, node)
    return 0 if found is None else _score(data, found[1])


def score_nodes(
    filtering: DeviceFilter, data: PodDevices, pod: Pod, nodes: NodeView
) -> NDArray[np.int64]:
    scores = np.zeros(len(nodes), dtype=np.int64)
    known: dict[int, int] = {}  # by answer: nodes of a group share one
    for index, node in enumerate(nodes):
        found = filtering.found_on(data, pod, node)
        if found is not None:
            answer = found[1]
            score = known.get(id(answer))
            if score is None:
                score = known[id(answer)] = _score(data, answer)
            scores[index] = score
    return scores


def normalized(scores: NDArray[np.int64]) -> NDArray[np.int64]:
    highest = int(scores.max()) if len(scores) else 0
    return scores * MAX_NODE_SCORE // highest if highest > 0 else scores


def _score(data: PodDevices, answer: DeviceSearchResult) -> int:
    if answer.solution is None:
        return 0
    picks = dict(zip(data.pending, answer.solution.picks, strict=True))
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
