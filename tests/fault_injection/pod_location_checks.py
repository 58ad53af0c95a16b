"""Checks of where a leader has each pod, made while faults are injected.

The reference is the copy of the process's informer, not the server: handlers apply changes of the
copy at once, so the cache, the queue and the waiting pods must agree with it at any moment. A task
may need a moment to correct a difference, so only differences that last are reported.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import NamedTuple

from kubesched.api import Pod
from kubesched.foundation.util.clock import SECOND
from kubesched.scheduler.scheduler import Scheduler
from tests.fault_injection.replica import ReplicaProcess

__all__ = ["PodLocationChecker"]


class _Seen(NamedTuple):
    since_ns: int
    times: int  # number of checks in a row


class PodLocationChecker:
    """Reports a difference when it was there at the two checks before, and for a second."""

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[ReplicaProcess, dict[str, _Seen]] = (
            weakref.WeakKeyDictionary()
        )

    def look(self, process: ReplicaProcess, now_ns: int) -> list[str]:
        # A paused process corrects nothing, and one that ends releases everything.
        if not process.machine.awake.is_set() or process.scheduler.queue.is_closed:
            self._seen.pop(process, None)
            return []
        before = self._seen.get(process, {})
        now = self._seen[process] = {
            text: _Seen(before[text].since_ns, before[text].times + 1)
            if text in before
            else _Seen(now_ns, 1)
            for text in _misplaced(process.scheduler)
        }
        return [
            text
            for text, seen in now.items()
            if seen.times >= 3 and now_ns - seen.since_ns >= SECOND
        ]


def _misplaced(scheduler: Scheduler) -> Iterator[str]:
    copies = {pod.metadata.uid: pod for pod in scheduler.informers.lister(Pod).list()}
    cached = {
        info.uid: (name, info.pod)
        for name, node in scheduler.cache.nodes.items()
        for info in node.pods
    }
    queued = {pod.metadata.uid: pod for pod in scheduler.queue.pending_pods()[0]}
    in_flight = {pod.metadata.uid for pod in scheduler.queue.in_flight_pods}
    for uid, (node, pod) in cached.items():
        copy = copies.get(uid)
        if copy is None:
            yield f"{pod.metadata.name} is deleted and counted on {node}"
        elif copy.spec.node_name != node and not scheduler.cache.is_assumed(pod):
            yield f"{pod.metadata.name} is on {copy.spec.node_name or 'no node'} and not on {node}"
    for uid, pod in queued.items():
        if uid not in copies:
            yield f"{pod.metadata.name} is deleted and in the queue"
    for entry in scheduler.services.waiting_pods:
        if entry.pod.metadata.uid not in copies and not entry._outcome.done():
            yield f"{entry.pod.metadata.name} is deleted and waits on Permit"
    for uid, node in scheduler.queue.nominator._node_of.items():
        if uid not in copies:
            yield f"a deleted pod is nominated to {node or 'no node'}"
    for uid, pod in copies.items():
        if pod.spec.node_name:
            if uid not in cached and pod.status.phase not in ("Succeeded", "Failed"):
                yield f"{pod.metadata.name} is on {pod.spec.node_name} and not counted"
            if uid in queued:
                yield f"{pod.metadata.name} is on {pod.spec.node_name} and in the queue"
        elif (
            pod.spec.scheduler_name in scheduler.profiles
            and pod.metadata.deletion_timestamp is None
            and uid not in queued
            and uid not in in_flight
            and uid not in cached
        ):
            yield f"{pod.metadata.name} is neither in the queue nor tried"
