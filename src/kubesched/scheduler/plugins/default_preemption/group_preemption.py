"""Preemption for a whole pod group (docs/reference/09 §10)."""

from __future__ import annotations

from kubesched.api import PodDisruptionBudget, PodGroup
from kubesched.errors import PluginError
from kubesched.framework import (
    SUCCESS,
    Handle,
    PodGroupDryRun,
    PodGroupInfo,
    PodInfo,
    Status,
)
from kubesched.scheduler.plugins.default_preemption.eviction import Evictions
from kubesched.scheduler.plugins.default_preemption.eviction_budgets import BudgetReader
from kubesched.scheduler.plugins.default_preemption.group_victims import (
    select_units,
    split_units,
    victim_units,
)

__all__ = ["GroupPreemption"]

_CONSTRAINED = Status.unschedulable(
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)
_NEVER = Status.unschedulable("not eligible due to preemptionPolicy=Never.")
_NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming preemptor")


class GroupPreemption:
    """Finds the pods to evict for a group, and starts the evictions."""

    def __init__(self, handle: Handle, evictions: Evictions) -> None:
        self._handle = handle
        self._evictions = evictions
        self._groups = handle.lister(PodGroup)
        self._budgets = BudgetReader(handle.lister(PodDisruptionBudget))

    def preempt(self, group: PodGroupInfo, dry_run: PodGroupDryRun) -> Status:
        """Evict pods that keep the group from being placed; success means that it waits for that.

        Pods are put back into `dry_run` one after another, the most important first. Pods together
        with which the group does not fit are the victims.
        """
        preemptor = self._groups.get(group.name, group.namespace)
        if preemptor is None:
            return Status.failure(
                "failed to get pod group object: "
                f'podgroup.scheduling.k8s.io "{group.name}" not found'
            )
        constraints = preemptor.spec.scheduling_constraints
        if constraints is not None and constraints.topology:
            return _CONSTRAINED
        if any(pod.spec.preemption_policy == "Never" for pod in group.pods):
            return _NEVER
        try:
            victims = self._victims(preemptor, dry_run)
        except PluginError as exc:
            return Status.failure(exc)
        if isinstance(victims, Status):
            return victims
        self._evictions.start_for_group(preemptor, group.pods, victims)
        return SUCCESS

    def _victims(
        self, preemptor: PodGroup, dry_run: PodGroupDryRun
    ) -> tuple[PodInfo, ...] | Status:
        nodes, table = self._handle.snapshot.nodes, self._handle.snapshot.nodes.table
        pods = (
            pod_info
            for row in self._handle.snapshot.order.tolist()
            if table.pod_count[row]
            for pod_info in nodes.info_at(row).pods
        )
        now_ns = self._handle.clock.now_ns()
        units = victim_units(pods, self._groups, preemptor.spec.priority or 0, now_ns)
        if not units:
            return _NO_VICTIMS
        dry_run.remove([pod_info for unit in units for pod_info in unit.pods])
        if not dry_run.fits():
            return dry_run.rejection()
        violating, others = split_units(units, self._budgets.read())
        chosen = [
            unit for part in (violating, others) if part for unit in select_units(part, dry_run)
        ]
        chosen.sort(key=lambda unit: unit.sort_key)
        return tuple(pod_info for unit in chosen for pod_info in unit.pods)
