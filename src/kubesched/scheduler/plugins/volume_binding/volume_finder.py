"""Whether the volumes for a pod's claims can be used on one node.

The rules are in docs/reference/07 §5.3.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kubesched.api import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from kubesched.framework import Status
from kubesched.framework.causes import (
    ClaimUnusable,
    StorageExhausted,
    VolumeUnavailable,
    VolumeUnreachable,
)
from kubesched.scheduler.plugins.helpers.volume_claims import SELECTED_NODE, VolumeClaimError
from kubesched.scheduler.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.scheduler.plugins.volume_binding.claim_provisioning import Outlook, Provisioners
from kubesched.scheduler.plugins.volume_binding.migration import (
    Migration,
    replaced_plugin,
    translate,
)
from kubesched.scheduler.plugins.volume_binding.pod_claims import PodClaims
from kubesched.scheduler.plugins.volume_binding.static_matching import find_match
from kubesched.scheduler.plugins.volume_binding.volume_index import (
    VolumeIndex,
    claimed_size,
    required_nodes,
)

__all__ = ["STATUSES", "PodVolumes", "VolumeFinder", "VolumeFinding", "VolumeProblem"]


class VolumeProblem(enum.IntFlag):
    """Why a node is rejected; several can apply. The order is that of the reasons."""

    NONE = 0
    AFFINITY = 1
    UNBOUND = 2
    SPACE = 4
    MISSING = 8


_REASONS: Final = {
    VolumeProblem.AFFINITY: "node(s) didn't match PersistentVolume's node affinity",
    VolumeProblem.UNBOUND: "node(s) didn't find available persistent volumes to bind",
    VolumeProblem.SPACE: "node(s) did not have enough free storage",
    VolumeProblem.MISSING: (
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    ),
}
_CAUSES: Final = {
    VolumeProblem.AFFINITY: VolumeUnreachable(),
    VolumeProblem.UNBOUND: VolumeUnavailable(),
    VolumeProblem.SPACE: StorageExhausted(),
    VolumeProblem.MISSING: ClaimUnusable(),
}
# STATUSES[sum of problems - 1].
STATUSES: Final = tuple(
    Status.unresolvable(
        *(reason for problem, reason in _REASONS.items() if number & problem),
        causes=tuple(cause for problem, cause in _CAUSES.items() if number & problem),
    )
    for number in range(1, 16)
)


class PodVolumes(NamedTuple):
    """The work for a pod on a node: volumes to bind, and claims to provision."""

    static: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    dynamic: tuple[tuple[PersistentVolumeClaim, CSIStorageCapacity | None], ...] = ()


class VolumeFinding(NamedTuple):
    """The problems of a node or, if it has none, the volumes for the pod."""

    problems: int
    volumes: PodVolumes = PodVolumes()


class VolumeFinder:
    """Finds volumes for a pod's claims on one node."""

    def __init__(
        self,
        index: VolumeIndex,
        volumes: AssumeCache[PersistentVolume],
        provisioners: Provisioners,
        migration: Migration,
    ) -> None:
        self._index = index
        self._volumes = volumes
        self._provisioners = provisioners
        self._migration = migration

    def find(self, claims: PodClaims, node_name: str, labels: Mapping[str, str]) -> VolumeFinding:
        """Return the problems of a node or its volumes.

        Raises:
            VolumeClaimError: the volumes cannot be evaluated.
        """
        problems = self._bound_problem(claims.bound, node_name, labels)
        if not claims.delayed:
            return VolumeFinding(problems)
        to_match, to_provision = [], []
        for claim in claims.delayed:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is None:
                to_match.append(claim)
            elif selected == node_name:
                to_provision.append(claim)
            else:
                return VolumeFinding(problems | VolumeProblem.UNBOUND)
        static = []
        taken: set[str] = set()
        for claim in sorted(to_match, key=claimed_size) if len(to_match) > 1 else to_match:
            volume = find_match(claim, self._index, labels, taken)
            if volume is None:
                to_provision.append(claim)
            else:
                taken.add(volume.metadata.name)
                static.append((volume, claim))
        dynamic = []
        for claim in to_provision:
            outlook, capacity = self._provisioners.of_claim(claim).outlook(labels)
            if outlook is Outlook.IMPOSSIBLE:
                return VolumeFinding(problems | VolumeProblem.UNBOUND)
            if outlook is Outlook.NO_SPACE:
                return VolumeFinding(problems | VolumeProblem.SPACE)
            dynamic.append((claim, capacity))
        return VolumeFinding(problems, PodVolumes(tuple(static), tuple(dynamic)))

    def may_fail(self, claims: Iterable[PersistentVolumeClaim]) -> bool:
        """Whether `find` raises for some nodes, because a volume cannot be translated."""
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            plugin = None if volume is None else replaced_plugin(volume)
            if volume is not None and plugin is not None:
                try:
                    translate(plugin, volume)
                except VolumeClaimError:
                    return True
        return False

    def _bound_problem(
        self, claims: Iterable[PersistentVolumeClaim], node_name: str, labels: Mapping[str, str]
    ) -> int:
        """Return the first problem with a bound volume."""
        for claim in claims:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                return VolumeProblem.MISSING
            matcher = required_nodes(self._migration.translated(volume, node_name))
            if matcher is not None and not matcher.matches(labels, ""):
                return VolumeProblem.AFFINITY
        return VolumeProblem.NONE
