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
from kubesched.scheduler.pod_groups.group_algorithm import GroupAlgorithm
from kubesched.scheduler.pod_groups.group_condition import PodGroupConditionWriter
from kubesched.scheduler.pod_groups.group_cycle import PodGroupCycle
from kubesched.scheduler.pod_groups.group_submission import GroupSubmission
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
    return PodGroupCycle(
        cache,
        queue,
        profiles,
        GroupAlgorithm(cache, queue, scheduling, clock),
        GroupSubmission(scheduling, failures, bind, clock),
        failures,
        broken,
        services.lister(PodGroup),
        PodGroupConditionWriter(
            services.api, clock, rng, status_writes(services.shared, services.lister)
        ),
        services.spawn,
        services.metrics,
        clock,
    )
