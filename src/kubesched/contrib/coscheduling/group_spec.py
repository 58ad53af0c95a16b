"""The spec of PodGroups of scheduling.x-k8s.io/v1alpha1."""

from __future__ import annotations

import itertools
from typing import Any, Final

import msgspec

from kubesched.api import Pod, Resources, parse_time
from kubesched.api.custom_kinds import CustomObject, custom_resource

__all__ = [
    "GROUP_LABEL",
    "MOST_GROUP_RESOURCES",
    "POD_GROUPS",
    "POD_GROUP_KIND",
    "GroupSpec",
    "group_key_of",
    "pod_group_type",
    "read_spec",
]

POD_GROUPS: Final = "podgroups.v1alpha1.scheduling.x-k8s.io"
GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"

POD_GROUP_KIND: Final = custom_resource(POD_GROUPS, "PodGroup")

# As many as a pod may request. Each is added up over all nodes; the others count as absent.
MOST_GROUP_RESOURCES: Final = 128
_SECOND_NS: Final = 10**9


class GroupSpec(msgspec.Struct, frozen=True):
    """The spec of a PodGroup."""

    min_member: int = 1
    min_resources: Resources | None = None
    timeout_ns: int | None = None  # None: the default of the plugin's arguments applies
    created_ns: int = 0


def pod_group_type() -> type[CustomObject]:
    return POD_GROUP_KIND.type


def group_key_of(pod: Pod) -> str:
    """Return the PodGroup of a pod as `namespace/name`; an empty text if it has none."""
    name = pod.metadata.labels.get(GROUP_LABEL)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def read_spec(group: CustomObject) -> GroupSpec:
    """Parse a spec. Values that the schema of the resource does not allow count as absent."""
    spec = group.spec
    seconds = _count(spec.get("scheduleTimeoutSeconds"))
    created = group.metadata.creation_timestamp
    return GroupSpec(
        min_member=_count(spec.get("minMember")) or 1,
        min_resources=_resources(spec.get("minResources")),
        timeout_ns=None if seconds is None else seconds * _SECOND_NS,
        created_ns=parse_time(created) if created else 0,
    )


def _count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if is_count else None


def _resources(amounts: Any) -> Resources | None:
    if not isinstance(amounts, dict) or not amounts:
        return None
    if len(amounts) > MOST_GROUP_RESOURCES:
        amounts = dict(itertools.islice(amounts.items(), MOST_GROUP_RESOURCES))
    try:
        return Resources.from_resource_list(amounts)
    except ValueError:
        return None
