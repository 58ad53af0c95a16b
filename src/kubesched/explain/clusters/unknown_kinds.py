"""Kinds that could not be read: plugins that need them are disabled, and results may be unknown.

A kind could not be read if the user may not list it, or if a dump does not contain it. A volume of
such a kind is not a missing volume.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from kubesched.api import Pod
from kubesched.framework import Plugin
from kubesched.scheduler.config import plugin_names
from kubesched.scheduler.plugins.helpers.volume_claims import claim_names
from kubesched.scheduler.runtime.plugin_registry import PluginFactory, Registry

__all__ = ["kinds_needed_by", "plugins_needing", "without_rules"]

_VOLUMES: Final = (
    plugin_names.VOLUME_BINDING,
    plugin_names.VOLUME_ZONE,
    plugin_names.NODE_VOLUME_LIMITS,
)
_DEVICES: Final = (plugin_names.DYNAMIC_RESOURCES,)
# Plugins that give wrong results if a kind could not be read.
_NEEDED_BY: Final = {
    "PersistentVolumeClaim": (*_VOLUMES, plugin_names.VOLUME_RESTRICTIONS),
    "PersistentVolume": _VOLUMES,
    "StorageClass": (plugin_names.VOLUME_BINDING, plugin_names.VOLUME_ZONE),
    "CSIDriver": (plugin_names.VOLUME_BINDING,),
    "CSIStorageCapacity": (plugin_names.VOLUME_BINDING,),
    "CSINode": (plugin_names.NODE_VOLUME_LIMITS,),
    "VolumeAttachment": (plugin_names.NODE_VOLUME_LIMITS,),
    "ResourceClaim": _DEVICES,
    "ResourceClaimTemplate": _DEVICES,
    "ResourceSlice": _DEVICES,
    "DeviceClass": _DEVICES,
}
_OF_VOLUMES: Final = frozenset(
    kind for kind, plugins in _NEEDED_BY.items() if plugins is not _DEVICES
)
_OF_DEVICES: Final = frozenset(_NEEDED_BY) - _OF_VOLUMES
_OF_GROUPS: Final = frozenset(["PodGroup", "Workload"])


def plugins_needing(unknown: Collection[str]) -> set[str]:
    """Return the plugins that need these kinds."""
    return {plugin for kind in unknown for plugin in _NEEDED_BY.get(kind, ())}


def kinds_needed_by(pod: Pod, kinds: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds, of those given, that decide whether the pod fits."""
    needed: set[str] = {"Node"}
    if any(claim_names(pod)):
        needed |= _OF_VOLUMES
    if pod.spec.resource_claims:
        needed |= _OF_DEVICES
    if pod.spec.scheduling_group is not None:
        needed |= _OF_GROUPS
    if _selects_namespaces(pod):
        needed.add("Namespace")
    return tuple(kind for kind in kinds if kind in needed)


def _selects_namespaces(pod: Pod) -> bool:
    """Whether a required affinity term of the pod selects namespaces by labels."""
    affinity = pod.spec.affinity
    sides = () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity)
    return any(
        term.namespace_selector is not None
        for side in sides
        if side is not None
        for term in side.required_during_scheduling_ignored_during_execution
    )


def without_rules(registry: Registry, unknown: Collection[str]) -> Registry:
    """Return the plugins, with placeholders for those that need these kinds."""
    names = plugins_needing(unknown)
    if not names:
        return registry
    factories: dict[str, PluginFactory] = dict(registry)
    for name in names & factories.keys():
        factories[name] = _silent(name)
    return factories


def _silent(plugin_name: str) -> type[Plugin]:
    class Silent(Plugin):
        """A plugin without extension points."""

        name = plugin_name

    return Silent
