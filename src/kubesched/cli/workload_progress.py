"""How far the placing of a workload is: which pods are expected, which are decided, which open.

A pod is decided when nothing more will happen to it by itself right now: it has a node, or was
tried in vain and nobody makes room for it, or a plugin keeps it out of the queue. Pods that were
evicted or deleted meanwhile are not waited for; pods that a controller is yet to make are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from kubesched.api import Pod
from kubesched.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from kubesched.api.batch import Job
from kubesched.api.pod_facts import pod_key
from kubesched.backend.queue.view import Place, PodPlace
from kubesched.cli.cluster_summary import tried_in_vain

__all__ = ["OWNERS", "Owner", "WorkloadProgress", "pods_of", "wanted_pods"]

# Kinds whose controllers make pods.
Owner = Deployment | ReplicaSet | StatefulSet | DaemonSet | Job
OWNERS: tuple[type[Owner], ...] = (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job)
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

    def total(self, pods: Collection[Pod], owners: Iterable[Owner]) -> int:
        """How many pods there are or will be, as far as anybody knows."""
        missing = len(self._expected - self._seen)
        missing += sum(max(0, wanted_pods(each, pods) - pods_of(each, pods)) for each in owners)
        return len(pods) + missing

    def open(self, pods: Iterable[Pod], owners: Iterable[Owner], now_ns: int) -> dict[str, str]:
        """What is not decided yet, by name, and why."""
        pods = list(pods)
        found = dict.fromkeys(sorted(self._expected - self._seen), "not created yet")
        for owner in owners:
            if (made := pods_of(owner, pods)) < (wanted := wanted_pods(owner, pods)):
                name = f"{owner.kind} {owner.metadata.namespace}/{owner.metadata.name}"
                found[name] = f"{made} of {wanted} pods made"
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


def wanted_pods(owner: Owner, pods: Collection[Pod]) -> int:
    """How many pods a controller will have made for an object; those it has count if unknown."""
    match owner:
        case Deployment(spec=spec) | ReplicaSet(spec=spec):
            return 1 if spec.replicas is None else spec.replicas
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
        case Deployment(status=status) | ReplicaSet(status=status):
            return status.replicas
        case Job(status=status):
            return status.active + status.succeeded + status.failed
    return len(_owned(owner, pods))


def _owned(owner: Owner, pods: Collection[Pod]) -> list[Pod]:
    uid = owner.metadata.uid
    return [pod for pod in pods if any(each.uid == uid for each in pod.metadata.owner_references)]
