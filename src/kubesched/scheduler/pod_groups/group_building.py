"""Builds the group cycle of a scheduler."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from kubesched.api import PodGroup
from kubesched.foundation.util.clock import Clock
from kubesched.framework.status_writes import status_writes
from kubesched.scheduler.backend.grouping_cache import GroupingCache
from kubesched.scheduler.backend.queue.grouping_queue import GroupingQueue
from kubesched.scheduler.cycles.binding_cycle import PodPlacement
from kubesched.scheduler.cycles.broken_attempts import BrokenAttempts
from kubesched.scheduler.cycles.failure import FailureHandler
from kubesched.scheduler.cycles.scheduling_cycle import SchedulingCycle
from kubesched.scheduler.pod_groups.group_algorithm import GroupAlgorithm, MemberTrials
from kubesched.scheduler.pod_groups.group_condition import PodGroupConditionWriter
from kubesched.scheduler.pod_groups.group_cycle import PodGroupCycle
from kubesched.scheduler.pod_groups.group_preemption_step import GroupPreemptionStep
from kubesched.scheduler.pod_groups.group_submission import GroupSubmission
from kubesched.scheduler.pod_groups.placement_algorithm import PlacementAlgorithm
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.services import Services

__all__ = ["build_group_cycle"]


def build_group_cycle(
    cache: GroupingCache,
    queue: GroupingQueue,
    profiles: Mapping[str, Framework],
    services: Services,
    scheduling: SchedulingCycle,
    failures: FailureHandler,
    broken: BrokenAttempts,
    bind: Callable[[PodPlacement], None],
    clock: Clock,
    rng: random.Random,
) -> PodGroupCycle:
    """Build the group cycle. The informer of PodGroups is created here."""
    groups = services.lister(PodGroup)
    trials = MemberTrials(cache, queue, scheduling, clock)
    algorithm: GroupAlgorithm = trials
    if services.feature_enabled("TopologyAwareWorkloadScheduling"):
        algorithm = PlacementAlgorithm(cache, trials, groups, random.Random(rng.getrandbits(64)))
    preemption = None
    if services.feature_enabled("WorkloadAwarePreemption"):
        preemption = GroupPreemptionStep(cache, algorithm, groups)
    return PodGroupCycle(
        cache,
        queue,
        profiles,
        algorithm,
        GroupSubmission(scheduling, failures, bind, clock),
        failures,
        broken,
        groups,
        PodGroupConditionWriter(
            services.api, clock, rng, status_writes(services.shared, services.lister)
        ),
        preemption,
        services.spawn,
        services.metrics,
        clock,
    )
