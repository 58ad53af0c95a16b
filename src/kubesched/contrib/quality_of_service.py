"""The quality of service class of pods, from the resources of their containers."""

from __future__ import annotations

import enum

from kubesched.api import CPU, MEMORY, Pod, parse_milli_value, parse_value

__all__ = ["QualityOfService", "quality_of"]


class QualityOfService(enum.IntEnum):
    """The classes of Kubernetes, the best first."""

    GUARANTEED = 0
    BURSTABLE = 1
    BEST_EFFORT = 2


def quality_of(pod: Pod) -> QualityOfService:
    """Return the class of a pod.

    Guaranteed: every container has limits of cpu and memory that equal its requests.
    """
    is_guaranteed, has_any = bool(pod.spec.containers), False
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        limits, requests = container.resources.limits, container.resources.requests
        for name, parse in ((CPU, parse_milli_value), (MEMORY, parse_value)):
            limit, request = parse(limits.get(name, 0)), parse(requests.get(name, 0))
            has_any = has_any or bool(limit) or bool(request)
            if name not in limits or (name in requests and limit != request):
                is_guaranteed = False
    if is_guaranteed and has_any:
        return QualityOfService.GUARANTEED
    return QualityOfService.BURSTABLE if has_any else QualityOfService.BEST_EFFORT
