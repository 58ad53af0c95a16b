"""Pod disruption budgets: which of them do not allow an eviction."""

from __future__ import annotations

import math
from collections.abc import Iterable

from kubesched.api import Pod, PodDisruptionBudget
from kubesched.api.labels import Selector
from kubesched.framework.explaining import ObjectReader

__all__ = ["blocking_budgets", "disruptions_allowed"]


def blocking_budgets(objects: ObjectReader, pods: Iterable[Pod]) -> list[PodDisruptionBudget]:
    """Return the budgets that do not allow the eviction of all these pods at once."""
    evicted = list(pods)
    found = []
    for budget in objects.list(PodDisruptionBudget):
        selector = Selector.from_label_selector(budget.spec.selector)
        covered = [
            pod
            for pod in evicted
            if pod.metadata.namespace == budget.metadata.namespace
            and selector.matches(pod.metadata.labels)
        ]
        if covered and disruptions_allowed(objects, budget) < len(covered):
            found.append(budget)
    return found


def disruptions_allowed(objects: ObjectReader, budget: PodDisruptionBudget) -> int:
    """How many evictions the budget allows, by its status or, without one, by its spec."""
    status, spec = budget.status, budget.spec
    if status.observed_generation or status.expected_pods or status.disruptions_allowed:
        return status.disruptions_allowed
    selector = Selector.from_label_selector(spec.selector)
    healthy = sum(
        bool(pod.spec.node_name)
        and pod.status.phase in ("", "Running")
        and pod.metadata.deletion_timestamp is None
        and selector.matches(pod.metadata.labels)
        for pod in objects.list(Pod, budget.metadata.namespace)
    )
    if spec.max_unavailable is not None:
        return _amount(spec.max_unavailable, healthy)
    if spec.min_available is not None:
        return max(healthy - _amount(spec.min_available, healthy), 0)
    return 0


def _amount(value: int | str, of: int) -> int:
    if isinstance(value, int):
        return value
    return math.ceil(of * int(value.removesuffix("%")) / 100)
