"""Preemption for a group that does not fit (docs/reference/09 §6.3, §10)."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.api import PodGroup
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Lister, Plugin, PodGroupInfo, QueuedPodInfo, Status
from kubesched.framework.pod_groups import GroupCycle, group_name_of
from kubesched.scheduler.backend.grouping_cache import GroupingCache
from kubesched.scheduler.config.plugin_names import DEFAULT_PREEMPTION
from kubesched.scheduler.pod_groups.equal_members import equal_members
from kubesched.scheduler.pod_groups.group_algorithm import GroupAlgorithm
from kubesched.scheduler.pod_groups.group_dry_run import CountingDryRun, PlacingDryRun
from kubesched.scheduler.pod_groups.group_needs import members_needed
from kubesched.scheduler.pod_groups.group_results import GroupResult
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_calls import THROWN, as_status, failure_of

__all__ = ["GroupPreemptionStep"]

log = get_logger(__name__)

_NO_PLUGIN = Status.unschedulable(
    "default preemption plugin is not registered, workload aware preemption is disabled"
)


class GroupPreemptionStep:
    """Calls the plugin that makes room for groups, and adds its result to the verdict."""

    def __init__(
        self, cache: GroupingCache, algorithm: GroupAlgorithm, groups: Lister[PodGroup]
    ) -> None:
        self._cache = cache
        self._algorithm = algorithm
        self._groups = groups
        # Whether equal members are counted. Tests turn it off to compare the results.
        self.counts_members = True

    def run(
        self,
        framework: Framework,
        members: Sequence[QueuedPodInfo],
        cycle: GroupCycle,
        outcome: GroupResult,
    ) -> None:
        """Preempt for the group, and update its verdict."""
        status = self._preempt(framework, members, cycle)
        if status.is_success:
            outcome.is_waiting_on_preemption = True
        elif status.is_rejected:
            verdict = outcome.status
            reasons = (*verdict.reasons, status.message)
            outcome.status = Status(verdict.code, reasons, verdict.error, verdict.plugin)
            outcome.is_without_prospect = True
        else:
            outcome.status = status

    def _preempt(
        self, framework: Framework, members: Sequence[QueuedPodInfo], cycle: GroupCycle
    ) -> Status:
        plugin = framework.plugins.by_name.get(DEFAULT_PREEMPTION)
        if plugin is None:
            log.detail(
                2,
                "Workload Aware Preemption is enabled, but default preemption plugin is not set. "
                "Workload Aware Preemption will not be used.",
            )
            return _NO_PLUGIN
        first = members[0].pod
        name, namespace = group_name_of(first), first.metadata.namespace
        group = PodGroupInfo(namespace, name, tuple(queued.pod for queued in members))
        dry_run = self._dry_run(framework, members, cycle)
        try:
            return as_status(plugin.post_filter_group(group, dry_run))
        except THROWN as exc:
            return _thrown(plugin, exc)
        finally:
            dry_run.restore()
            self._cache.update_snapshot()

    def _dry_run(
        self, framework: Framework, members: Sequence[QueuedPodInfo], cycle: GroupCycle
    ) -> CountingDryRun | PlacingDryRun:
        snapshot, pod = self._cache.snapshot, members[0].pod
        needed = members_needed(framework, self._groups, self._cache.groups, pod)
        rejection = self._algorithm.rejection_everywhere(framework)
        if self.counts_members and needed is not None and rejection is not None:
            equal = equal_members(framework, snapshot, members, cycle)
            if equal is not None:
                return CountingDryRun(snapshot.nodes, equal, needed, rejection)
        return PlacingDryRun(self._cache, self._algorithm, framework, members, cycle)


def _thrown(plugin: Plugin, error: BaseException) -> Status:
    failure = failure_of(error)
    log.exception("Preemption for a pod group failed", error, plugin=plugin.name)
    return failure
