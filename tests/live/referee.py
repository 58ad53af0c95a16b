"""The referee: reads watch events and audit logs of an API server, and reports violations.

It reads nothing of a scheduler, so it applies the same checks to kube-scheduler and kubesched.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Referee"]

Json = dict[str, Any]
_WRITES = ("create", "update", "patch", "delete")
_LEASE = ("kube-system", "kube-scheduler")


class Referee:
    """Collects violations from events of pods, claims and volumes, and from the audit log."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.bound: dict[str, str] = {}  # uid of a pod -> its node
        self.evicted = 0
        self.writes = 0  # by replicas, without leases and events
        self.stray_writes = 0  # while another replica held the lease
        self._devices: dict[tuple[str, str, str], str] = {}  # device -> uid of its claim
        self._volumes: dict[str, str] = {}  # name of a volume -> uid of its claim
        self._claims: dict[str, str] = {}  # name of a volume -> name of the claim that has it

    def pod(self, pod: Json) -> None:
        """Check a pod as an event has it."""
        uid, node = pod["metadata"]["uid"], pod.get("spec", {}).get("nodeName", "")
        before = self.bound.get(uid)
        if before is not None and node != before:
            name = pod["metadata"]["name"]
            self.violations.append(f"pod {name} went from {before} to {node or 'nowhere'}")
        if node:
            self.bound[uid] = node

    def device_claim(self, claim: Json, *, is_deleted: bool = False) -> None:
        """Check a ResourceClaim: no device may be allocated to two claims."""
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        for device in [each for each, holder in self._devices.items() if holder == uid]:
            del self._devices[device]
        if is_deleted:
            return
        allocation = claim.get("status", {}).get("allocation") or {}
        for result in allocation.get("devices", {}).get("results", ()):
            device = (result["driver"], result["pool"], result["device"])
            if device in self._devices:
                self.violations.append(f"device {'/'.join(device)} was given to {name} too")
            self._devices[device] = uid

    def volume(self, volume: Json) -> None:
        """Check a PersistentVolume: it may not change from one claim to another."""
        name = volume["metadata"]["name"]
        uid = (volume.get("spec", {}).get("claimRef") or {}).get("uid", "")
        before = self._volumes.get(name, "")
        if before and uid and before != uid:
            self.violations.append(f"volume {name} went from one claim to another")
        self._volumes[name] = uid

    def volume_claim(self, claim: Json, *, is_deleted: bool = False) -> None:
        """Check a PersistentVolumeClaim: no volume may be bound to two claims."""
        name, volume = claim["metadata"]["name"], claim.get("spec", {}).get("volumeName", "")
        if is_deleted:
            if self._claims.get(volume) == name:
                del self._claims[volume]
            return
        if not volume:
            return
        if self._claims.setdefault(volume, name) != name:
            self.violations.append(
                f"volume {volume} was bound to {self._claims[volume]} and {name}"
            )

    def audit(self, events: Iterable[Json], replicas: frozenset[str]) -> None:
        """Check the whole audit log for writes while another replica held the lease.

        Requests about the lease are logged with their bodies, all others without. A replica holds
        the lease from its own write until that of another one; replicas on one machine may have the
        same name in it. Times are those at which the server had executed a request.
        """
        holder = ""
        done = [each for each in events if each.get("stage") == "ResponseComplete"]
        for event in sorted(done, key=lambda each: str(each["stageTimestamp"])):
            if event.get("verb") not in _WRITES or event["responseStatus"].get("code", 0) >= 300:
                continue
            what = event.get("objectRef") or {}
            if what.get("resource") == "leases":
                if (what.get("namespace"), what.get("name")) == _LEASE:
                    spec = (event.get("requestObject") or {}).get("spec") or {}
                    holder = event["user"]["username"] if spec.get("holderIdentity") else ""
                continue
            user = event["user"]["username"]
            if user not in replicas or what.get("resource") == "events":
                continue
            self.writes += 1
            if holder and holder != user:
                self.stray_writes += 1
                self.violations.append(
                    f"{user} wrote to {what.get('resource')} {what.get('name')} at "
                    f"{event['stageTimestamp']}, and {holder} held the lease"
                )
