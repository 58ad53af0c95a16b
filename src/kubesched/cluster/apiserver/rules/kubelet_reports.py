"""Merging of a kubelet's report into the status of a pod.

Most writes in a cluster that only runs pods are such reports, and all have the same form. This
module merges them faster than `patches.py`, with the same result as a strategic merge patch.
"""

from __future__ import annotations

from typing import Any

from kubesched.cluster.apiserver.rules.patching.merge_rules import merge_rules
from kubesched.cluster.apiserver.rules.patching.patches import strategic_merge_patch

__all__ = ["merge_report"]

Json = dict[str, Any]

_STATUS = "io.k8s.api.core.v1.PodStatus"
# Lists that merge item by item. A report has one item of each.
_ADDRESSES = ("hostIPs", "podIPs")


def merge_report(status: Json, report: Json) -> Json:
    """Merge a kubelet's report into the status of a pod. The result shares parts of the report.

    `report` is a patch of the status without directives. It has `conditions`. A null in a
    condition removes that field, and the report has no other nulls.
    """
    if "hostIPs" in report and not status.keys().isdisjoint(_ADDRESSES):
        return strategic_merge_patch(status, report, merge_rules(_STATUS))
    conditions = status.get("conditions", [])
    return {**status, **report, "conditions": _merged(conditions, report["conditions"])}


def _merged(current: list[Json], reported: list[Json]) -> list[Json]:
    """Merge conditions by type: reported ones in order, others at their previous positions."""
    after = {each["type"]: each for each in current}
    kinds, named = list(after), []
    for each in reported:
        kind = each["type"]
        old = after.get(kind)
        if old is not None:
            each = {**old, **each}
        if None in each.values():
            each = {key: value for key, value in each.items() if value is not None}
        after[kind] = each
        named.append(kind)
    is_in_order = list(after) == named or (
        len(after) == len(kinds) and [kind for kind in kinds if kind in named] == named
    )
    if is_in_order and len(kinds) == len(current):
        return list(after.values())
    patched = strategic_merge_patch(
        {"conditions": current}, {"conditions": reported}, merge_rules(_STATUS)
    )
    merged: list[Json] = patched["conditions"]
    return merged
