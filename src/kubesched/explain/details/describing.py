"""Finds who can say more about a rejection than its reason does."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.config import plugin_names
from kubesched.explain.details.claims import describe_claims
from kubesched.explain.details.context import DetailContext
from kubesched.explain.details.neighbours import describe_affinity, describe_spread
from kubesched.explain.details.node_choice import (
    describe_ports,
    describe_selection,
    describe_taints,
    describe_unschedulable,
)
from kubesched.explain.details.room import describe_room
from kubesched.explain.results import Rejection
from kubesched.framework import Code, Status

__all__ = ["DetailContext", "describe"]

# For one reason of a plugin: asked, available, detail.
Describer = Callable[[DetailContext, str], tuple[str, str, str]]

_DESCRIBERS: dict[str, Describer] = {
    plugin_names.NODE_RESOURCES_FIT: describe_room,
    plugin_names.TAINT_TOLERATION: describe_taints,
    plugin_names.NODE_UNSCHEDULABLE: describe_unschedulable,
    plugin_names.NODE_AFFINITY: describe_selection,
    plugin_names.NODE_PORTS: describe_ports,
    plugin_names.POD_TOPOLOGY_SPREAD: describe_spread,
    plugin_names.INTER_POD_AFFINITY: describe_affinity,
    plugin_names.VOLUME_BINDING: describe_claims,
    plugin_names.VOLUME_ZONE: describe_claims,
    plugin_names.VOLUME_RESTRICTIONS: describe_claims,
    plugin_names.NODE_VOLUME_LIMITS: describe_claims,
    plugin_names.DYNAMIC_RESOURCES: describe_claims,
}


def describe(context: DetailContext, plugin: str, status: Status) -> tuple[Rejection, ...]:
    """One rejection for each reason of the status."""
    describer = _DESCRIBERS.get(plugin)
    found = []
    for reason in status.all_reasons or (status.code.label,):
        asked = available = detail = ""
        if describer is not None and len(context.positions):
            asked, available, detail = describer(context, reason)
        found.append(
            Rejection(
                plugin=plugin,
                reason=reason,
                asked=asked,
                available=available,
                detail=detail,
                preemptable=status.code is Code.UNSCHEDULABLE,
            )
        )
    return tuple(found)
