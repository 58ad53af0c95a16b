"""The plugin registry: factories by name, and checks of plugins before they are built.

The in-tree plugins are a fixed mapping. Out-of-tree plugins are registered in a `PluginRegistry`
and merged with it. A registry is a mapping, so it can be used wherever one is expected.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from kubesched.api import Kind
from kubesched.errors import ConfigError
from kubesched.framework import Handle, Plugin, extension_points, overrides

__all__ = [
    "PluginFactory",
    "PluginRegistry",
    "Registry",
    "args_type_of",
    "check_factory",
    "check_plugin_type",
    "custom_kinds_of",
    "plugin_type_of",
]

# Builds a plugin from its arguments and a handle: a class, a function, a functools.partial.
PluginFactory = Callable[[Any, Handle], Plugin]
Registry = Mapping[str, PluginFactory]

# Names that need no quoting in a configuration file or a metric's label.
_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_./-]*[A-Za-z0-9])?", re.ASCII)
_MAX_NAME: Final = 253


class PluginRegistry(Mapping[str, PluginFactory]):
    """Plugin factories by name."""

    def __init__(self, plugins: Registry | None = None) -> None:
        self._plugins: dict[str, PluginFactory] = {}
        self.merge(plugins or {})

    def __getitem__(self, name: str) -> PluginFactory:
        return self._plugins[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plugins)

    def __len__(self) -> int:
        return len(self._plugins)

    def register(self, name: str, factory: PluginFactory) -> None:
        """Add the factory of a plugin.

        Raises:
            ConfigError: the name is taken, or the factory cannot build a plugin.
        """
        if name in self._plugins:
            raise ConfigError(f"a plugin named {name} already exists")
        check_factory(name, factory)
        self._plugins[name] = factory

    def unregister(self, name: str) -> None:
        """Remove a plugin.

        Raises:
            ConfigError: no plugin has that name.
        """
        if name not in self._plugins:
            raise ConfigError(f"no plugin named {name} exists")
        del self._plugins[name]

    def merge(self, plugins: Registry) -> None:
        """Add plugins in order, up to the first whose name is taken.

        Raises:
            ConfigError: a name is taken.
        """
        for name, factory in plugins.items():
            self.register(name, factory)

    def known_args(self) -> dict[str, type]:
        """Return the types that the arguments of these plugins are decoded into."""
        types = {name: args_type_of(factory) for name, factory in self._plugins.items()}
        return {name: args_type for name, args_type in types.items() if args_type is not None}

    def implemented(self) -> dict[str, frozenset[str] | None]:
        """Return the extension points of each plugin, as configuration files name them.

        None for a factory without a known plugin class: its plugin has to be built first.
        """
        types = {name: plugin_type_of(factory) for name, factory in self._plugins.items()}
        return {
            name: None if built is None else frozenset(map(str, extension_points(built)))
            for name, built in types.items()
        }


def check_factory(name: str, factory: object) -> None:
    """Check that a factory can build a plugin of this name.

    Raises:
        ConfigError: it cannot.
    """
    if isinstance(factory, type):
        _check_class(name, factory)
    else:
        _check(name, factory)


@functools.lru_cache(maxsize=1024)
def _check_class(name: str, factory: type) -> None:
    """Check a class once, because every scheduler registers the in-tree plugins again."""
    _check(name, factory)


def _check(name: str, factory: object) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ConfigError(f"{name!r} is not a legal name for a plugin: {_LEGAL}")
    if not callable(factory):
        raise ConfigError(f"plugin {name}: {factory!r} is not callable")
    if isinstance(factory, type) and not issubclass(factory, Plugin):
        raise ConfigError(
            f"plugin {name}: {factory!r} is not a subclass of kubesched.framework.Plugin"
        )
    try:
        inspect.signature(factory).bind(None, None)
    except ValueError:
        pass  # a function written in C has no signature
    except TypeError as exc:
        raise ConfigError(
            f"plugin {name}: {_shown(factory)} is not called with (args, handle): {exc}"
        ) from exc
    built = plugin_type_of(factory)
    if built is not None and not (
        extension_points(built) or overrides(built, "pre_bind_pre_flight")
    ):
        raise ConfigError(f"{built.__name__} defines no method of an extension point")
    args_type = args_type_of(factory)
    if args_type is not None and not _is_struct(args_type):
        raise ConfigError(f"{_shown(factory)}.args_type is not a msgspec.Struct: {args_type!r}")


def check_plugin_type(plugin: object) -> type[Plugin]:
    """Return the class if it can be registered under its own name.

    Raises:
        ConfigError: it is no plugin class, or has no legal name.
    """
    if not isinstance(plugin, type) or not issubclass(plugin, Plugin):
        raise ConfigError(f"{plugin!r} is not a subclass of kubesched.framework.Plugin")
    name: object = plugin.name
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
        raise ConfigError(
            f"{plugin.__name__} has no legal name: {name!r} (set the class attribute `name` to "
            f"{_LEGAL})"
        )
    check_factory(name, plugin)
    return plugin


def args_type_of(factory: object) -> type | None:
    """Return the `args_type` of a factory or, if it has none, of the plugin it builds."""
    while factory is not None:
        found: type | None = getattr(factory, "args_type", None)
        if found is not None:
            return found
        factory = (
            factory.func if isinstance(factory, functools.partial) else plugin_type_of(factory)
        )
        if isinstance(factory, type):
            return getattr(factory, "args_type", None)
    return None


def plugin_type_of(factory: object) -> type[Plugin] | None:
    """Return the class of the plugins that a factory builds; None if it is not known."""
    while isinstance(factory, functools.partial):
        factory = factory.func
    if isinstance(factory, type):
        return factory if issubclass(factory, Plugin) else None
    try:
        built = typing.get_type_hints(factory).get("return")
    except (TypeError, NameError, AttributeError):
        return None  # annotations that only a type checker can resolve
    # The annotation Plugin does not identify the plugin class.
    if isinstance(built, type) and issubclass(built, Plugin) and built is not Plugin:
        return built
    return None


def custom_kinds_of(registry: Registry, names: Iterable[str]) -> tuple[Kind, ...]:
    """Return the custom resources that the plugins with these names read."""
    found: dict[Kind, None] = {}
    for name in names:
        plugin = plugin_type_of(registry.get(name))
        found.update(dict.fromkeys(plugin.custom_kinds if plugin is not None else ()))
    return tuple(found)


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _shown(factory: object) -> str:
    return getattr(factory, "__qualname__", None) or repr(factory)


_LEGAL: Final = "letters, digits and -_./ between them"
