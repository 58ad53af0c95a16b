"""The plugins that exist, by name (docs/reference/01 §5, §13).

The in-tree plugins come as a fixed mapping; plugins from elsewhere are registered here and
merged with it. A registry is a mapping, so it can be used wherever one is expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from kubesched.framework import Plugin, extension_points
from kubesched.util.errors import ConfigError

__all__ = ["PluginRegistry", "check_plugin_type"]

# What can be written in a list of the configuration and in a metric's label without quoting.
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?", re.ASCII)
_MAX_NAME: Final = 253


class PluginRegistry(Mapping[str, type[Plugin]]):
    """Plugins by name; no name is taken twice."""

    def __init__(self, plugins: Mapping[str, type[Plugin]] | None = None) -> None:
        self._plugins: dict[str, type[Plugin]] = {}
        self.merge(plugins or {})

    def __getitem__(self, name: str) -> type[Plugin]:
        return self._plugins[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __len__(self) -> int:
        return len(self._plugins)

    def register(self, name: str, plugin: type[Plugin]) -> None:
        """Add a plugin.

        Raises:
            ConfigError: there is one of that name.
        """
        if name in self._plugins:
            raise ConfigError(f"a plugin named {name} already exists")
        self._plugins[name] = plugin

    def unregister(self, name: str) -> None:
        """Remove a plugin.

        Raises:
            ConfigError: there is none of that name.
        """
        if name not in self._plugins:
            raise ConfigError(f"no plugin named {name} exists")
        del self._plugins[name]

    def merge(self, plugins: Mapping[str, type[Plugin]]) -> None:
        """Add all of these plugins, up to the first whose name is taken."""
        for name, plugin in plugins.items():
            self.register(name, plugin)

    def known_args(self) -> dict[str, type]:
        """The types that arguments of these plugins are decoded into."""
        return {
            name: plugin.args_type
            for name, plugin in self._plugins.items()
            if plugin.args_type is not None
        }

    def implemented(self) -> dict[str, frozenset[str]]:
        """The extension points of each plugin, as configuration files name them."""
        return {
            name: frozenset(map(str, extension_points(plugin)))
            for name, plugin in self._plugins.items()
        }


def check_plugin_type(plugin: object) -> type[Plugin]:
    """Return the plugin if it could be registered.

    Raises:
        ConfigError: what keeps it from being a plugin.
    """
    if not isinstance(plugin, type) or not issubclass(plugin, Plugin):
        raise ConfigError(f"{plugin!r} is not a subclass of kubesched.framework.Plugin")
    name: object = plugin.name
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ConfigError(
            f"{plugin.__name__} has no legal name: {name!r} (set the class attribute `name` to "
            "letters, digits and -_./ between them)"
        )
    args_type: object = plugin.args_type
    if args_type is not None and not (
        isinstance(args_type, type) and issubclass(args_type, msgspec.Struct)
    ):
        raise ConfigError(f"{plugin.__name__}.args_type is not a msgspec.Struct: {args_type!r}")
    if not extension_points(plugin):
        raise ConfigError(f"{plugin.__name__} defines no method of an extension point")
    return plugin
