"""Pod groups for the page: how many of their pods have a node, and their condition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubesched.api import Pod, PodGroup
from kubesched.framework.pod_groups import group_name_of

__all__ = ["group_key_of", "group_members", "group_rows"]

_CONDITION = "PodGroupScheduled"


def group_key_of(pod: Pod) -> str:
    """Return the namespace/name of a pod's group; empty if it has none."""
    name = group_name_of(pod)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def group_members(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return the pods of each group."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if key := group_key_of(pod):
            found.setdefault(key, []).append(pod)
    return found


def group_rows(groups: Iterable[PodGroup], pods: Iterable[Pod]) -> list[dict[str, Any]]:
    """Return the row of every group that exists or that a pod names, by name."""
    existing = {f"{each.metadata.namespace}/{each.metadata.name}": each for each in groups}
    members = group_members(pods)
    return [
        _row(key, existing.get(key), members.get(key, [])) for key in sorted({*existing, *members})
    ]


def _row(key: str, group: PodGroup | None, members: list[Pod]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "key": key,
        "policy": "missing",
        "needed": 1,
        "pods": len(members),
        "placed": sum(bool(pod.spec.node_name) for pod in members),
        "status": "Pending",
    }
    if group is None:
        return row
    gang = group.spec.scheduling_policy.gang
    row["policy"] = "basic" if gang is None else "gang"
    row["needed"] = 1 if gang is None else gang.min_count
    constraints = group.spec.scheduling_constraints
    if constraints is not None and constraints.topology:
        row["topology"] = constraints.topology[0].key
    if group.spec.priority:
        row["priority"] = group.spec.priority
    for condition in group.status.conditions:
        if condition.type == _CONDITION:
            row["status"] = "Scheduled" if condition.status == "True" else condition.reason
            if condition.message:
                row["message"] = condition.message
    return row
