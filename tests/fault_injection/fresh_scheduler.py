"""A fresh scheduler on a copy of the store, which must have no work.

If it binds or evicts a pod, or writes a condition that differs from the stored one, then the leader
has missed an event.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from msgspec import convert

from kubesched.api import Pod
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.cluster.apiserver.store.resource_collection import RestoredObject
from kubesched.cluster.apiserver.store.stored_records import StoredChange
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.components import running
from kubesched.framework import PodInfo
from kubesched.scheduler.scheduler import Scheduler
from tests.fault_injection.table_sizes import count_table_entries

__all__ = ["FreshScheduler", "pod_conditions"]

Json = dict[str, Any]
# Resources whose changes do not count as work.
_QUIET = ("events", "events.events.k8s.io", "leases.coordination.k8s.io")
_SECONDS = 3


class FreshScheduler:
    """A scheduler that `run` starts on a copy of the store, for some seconds.

    Afterwards `writes` has what it wrote, and `store` the copy.
    """

    def __init__(self, store: Store, clock: Clock, options: dict[str, Any]) -> None:
        self.writes: list[str] = []
        self.evicts = False
        self.sizes: Counter[str] = Counter()  # sizes of its tables at the end
        self._clock, self._options = clock, options
        self.store = _copy(store, clock.now_ns(), self._changed)

    async def run(self) -> None:
        begins = asyncio.Event()
        api = LocalApi(self.store, self._clock)
        scheduler = Scheduler(api, self._clock, begins=begins, **self._options)
        async with running(scheduler):
            await scheduler.synced.wait()
            # As in the reference, a pod that is gated when the informer first lists it (its claims
            # are not listed yet) counts as nominated only after an attempt, and other pods may be
            # tried before. The leader has those nominations, so the fresh scheduler gets them.
            for pod in self.store.all("pods"):
                if _is_nominated(pod):
                    scheduler.queue.nominator.add_nominated_pod(PodInfo(convert(pod, Pod)), None)
            begins.set()
            await asyncio.sleep(_SECONDS)
            self.sizes = count_table_entries(scheduler)

    def _changed(self, change: StoredChange) -> None:
        resource, key = change.record.resource.group_resource, change.record.key
        if resource in _QUIET:
            return
        new, old = change.record.data, change.previous and change.previous.data
        if resource == "pods" and change.type == "MODIFIED" and old is not None:
            if new["spec"].get("nodeName") != old["spec"].get("nodeName"):
                self.writes.append(f"pod {key} fits {new['spec']['nodeName']} and waits")
            elif new["metadata"].get("deletionTimestamp"):
                self.evicts = True
                self.writes.append(f"pod {key} could be evicted for one that waits")
            elif (now := new["status"].get("nominatedNodeName")) and now != old["status"].get(
                "nominatedNodeName"
            ):
                self.writes.append(f"pod {key} could have {now} and waits")
            return
        self.writes.append(f"{resource} {key} would be {change.type.lower()}")


def _is_nominated(pod: Json) -> bool:
    return bool(pod["status"].get("nominatedNodeName")) and not pod["spec"].get("nodeName")


def pod_conditions(store: Store) -> dict[str, tuple[str, str, str]]:
    """Return the PodScheduled condition of each waiting pod: status, reason and message."""
    found = {}
    for pod in store.all("pods"):
        if pod["spec"].get("nodeName") or pod["spec"]["schedulerName"] == "nobody":
            continue
        for each in pod.get("status", {}).get("conditions", ()):
            if each["type"] == "PodScheduled":
                said = each["status"], each.get("reason", ""), each.get("message", "")
                found[pod["metadata"]["name"]] = said
    return found


def _copy(store: Store, now_ns: int, on_change: Any) -> Store:
    copy = Store(random.Random(0), now_ns=now_ns, empty=True, on_change=on_change)
    objects = {
        (resource.group_resource, record.key): record
        for resource in store.catalog.all()
        for record in store.collection(resource).objects.values()
    }
    copy.restore(
        [
            RestoredObject(
                name,
                key,
                each.revision,
                _without_condition(each.data) if name == "pods" else each.data,
            )
            for (name, key), each in objects.items()
        ],
        store.revision,
    )
    return copy


def _without_condition(pod: Json) -> Json:
    """Return a waiting pod without its PodScheduled condition, for the scheduler to write."""
    if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates"):
        return pod
    kept = [each for each in pod["status"].get("conditions", ()) if each["type"] != "PodScheduled"]
    return {**pod, "status": {**pod["status"], "conditions": kept}}
