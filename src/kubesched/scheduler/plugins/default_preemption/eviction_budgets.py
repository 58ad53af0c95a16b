"""Disruption budgets, and which evictions would violate them.

docs/reference/06 §3.6.

Budgets never forbid a preemption. They affect which pods are spared and which node is chosen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kubesched.api import PodDisruptionBudget
from kubesched.api.labels import Selector
from kubesched.errors import SelectorError
from kubesched.framework import Lister, PodInfo
from kubesched.framework.pod_limits import MOST_SELECTED_LABELS, requirements_of

__all__ = ["Budget", "BudgetReader", "DisruptionBudgets"]


class Budget(NamedTuple):
    """One budget: the pods it selects, and how many of them may still be disrupted."""

    namespace: str
    selector: Selector
    allowed: int
    disrupted: Collection[str]  # names of pods that were counted when their eviction began


class DisruptionBudgets:
    """The budgets that an eviction can violate."""

    __slots__ = ("_by_namespace", "all")

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self.all = tuple(budgets)
        self._by_namespace: dict[str, list[int]] = {}
        for number, budget in enumerate(self.all):
            self._by_namespace.setdefault(budget.namespace, []).append(number)

    def __bool__(self) -> bool:
        return bool(self.all)

    def matching(self, namespace: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        """Return the numbers of the budgets that select pods with these labels."""
        if not labels:
            return ()
        return tuple(
            number
            for number in self._by_namespace.get(namespace, ())
            if self.all[number].selector.matches(labels)
        )

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Return the pods whose eviction violates a budget, and the others.

        A pod counts in every budget that selects it, even if one of them is violated.
        """
        left = [budget.allowed for budget in self.all]
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod_info in pods:
            metadata = pod_info.pod.metadata
            breaks = False
            for number in self.matching(metadata.namespace, metadata.labels):
                if metadata.name in self.all[number].disrupted:
                    continue
                left[number] -= 1
                breaks |= left[number] < 0
            (violating if breaks else others).append(pod_info)
        return violating, others


class BudgetReader:
    """Reads the budgets of the cluster.

    Selectors are compiled when the informer reports a budget, each in its turn of the event loop,
    because large ones take as long as a whole preemption.
    """

    def __init__(self, lister: Lister[PodDisruptionBudget]) -> None:
        # By namespace and name; None for a budget that selects nothing.
        self._by_name: dict[tuple[str, str], Budget | None] = {}
        self._budgets: DisruptionBudgets | None = None
        lister.follow(self._follow)

    def read(self) -> DisruptionBudgets:
        """Return the budgets; the same object while none changed."""
        if self._budgets is None:
            self._budgets = DisruptionBudgets(filter(None, self._by_name.values()))
        return self._budgets

    def _follow(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        self._budgets = None
        changed = old if new is None else new
        assert changed is not None
        key = (changed.metadata.namespace, changed.metadata.name)
        if new is None:
            self._by_name.pop(key, None)
            return
        known = self._by_name.get(key)
        if known is not None and old is not None and old.spec == new.spec:
            selector: Selector | None = known.selector
        else:
            selector = _selector_of(new)
        self._by_name[key] = None if selector is None else _budget_of(new, selector)


def _budget_of(budget: PodDisruptionBudget, selector: Selector) -> Budget:
    status = budget.status
    return Budget(
        budget.metadata.namespace, selector, status.disruptions_allowed, status.disrupted_pods
    )


def _selector_of(budget: PodDisruptionBudget) -> Selector | None:
    """Return the selector, or None if it is invalid, empty, too large or selects nothing."""
    if requirements_of(budget.spec.selector) > MOST_SELECTED_LABELS:
        return None
    try:
        selector = Selector.from_label_selector(budget.spec.selector)
    except SelectorError:
        return None
    return None if selector.is_nothing or selector.is_empty else selector
