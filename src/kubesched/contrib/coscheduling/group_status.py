"""Writes the status of PodGroups: the phase, and the numbers of running and completed pods."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from kubesched.api import ApiError, Pod, format_time
from kubesched.api.custom_kinds import CustomObject
from kubesched.contrib.coscheduling.gangs import Gang, Gangs
from kubesched.contrib.coscheduling.group_spec import GROUP_LABEL, pod_group_type
from kubesched.contrib.status_loop import StatusLoop
from kubesched.framework import Handle

__all__ = ["GroupStatusLoop", "next_status"]

_ENDED: Final = ("Finished", "Failed")
_COUNTS: Final = {"running": "Running", "succeeded": "Succeeded", "failed": "Failed"}


def next_status(
    status: dict[str, Any], least: int, phases: Counter[str], owner: str, now_ns: int
) -> dict[str, Any]:
    """Return the next status of a group from the phases of its pods; `least` is its minMember.

    Finished and Failed are final.
    """
    if status.get("phase") in _ENDED:
        return status
    counts = {field: phases[phase] for field, phase in _COUNTS.items()}
    phase = _phase(least, phases)
    new: dict[str, Any] = {**status, **counts, "phase": phase}
    if phase != "Pending" and not new.get("scheduleStartTime"):
        new["scheduleStartTime"] = format_time(now_ns)
    if owner and not new.get("occupiedBy"):
        new["occupiedBy"] = owner
    return new


def _phase(least: int, phases: Counter[str]) -> str:
    running, succeeded, failed = (phases[each] for each in ("Running", "Succeeded", "Failed"))
    if succeeded >= least:
        return "Finished"
    if failed and failed + running + succeeded >= least:
        return "Failed"
    if phases.total() < least:
        return "Pending"
    return "Running" if running + succeeded >= least else "Scheduling"


class GroupStatusLoop:
    """Updates the status of changed groups."""

    def __init__(self, gangs: Gangs, handle: Handle) -> None:
        self._gangs = gangs
        self._handle = handle
        self._loop = StatusLoop(handle, "PodGroup", self._update)
        self._ended: dict[str, Counter[str]] = {}  # by group: phases of completed members

    async def run_once(self) -> None:
        """Run until cancelled; further calls return at once."""
        self._gangs.on_change.append(self._mark)
        try:
            for gang in self._gangs:
                self._mark(gang)
            await self._loop.run_once()
        finally:
            self._gangs.on_change.remove(self._mark)

    def _mark(self, gang: Gang) -> None:
        self._loop.mark(gang.key)

    async def _update(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        group = self._handle.lister(pod_group_type()).get(name, namespace)
        gang = self._gangs.find(key)
        if group is None or gang is None or gang.spec is None:
            self._ended.pop(key, None)
            return
        if group.status.get("phase") in _ENDED:
            return
        phases = await self._phases(gang)
        now_ns = self._handle.clock.now_ns()
        status = next_status(group.status, gang.spec.min_member, phases, _owner(gang), now_ns)
        if not _is_same(status, group):
            await self._handle.api.patch(
                pod_group_type(),
                name,
                namespace,
                {"status": status},
                patch_type="merge",
                subresource="status",
            )

    async def _phases(self, gang: Gang) -> Counter[str]:
        """Count the phases of all members. Informers do not have completed pods."""
        if gang.has_ended:
            gang.has_ended = False
            namespace, _, name = gang.key.partition("/")
            try:
                found = await self._handle.api.list(
                    Pod, namespace, label_selector=f"{GROUP_LABEL}={name}"
                )
            except ApiError:
                gang.has_ended = True
                raise
            phases = (pod.status.phase for pod in found.items)
            self._ended[gang.key] = Counter(each for each in phases if each in _COUNTS.values())
            del self._ended[gang.key]["Running"]
        present = Counter(pod.status.phase or "Pending" for pod in gang.members.values())
        return present + self._ended.get(gang.key, Counter())


def _owner(gang: Gang) -> str:
    """Return the owners of the members, in the form of the status."""
    member = next(iter(gang.members.values()), None)
    if member is None:
        return ""
    namespace = member.metadata.namespace
    names = sorted(f"{namespace}/{each.name}" for each in member.metadata.owner_references)
    return ",".join(names)


def _is_same(status: dict[str, Any], group: CustomObject) -> bool:
    # A count of zero may be absent.
    before = dict.fromkeys(_COUNTS, 0) | group.status
    return status == before
