"""Claims that belong to a group of pods instead of to each pod.

docs/reference/08 §10.3.
"""

from __future__ import annotations

from kubesched.api import Pod, PodGroup, PodResourceClaim
from kubesched.framework import Handle, Lister
from kubesched.framework.pod_groups import PodGroups, UnknownPodGroupError, group_name_of

__all__ = ["NO_GROUP_CLAIMS", "GroupClaims"]


class GroupClaims:
    """Finds the claims of a pod that belong to its group."""

    def __init__(self, groups: Lister[PodGroup] | None, members: PodGroups | None) -> None:
        self._groups = groups
        self._members = members

    @classmethod
    def of(cls, handle: Handle) -> GroupClaims:
        """Build the finder from the listers of a scheduler. This starts a watch of PodGroups."""
        return cls(handle.lister(PodGroup), handle.pod_groups)

    def group_of(self, pod: Pod, entry: PodResourceClaim) -> PodGroup | None:
        """Return the group that an entry of the pod's claims belongs to, or None."""
        name = group_name_of(pod) if self._groups is not None else ""
        if not name or self._groups is None:
            return None
        group = self._groups.get(name, pod.metadata.namespace)
        return group if group is not None and entry in group.spec.resource_claims else None

    def has_placed_pods(self, group: PodGroup) -> bool:
        """Whether a pod of the group is bound or assumed."""
        if self._members is None:
            return False
        metadata = group.metadata
        try:
            members = self._members.members(metadata.namespace, metadata.name)
        except UnknownPodGroupError:
            return False
        return members.scheduled_count > 0


NO_GROUP_CLAIMS = GroupClaims(None, None)
