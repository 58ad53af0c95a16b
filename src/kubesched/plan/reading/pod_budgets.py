"""The number of pods that each PodDisruptionBudget allows to evict at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kubesched.api import Pod, PodDisruptionBudget
from kubesched.api.labels import Selector
from kubesched.cluster.controllers.disruption_budgets import expected_and_desired
from kubesched.cluster.controllers.object_index import ObjectIndex, is_active
from kubesched.foundation.client.object_table import ObjectTable

__all__ = ["BudgetRoom", "budgets_of", "read_budgets"]


class BudgetRoom(msgspec.Struct, frozen=True):
    """A budget, and how many of its pods may be missing if all of them are healthy."""

    name: str  # namespace/name
    namespace: str
    selector: Selector
    allowed: int


def read_budgets(objects: ObjectTable) -> list[BudgetRoom]:
    """Compute the allowed disruptions of each budget.

    A pod that is not reported as unready counts as healthy, because objects from files may have no
    status.
    """
    budgets = list(objects.list(PodDisruptionBudget))
    if not budgets:
        return []
    index = ObjectIndex()
    for each in objects:
        if each.metadata.uid:
            index.observe(each)
    return [_room(index, each) for each in budgets]


def _room(index: ObjectIndex, budget: PodDisruptionBudget) -> BudgetRoom:
    metadata = budget.metadata
    selector = Selector.from_label_selector(budget.spec.selector)
    pods: Sequence[Pod] = [
        pod
        for pod in index.within(Pod, metadata.namespace)
        if is_active(pod) and selector.matches(pod.metadata.labels)
    ]
    expected, desired = expected_and_desired(index, budget, list(pods))
    healthy = sum(not _is_unready(pod) for pod in pods)
    allowed = max(0, healthy - desired) if expected else 0
    name = f"{metadata.namespace}/{metadata.name}"
    return BudgetRoom(name, metadata.namespace, selector, allowed)


def _is_unready(pod: Pod) -> bool:
    return not pod.spec.node_name or any(
        each.type == "Ready" and each.status != "True" for each in pod.status.conditions
    )


def budgets_of(pod: Pod, budgets: Iterable[BudgetRoom]) -> list[int]:
    """Return the numbers of the budgets that apply to the pod."""
    metadata = pod.metadata
    return [
        number
        for number, each in enumerate(budgets)
        if each.namespace == metadata.namespace and each.selector.matches(metadata.labels)
    ]
