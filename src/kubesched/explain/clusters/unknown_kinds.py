"""Kinds that may not be read: rules that need them are left out, instead of answering wrongly.

A volume that somebody may not see is not a volume that does not exist.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kubesched.framework import Plugin
from kubesched.scheduler.config import plugin_names
from kubesched.scheduler.runtime.plugin_registry import PluginFactory, Registry

__all__ = ["left_out", "without_rules"]

_VOLUMES: Final = (
    plugin_names.VOLUME_BINDING,
    plugin_names.VOLUME_ZONE,
    plugin_names.NODE_VOLUME_LIMITS,
)
_DEVICES: Final = (plugin_names.DYNAMIC_RESOURCES,)
_NEEDED_BY: Final = {
    "PersistentVolumeClaim": (*_VOLUMES, plugin_names.VOLUME_RESTRICTIONS),
    "PersistentVolume": _VOLUMES,
    "StorageClass": (plugin_names.VOLUME_BINDING, plugin_names.VOLUME_ZONE),
    "ResourceClaim": _DEVICES,
    "ResourceSlice": _DEVICES,
    "DeviceClass": _DEVICES,
}


def left_out(unknown: Collection[str]) -> set[str]:
    """The plugins that cannot answer without these kinds."""
    return {plugin for kind in unknown for plugin in _NEEDED_BY.get(kind, ())}


def without_rules(registry: Registry, unknown: Collection[str]) -> Registry:
    """The plugins, those that cannot answer being replaced by ones that say nothing."""
    names = left_out(unknown)
    if not names:
        return registry
    factories: dict[str, PluginFactory] = dict(registry)
    for name in names & factories.keys():
        factories[name] = _silent(name)
    return factories


def _silent(plugin_name: str) -> type[Plugin]:
    class Silent(Plugin):
        """A plugin that takes part in nothing."""

        name = plugin_name

    return Silent
