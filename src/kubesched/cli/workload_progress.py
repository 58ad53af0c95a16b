"""How far the placing of a workload is: which pods are expected, which are decided, which open.

A pod is decided when nothing more will happen to it by itself right now: it has a node, or was
tried in vain and nobody makes room for it, or a plugin keeps it out of the queue. Pods that were
evicted or deleted meanwhile are not waited for; pods that a controller is yet to make are.
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
from kubesched.cluster.controllers.cron_schedule import parse_schedule
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
    """The scheduler's queue, as far as this asks it."""

    def describe(self, pod_key_or_uid: str, now_ns: int) -> PodPlace | None: ...


class WorkloadProgress:
    """Follows the pods of a workload; told of every pod that appears."""

    def __init__(
        self, queue: Queue, scheduler_names: Collection[str], expected: Iterable[str]
    ) -> None:
        """`expected` are the keys of the pods that the workload itself has."""
        self._queue = queue
        self._scheduler_names = scheduler_names
        self._expected = frozenset(expected)
        self._seen: set[str] = set()

    def note(self, pod: Pod) -> None:
        """The pod is there, or was."""
        self._seen.add(pod_key(pod))

    def total(
        self, pods: Collection[Pod], owners: Iterable[Owner], refused: Collection[str] = ()
    ) -> int:
        """How many pods there are or will be, as far as anybody knows."""
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
        """What is not decided yet, by name, and why; not owners whose pods are `refused`."""
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
        """Pods that a plugin keeps out of the queue: key to plugin."""
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
        """Why more will happen to the pod by itself; empty if not."""
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
    """Owners whose pods come later, or not at all, and why. `refused` is by uid."""
    found = {}
    for owner in owners:
        if isinstance(owner, CronJob):
            found[owner_name(owner)] = next_run(owner, now_ns)
        elif (why := refused.get(owner.metadata.uid)) and short_of_pods([owner], pods):
            found[owner_name(owner)] = f"{_made(owner, pods)}: {why}"
    return found


def next_run(owner: CronJob, now_ns: int) -> str:
    """When a CronJob makes its next Job."""
    if owner.spec.suspend:
        return "suspended"
    try:
        time_ns = parse_schedule(owner.spec.schedule, owner.spec.time_zone).after(now_ns)
    except ValueError as exc:
        return f"schedule {owner.spec.schedule!r}: {exc}"
    return "never runs" if time_ns is None else f"next Job at {format_time(time_ns)}"


def short_of_pods(owners: Iterable[Owner], pods: Collection[Pod]) -> list[Owner]:
    """Those whose controllers have not made all their pods."""
    return [each for each in owners if pods_of(each, pods) < wanted_pods(each, pods)]


def owner_name(owner: Owner | CronJob) -> str:
    """How an owner is called where there are pods too."""
    return f"{owner.kind} {owner.metadata.namespace}/{owner.metadata.name}"


def _made(owner: Owner, pods: Collection[Pod]) -> str:
    return f"{pods_of(owner, pods)} of {wanted_pods(owner, pods)} pods made"


def wanted_pods(owner: Owner, pods: Collection[Pod]) -> int:
    """How many pods a controller will have made for an object; those it has count if unknown."""
    match owner:
        case Deployment() | ReplicaSet() | ReplicationController():
            return 1 if owner.spec.replicas is None else owner.spec.replicas
        case StatefulSet(spec=spec):
            own = _owned(owner, pods)
            # Each waits for the one before it, unless they may come together.
            is_stuck = spec.pod_management_policy != "Parallel" and not all(
                pod.spec.node_name for pod in own
            )
            return len(own) if is_stuck else 1 if spec.replicas is None else spec.replicas
        case Job(spec=spec) if not spec.suspend:
            parallelism = 1 if spec.parallelism is None else spec.parallelism
            return parallelism if spec.completions is None else min(parallelism, spec.completions)
        case DaemonSet(status=status, metadata=metadata):
            # Until its controller has looked at the nodes, there is at least something to wait for.
            is_new = status.observed_generation < max(1, metadata.generation)
            return pods_of(owner, pods) + 1 if is_new else status.desired_number_scheduled
    return 0


def pods_of(owner: Owner, pods: Collection[Pod]) -> int:
    """How many pods a controller has made for an object, directly or not."""
    match owner:
        case Deployment() | ReplicaSet():
            selector = owner.spec.selector
            labels = {} if selector is None else selector.match_labels or {}
            # Pods come before their controller has counted them.
            return max(owner.status.replicas, _labelled(owner, labels, pods))
        case ReplicationController():
            labels = owner.spec.selector or {}
            return max(owner.status.replicas, _labelled(owner, labels, pods))
        case Job(status=status):
            return status.active + status.succeeded + status.failed
    return len(_owned(owner, pods))


def _labelled(owner: Owner, labels: Mapping[str, str], pods: Collection[Pod]) -> int:
    """How many pods of its namespace have the labels that an owner selects by."""
    wanted, namespace = labels.items(), owner.metadata.namespace
    return sum(
        wanted <= pod.metadata.labels.items()
        for pod in pods
        if wanted and pod.metadata.namespace == namespace
    )


def _owned(owner: Owner, pods: Collection[Pod]) -> list[Pod]:
    uid = owner.metadata.uid
    return [pod for pod in pods if any(each.uid == uid for each in pod.metadata.owner_references)]
