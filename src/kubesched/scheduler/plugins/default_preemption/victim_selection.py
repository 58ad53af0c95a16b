"""The victims on one node, found by running the filters per pod.

docs/reference/06 §3.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kubesched.api.pod_facts import pod_priority
from kubesched.errors import PluginError
from kubesched.framework import (
    SUCCESS,
    CycleState,
    Handle,
    NodeInfo,
    PodInfo,
    PreemptionRules,
    Status,
)
from kubesched.scheduler.plugins.default_preemption.eviction_budgets import DisruptionBudgets
from kubesched.scheduler.plugins.default_preemption.importance import most_important_first
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import PreemptionCandidate

__all__ = ["NO_VICTIMS", "RuledVictims", "no_victim_needed", "select_victims"]

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")


class RuledVictims(NamedTuple):
    """The rules of a plugin for the pods on one node."""

    rules: PreemptionRules
    potential: Sequence[PodInfo]
    leaving: Sequence[PodInfo]  # pods that leave the node anyway
    may_wait: bool  # whether some pod leaves its node, this one or another


def no_victim_needed(node_name: str) -> Status:
    """The status of a rejected node on which the preemptor fits without evictions."""
    return Status.failure(f'expected at least one victim pod on node "{node_name}"')


def select_victims(
    handle: Handle,
    state: CycleState,
    preemptor: PodInfo,
    node: NodeInfo,
    budgets: DisruptionBudgets,
    now_ns: int,
    ruled: RuledVictims | None = None,
) -> PreemptionCandidate | Status:
    """Select the victims on a node, or return why evictions cannot help.

    They are chosen by the rules of a plugin, by default among the pods of lower priority.
    """
    potential: Sequence[PodInfo]
    leaving: Sequence[PodInfo] = ()
    if ruled is not None:
        potential, leaving = ruled.potential, ruled.leaving
    else:
        priority = pod_priority(preemptor.pod)
        potential = [other for other in node.pods if pod_priority(other.pod) < priority]
        if not potential:
            return NO_VICTIMS
    rules = None if ruled is None else ruled.rules
    trial = _NodeDryRun(handle, state.clone(), preemptor, node.clone(), rules)
    try:
        for other in (*leaving, *potential):
            trial.remove(other)
        status = trial.status()
        if not status.is_success:
            return status
        violating, others = budgets.split(most_important_first(potential, now_ns))
        broken = [victim for victim in violating if not trial.spare(victim)]
        victims = [*broken, *(victim for victim in others if not trial.spare(victim))]
    except PluginError as exc:
        return Status.failure(exc)
    if not victims and (ruled is None or not ruled.may_wait):
        return no_victim_needed(node.name)
    if violating and others:
        victims = most_important_first(victims, now_ns)
    return PreemptionCandidate(node.name, tuple(victims), len(broken))


class _NodeDryRun:
    """Copies of a node and a state, on which pods are removed and returned."""

    def __init__(
        self,
        handle: Handle,
        state: CycleState,
        preemptor: PodInfo,
        node: NodeInfo,
        rules: PreemptionRules | None,
    ) -> None:
        self._handle = handle
        self._state = state
        self._preemptor = preemptor
        self._node = node
        self._rules = rules

    def remove(self, other: PodInfo) -> None:
        self._node.remove_pod(other.uid)
        self._handle.dry_run.remove_pod(self._state, self._preemptor.pod, other, self._node)

    def spare(self, other: PodInfo) -> bool:
        """Return a pod to the node; remove it again unless the preemptor still fits."""
        self._node.add_pod(other)
        self._handle.dry_run.add_pod(self._state, self._preemptor.pod, other, self._node)
        try:
            fits = self.status().is_success
        except PluginError:
            # A filter that fails has not accepted the node.
            fits = False
        if not fits:
            self.remove(other)
        return fits

    def status(self) -> Status:
        status = self._handle.dry_run.filter_node(self._state, self._preemptor, self._node)
        if status.is_success and self._rules is not None:
            return SUCCESS if self._rules.admits(self._state, self._preemptor) else NO_VICTIMS
        return status
