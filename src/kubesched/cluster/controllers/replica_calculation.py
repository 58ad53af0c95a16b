"""Computes the number of replicas that brings the usage of a resource to its target.

Pods that are not ready, or have no metrics, are counted conservatively: a change that they could
reverse is not made.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kubesched.api import Pod
from kubesched.api.quantity import parse_quantity
from kubesched.api.time import parse_time
from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import SECOND

__all__ = ["NoMetricsError", "Proposal", "ResourceTarget", "Tolerance", "propose_replicas"]

_INITIALIZATION_NS: Final = 300 * SECOND
_INITIAL_READINESS_NS: Final = 30 * SECOND
_WINDOW_NS: Final = 15 * SECOND
_NANO: Final = 10**9
# By pod and container: billionths of a core, or billions of bytes' worth of memory.
PodUse = Mapping[str, int]


class NoMetricsError(KubeschedError):
    """The number of replicas cannot be computed. The text gives the reason."""


class Tolerance(NamedTuple):
    """How far the use may be from the target without a change: below and above."""

    down: float = 0.1
    up: float = 0.1

    def covers(self, ratio: float) -> bool:
        return 1 - self.down <= ratio <= 1 + self.up


class ResourceTarget(NamedTuple):
    """The target for a resource: a percentage of the requests, or an average in billionths."""

    resource: str
    container: str = ""  # only of this container; of all if empty
    utilization: int | None = None
    average_nanos: int = 0


class Proposal(NamedTuple):
    """A number of replicas, and the present use."""

    replicas: int
    utilization: int | None
    average_nanos: int


class _Groups(NamedTuple):
    ready: int
    unready: set[str]
    missing: set[str]
    ignored: set[str]


def propose_replicas(
    target: ResourceTarget,
    pods: Iterable[Pod],
    usage: Mapping[str, PodUse],
    current: int,
    now_ns: int,
    tolerance: Tolerance,
) -> Proposal:
    """Return the number of replicas for a target.

    `usage` is the usage of each pod's containers, by the pod's name.

    Raises:
        NoMetricsError: a request is missing, or there are no metrics of ready pods.
    """
    pods = list(pods)
    if not usage:
        raise NoMetricsError(
            f"unable to get metrics for resource {target.resource}: no metrics returned from "
            "resource metrics API"
        )
    groups = _grouped(pods, usage, target.resource, now_ns)
    used = _used(target, usage, without=groups.unready | groups.ignored)
    requests = {}
    if target.utilization is not None:
        requests = {each.metadata.name: _requested(target, each) for each in pods}
    if not used:
        raise NoMetricsError("did not receive metrics for targeted pods (pods might be unready)")
    ratio, utilization = _ratio(target, used, requests)
    average = sum(used.values()) // len(used)
    scales_up_with_unready = bool(groups.unready) and ratio > 1
    if not scales_up_with_unready and not groups.missing:
        if tolerance.covers(ratio):
            return Proposal(current, utilization, average)
        return Proposal(math.ceil(ratio * groups.ready), utilization, average)
    used |= _assumed_use(target, groups.missing, requests, ratio)
    if scales_up_with_unready:
        used |= dict.fromkeys(groups.unready, 0)
    careful, _ = _ratio(target, used, requests)
    replicas = math.ceil(careful * len(used))
    if tolerance.covers(careful) or _contradicts(ratio, careful, replicas - current):
        replicas = current
    return Proposal(replicas, utilization, average)


def _contradicts(ratio: float, careful: float, change: int) -> bool:
    """Whether the pods without metrics could turn the change into the opposite."""
    if (ratio < 1 < careful) or (careful < 1 < ratio):
        return True
    return (careful < 1 and change > 0) or (careful > 1 and change < 0)


def _assumed_use(
    target: ResourceTarget, missing: Iterable[str], requests: Mapping[str, int], ratio: float
) -> dict[str, int]:
    """Return the use that is assumed for pods without metrics, so that the change is careful."""
    if ratio > 1:
        return dict.fromkeys(missing, 0)
    if ratio == 1:
        return {}
    if target.utilization is None:
        return dict.fromkeys(missing, target.average_nanos)
    # At least the whole request, so that only a safe part of the pods is removed.
    share = max(100, target.utilization)
    return {name: requests.get(name, 0) * share // 100 for name in missing}


def _ratio(
    target: ResourceTarget, used: Mapping[str, int], requests: Mapping[str, int]
) -> tuple[float, int | None]:
    total = sum(used.values())
    if target.utilization is None:
        return total / len(used) / target.average_nanos, None
    requested = sum(requests.get(name, 0) for name in used)
    if not requested:
        raise NoMetricsError("no metrics returned matched known pods")
    utilization = total * 100 // requested
    return utilization / target.utilization, utilization


def _used(
    target: ResourceTarget, usage: Mapping[str, PodUse], without: Collection[str]
) -> dict[str, int]:
    return {name: _of(target, use) for name, use in usage.items() if name not in without}


def _of(target: ResourceTarget, containers: PodUse) -> int:
    if target.container:
        return containers.get(target.container, 0)
    return sum(containers.values())


def _requested(target: ResourceTarget, pod: Pod) -> int:
    """Return the request of a pod in billionths. Raises NoMetricsError if it has none."""
    total = 0
    for container in pod.spec.containers:
        if target.container and container.name != target.container:
            continue
        quantity = container.resources.requests.get(target.resource)
        if quantity is None:
            raise NoMetricsError(
                f"missing request for {target.resource} in container {container.name} of Pod "
                f"{pod.metadata.name}"
            )
        total += parse_quantity(quantity).nanos
    return total


def _grouped(
    pods: Iterable[Pod], usage: Mapping[str, PodUse], resource: str, now_ns: int
) -> _Groups:
    groups = _Groups(0, set(), set(), set())
    ready = 0
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Failed":
            groups.ignored.add(name)
        elif pod.status.phase == "Pending":
            groups.unready.add(name)
        elif name not in usage:
            groups.missing.add(name)
        elif resource == "cpu" and _is_unready(pod, now_ns):
            groups.unready.add(name)
        else:
            ready += 1
    return groups._replace(ready=ready)


def _is_unready(pod: Pod, now_ns: int) -> bool:
    """Whether the CPU usage does not represent the load: the pod starts, or was never ready."""
    condition = next((each for each in pod.status.conditions if each.type == "Ready"), None)
    if condition is None or pod.status.start_time is None:
        return True
    started_ns = parse_time(pod.status.start_time)
    moved_ns = parse_time(condition.last_transition_time or pod.status.start_time)
    is_ready = condition.status == "True"
    if started_ns + _INITIALIZATION_NS > now_ns:
        # The metric must cover a whole window in which the pod was ready.
        return not is_ready or now_ns < moved_ns + _WINDOW_NS
    return not is_ready and started_ns + _INITIAL_READINESS_NS > moved_ns
