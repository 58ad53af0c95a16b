"""The plugins that a scheduler can be configured with: in-tree and out-of-tree, as one registry."""

from __future__ import annotations

from kubesched.errors import ConfigError
from kubesched.scheduler.config.plugin_lists import Implemented
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry, Registry

__all__ = ["complete_registry", "extension_points_of_all"]


def complete_registry(
    out_of_tree: Registry | None = None, *, in_tree: Registry | None = None
) -> PluginRegistry:
    """Merge out-of-tree plugins with the in-tree ones.

    `in_tree` replaces the in-tree plugins of this package.

    Raises:
        ConfigError: a name is taken, or a factory cannot build a plugin.
    """
    if in_tree is None:
        # Imported here: commands that only validate must not load every plugin.
        from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS

        in_tree = IN_TREE_PLUGINS
    registry = PluginRegistry(in_tree)
    registry.merge(out_of_tree or {})
    return registry


def extension_points_of_all(out_of_tree: Registry) -> Implemented:
    """Return the extension points of every plugin, as configuration files name them.

    Does not load the in-tree plugins.

    Raises:
        ConfigError: an out-of-tree plugin has the name of an in-tree one.
    """
    plugins = PluginRegistry(out_of_tree)
    for name in plugins:
        if name in IN_TREE_EXTENSION_POINTS:
            raise ConfigError(f"a plugin named {name} already exists")
    return {**IN_TREE_EXTENSION_POINTS, **plugins.implemented()}
