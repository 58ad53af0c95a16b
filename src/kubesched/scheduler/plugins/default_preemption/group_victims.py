"""The victims of a pod group's preemption: units, their order, and the choice among them.

docs/reference/09 §10.2, §10.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kubesched.api import PodGroup
from kubesched.api.pod_facts import is_terminating, pod_key, pod_priority, start_time_ns
from kubesched.framework import Lister, PodGroupDryRun, PodInfo
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.plugins.default_preemption.eviction_budgets import DisruptionBudgets

__all__ = ["VictimUnit", "select_units", "split_units", "victim_units"]

_WHOLE_GROUP = "PodGroup"  # the disruption mode


class VictimUnit(msgspec.Struct, eq=False):
    """Pods that are evicted together: one pod, or all pods of a group with that policy."""

    priority: int
    pods: list[PodInfo]
    start_ns: int  # of the first pod
    is_of_group: bool  # whether the first pod belongs to a group

    @property
    def sort_key(self) -> tuple[int, bool, int, int, bool, str]:
        """The most important unit has the smallest key.

        Among units that are equal in the reference, one that terminates already is less important.
        The name makes the order the same in every cycle.
        """
        first = self.pods[0].pod
        size = len(self.pods) if self.is_of_group else 0
        is_leaving = is_terminating(first)
        return (
            -self.priority,
            not self.is_of_group,
            -size,
            self.start_ns,
            is_leaving,
            pod_key(first),
        )


def victim_units(
    pods: Iterable[PodInfo], groups: Lister[PodGroup], priority: int, now_ns: int
) -> list[VictimUnit]:
    """Return the units below the priority, the most important first."""
    found: list[VictimUnit] = []
    by_group: dict[str, VictimUnit | None] = {}
    for pod_info in pods:
        pod = pod_info.pod
        group = None
        if name := group_name_of(pod):
            group = groups.get(name, pod.metadata.namespace)
        if group is None or group.spec.disruption_mode != _WHOLE_GROUP:
            own = pod_priority(pod)
            if own < priority:
                start_ns = start_time_ns(pod, now_ns)
                found.append(VictimUnit(own, [pod_info], start_ns, bool(name)))
            continue
        uid = group.metadata.uid
        if uid not in by_group:
            own = group.spec.priority or 0
            unit = None
            if own < priority:
                unit = VictimUnit(own, [], start_time_ns(pod, now_ns), True)
                found.append(unit)
            by_group[uid] = unit
        if (unit := by_group[uid]) is not None:
            unit.pods.append(pod_info)
    found.sort(key=lambda unit: unit.sort_key)
    return found


def split_units(
    units: Sequence[VictimUnit], budgets: DisruptionBudgets
) -> tuple[list[VictimUnit], list[VictimUnit]]:
    """Return the units whose eviction violates a budget, and the others."""
    if not budgets:
        return [], list(units)
    left = [budget.allowed for budget in budgets.all]
    violating: list[VictimUnit] = []
    others: list[VictimUnit] = []
    for unit in units:
        (violating if _violates(unit, budgets, left) else others).append(unit)
    return violating, others


def _violates(unit: VictimUnit, budgets: DisruptionBudgets, left: list[int]) -> bool:
    """Whether the unit violates a budget; the check ends at the first one, as in the reference."""
    for pod_info in unit.pods:
        metadata = pod_info.pod.metadata
        for number in budgets.matching(metadata.namespace, metadata.labels):
            if metadata.name in budgets.all[number].disrupted:
                continue
            left[number] -= 1
            if left[number] < 0:
                return True
    return False


def select_units(units: Sequence[VictimUnit], dry_run: PodGroupDryRun) -> list[VictimUnit]:
    """Put back units in this order as long as the group still fits; return the others.

    Initially all pods of the units are removed. If the group fits with many units, they are put
    back at once, because it would also fit with fewer of them.
    """
    pods = [pod_info for unit in units for pod_info in unit.pods]
    dry_run.put_back(pods)
    if dry_run.fits():
        return []
    if len(units) == 1:
        dry_run.remove(pods)
        return list(units)
    dry_run.remove(pods)
    middle = len(units) // 2
    return [*select_units(units[:middle], dry_run), *select_units(units[middle:], dry_run)]
