"""Kinds that may not be listed: plugins that need them are left out, as they would be wrong.

A volume that the user may not read is not a missing volume.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kubesched.framework import Plugin
from kubesched.scheduler.config import plugin_names
from kubesched.scheduler.runtime.plugin_registry import PluginFactory, Registry

__all__ = ["plugins_needing", "without_rules"]

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


def plugins_needing(unknown: Collection[str]) -> set[str]:
    """Return the plugins that need these kinds."""
    return {plugin for kind in unknown for plugin in _NEEDED_BY.get(kind, ())}


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
