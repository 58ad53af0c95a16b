"""How many members of a group must be placed for its verdict to be feasible."""

from __future__ import annotations

from kubesched.api import Pod, PodGroup
from kubesched.framework import ExtensionPoint, Lister
from kubesched.framework.pod_groups import PodGroups, UnknownPodGroupError, group_name_of
from kubesched.scheduler.config.plugin_names import GANG_SCHEDULING
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["members_needed"]


def members_needed(
    framework: Framework, groups: Lister[PodGroup], members: PodGroups, pod: Pod
) -> int | None:
    """Return how many more members need a node, at least 1; None if Permit fails for all.

    This is Permit of GangScheduling (docs/reference/09 §9.1) as a number.
    """
    permit = framework.plugins.at(ExtensionPoint.PERMIT)
    if all(plugin.name != GANG_SCHEDULING for plugin in permit):
        return 1
    name, namespace = group_name_of(pod), pod.metadata.namespace
    group = groups.get(name, namespace)
    if group is None:
        return None
    gang = group.spec.scheduling_policy.gang
    if gang is None:
        return 1
    try:
        scheduled = members.members(namespace, name).scheduled_count
    except UnknownPodGroupError:
        return None
    return max(1, gang.min_count - scheduled)
