"""The progress of a workload: which of its pods are expected, decided and undecided.

A pod is decided when it is bound, when an attempt failed and no preemption makes room for it, or
when a plugin gates it. Evicted and deleted pods are not waited for; pods that a controller has not
created yet are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from kubesched.api import Pod, ReplicationController
from kubesched.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kubesched.api.batch import CronJob, Job
from kubesched.api.pod_facts import pod_key
from kubesched.api.time import format_time
from kubesched.cli.cluster_summary import tried_in_vain
from kubesched.foundation.util.cron_schedule import parse_schedule
from kubesched.scheduler.backend.queue.view import Place, PodPlace

__all__ = [
    "OWNERS",
    "Owner",
    "WorkloadProgress",
    "next_run",
    "owner_name",
    "pods_of",
    "remarks",
    "short_of_pods",
    "wanted_pods",
]

# Kinds whose controllers make pods.
Owner = Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job
OWNERS: tuple[type[Owner], ...] = (
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    DaemonSet,
    Job,
)
_FINISHED = ("Succeeded", "Failed")


class Queue(Protocol):
    """The part of the scheduler's queue that this module needs."""

    def describe(self, pod_key_or_uid: str, now_ns: int) -> PodPlace | None: ...


class WorkloadProgress:
    """Tracks which pods of a workload are decided. `note` is called with every pod."""

    def __init__(
        self, queue: Queue, scheduler_names: Collection[str], expected: Iterable[str]
    ) -> None:
        """Track the pods of these schedulers; `expected` are keys of the workload's own pods."""
        self._queue = queue
        self._scheduler_names = scheduler_names
        self._expected = frozenset(expected)
        self._seen: set[str] = set()

    def note(self, pod: Pod) -> None:
        """Note that a pod has been created."""
        self._seen.add(pod_key(pod))

    def total(
        self, pods: Collection[Pod], owners: Iterable[Owner], refused: Collection[str] = ()
    ) -> int:
        """Return how many pods exist or will be created."""
        missing = len(self._expected - self._seen)
        for each in owners:
            if each.metadata.uid not in refused:
                missing += max(0, wanted_pods(each, pods) - pods_of(each, pods))
        return len(pods) + missing

    def open(
        self,
        pods: Iterable[Pod],
        owners: Iterable[Owner],
        now_ns: int,
        refused: Collection[str] = (),
    ) -> dict[str, str]:
        """Return the undecided pods and owners with reasons, except owners that are `refused`."""
        pods = list(pods)
        found = dict.fromkeys(sorted(self._expected - self._seen), "not created yet")
        for owner in short_of_pods(owners, pods):
            if owner.metadata.uid not in refused:
                found[owner_name(owner)] = _made(owner, pods)
        for pod in pods:
            if why := self._why_open(pod, now_ns):
                found[pod_key(pod)] = why
        return found

    def held(self, pods: Iterable[Pod], now_ns: int) -> Mapping[str, str]:
        """Return the gated pods, with the plugin that gates each."""
        places = {
            pod_key(pod): self._queue.describe(pod_key(pod), now_ns)
            for pod in pods
            if not pod.spec.node_name
        }
        return {
            key: place.gated_by
            for key, place in places.items()
            if place is not None and place.place is Place.GATED
        }

    def _why_open(self, pod: Pod, now_ns: int) -> str:
        """Return why a pod is undecided; empty if it is decided."""
        if (
            pod.spec.node_name
            or pod.status.phase in _FINISHED
            or pod.metadata.deletion_timestamp
            or pod.spec.scheduler_name not in self._scheduler_names
        ):
            return ""
        place = self._queue.describe(pod_key(pod), now_ns)
        if place is not None and place.place is Place.GATED:
            return ""
        if place is not None and place.place in (Place.ACTIVE, Place.IN_FLIGHT):
            return "being placed"
        if pod.status.nominated_node_name:
            return f"waits for room on {pod.status.nominated_node_name}"
        return "" if tried_in_vain(pod) else "not tried yet"


def remarks(
    pods: Collection[Pod],
    owners: Iterable[Owner | CronJob],
    refused: Mapping[str, str],
    now_ns: int,
) -> dict[str, str]:
    """Return the owners whose pods are created later or never, with reasons; `refused` by uid."""
    found = {}
    for owner in owners:
        if isinstance(owner, CronJob):
            found[owner_name(owner)] = next_run(owner, now_ns)
        elif (why := refused.get(owner.metadata.uid)) and short_of_pods([owner], pods):
            found[owner_name(owner)] = f"{_made(owner, pods)}: {why}"
    return found


def next_run(owner: CronJob, now_ns: int) -> str:
    """Return when a CronJob creates its next Job."""
    if owner.spec.suspend:
        return "suspended"
    try:
        time_ns = parse_schedule(owner.spec.schedule, owner.spec.time_zone).after(now_ns)
    except ValueError as exc:
        return f"schedule {owner.spec.schedule!r}: {exc}"
    return "never runs" if time_ns is None else f"next Job at {format_time(time_ns)}"


def short_of_pods(owners: Iterable[Owner], pods: Collection[Pod]) -> list[Owner]:
    """Return the owners whose controllers have not created all their pods."""
    return [each for each in owners if pods_of(each, pods) < wanted_pods(each, pods)]


def owner_name(owner: Owner | CronJob) -> str:
    """Return an owner's name with its kind, as it is shown among pods."""
    return f"{owner.kind} {owner.metadata.namespace}/{owner.metadata.name}"


def _made(owner: Owner, pods: Collection[Pod]) -> str:
    return f"{pods_of(owner, pods)} of {wanted_pods(owner, pods)} pods made"


def wanted_pods(owner: Owner, pods: Collection[Pod]) -> int:
    """Return how many pods a controller creates for an object; the current number if unknown."""
    match owner:
        case Deployment() | ReplicaSet() | ReplicationController():
            return 1 if owner.spec.replicas is None else owner.spec.replicas
        case StatefulSet(spec=spec):
            own = _owned(owner, pods)
            # Each pod waits for the previous one, unless the policy is Parallel.
            is_stuck = spec.pod_management_policy != "Parallel" and not all(
                pod.spec.node_name for pod in own
            )
            return len(own) if is_stuck else 1 if spec.replicas is None else spec.replicas
        case Job(spec=spec) if not spec.suspend:
            parallelism = 1 if spec.parallelism is None else spec.parallelism
            return parallelism if spec.completions is None else min(parallelism, spec.completions)
        case DaemonSet(status=status, metadata=metadata):
            # Until the controller has counted nodes, expect at least one pod.
            is_new = status.observed_generation < max(1, metadata.generation)
            return pods_of(owner, pods) + 1 if is_new else status.desired_number_scheduled
    return 0


def pods_of(owner: Owner, pods: Collection[Pod]) -> int:
    """Return how many pods exist for an object, created by its controller or by its children's."""
    match owner:
        case Deployment() | ReplicaSet():
            selector = owner.spec.selector
            labels = {} if selector is None else selector.match_labels or {}
            # Pods exist before the controller has counted them in the status.
            return max(owner.status.replicas, _labelled(owner, labels, pods))
        case ReplicationController():
            labels = owner.spec.selector or {}
            return max(owner.status.replicas, _labelled(owner, labels, pods))
        case Job(status=status):
            return status.active + status.succeeded + status.failed
    return len(_owned(owner, pods))


def _labelled(owner: Owner, labels: Mapping[str, str], pods: Collection[Pod]) -> int:
    """Count the pods of an owner's namespace that its selector matches."""
    wanted, namespace = labels.items(), owner.metadata.namespace
    return sum(
        wanted <= pod.metadata.labels.items()
        for pod in pods
        if wanted and pod.metadata.namespace == namespace
    )


def _owned(owner: Owner, pods: Collection[Pod]) -> list[Pod]:
    uid = owner.metadata.uid
    return [pod for pod in pods if any(each.uid == uid for each in pod.metadata.owner_references)]
