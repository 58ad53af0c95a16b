"""Finds who can say more about a rejection than its reason does."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.explain.details.claims import describe_claims
from kubesched.explain.details.context import Detail, DetailContext
from kubesched.explain.details.devices import describe_devices
from kubesched.explain.details.neighbours import describe_affinity, describe_spread
from kubesched.explain.details.ports import describe_ports
from kubesched.explain.details.room import describe_room
from kubesched.explain.details.selection import describe_selection
from kubesched.explain.details.taints import describe_taints, describe_unschedulable
from kubesched.explain.results import Rejection
from kubesched.framework import Code, Status
from kubesched.scheduler.config import plugin_names

__all__ = ["DetailContext", "describe", "describe_reason"]

_DESCRIBERS: dict[str, Callable[[DetailContext, str], Detail]] = {
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
    plugin_names.DYNAMIC_RESOURCES: describe_devices,
}


def describe_reason(context: DetailContext, plugin: str, reason: str) -> Detail:
    """What is known about one reason of a plugin; at least the reason itself."""
    describer = _DESCRIBERS.get(plugin)
    found = Detail()
    if describer is not None and len(context.positions):
        found = describer(context, reason)
    return found._replace(says=found.says or reason, brief=found.brief or reason)


def describe(context: DetailContext, plugin: str, status: Status) -> tuple[Rejection, ...]:
    """One rejection for each reason of the status."""
    rejections = []
    for reason in status.all_reasons or (status.code.label,):
        found = describe_reason(context, plugin, reason)
        rejections.append(
            Rejection(
                plugin=plugin,
                reason=reason,
                asked=found.asked,
                available=found.available,
                detail=found.detail,
                preemptable=status.code is Code.UNSCHEDULABLE,
            )
        )
    return tuple(rejections)
