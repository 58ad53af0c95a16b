"""Loads plugins from outside the package: installed ones, modules, and single files.

An installed package offers plugins as entry points of the group `kubesched.plugins`. Without a
package, users name a plugin as `module:Class`, as the path of a `.py` file with one plugin in it,
or as `path.py:Class`. Every failure is a `ConfigError` of one line that begins with that name.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Final, TypeVar

from kubesched.errors import ConfigError
from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.framework import Plugin
from kubesched.scheduler.runtime.plugin_registry import (
    PluginFactory,
    PluginRegistry,
    Registry,
    check_plugin_type,
)

__all__ = ["GROUP", "installed_plugins", "is_installed", "load_plugin", "out_of_tree_plugins"]

GROUP: Final = "kubesched.plugins"
# The plugins of this package that are loaded like those of other packages.
_OWN: Final = "kubesched.contrib."

_T = TypeVar("_T")


def out_of_tree_plugins(
    named: Iterable[str] = (),
    installed: Iterable[EntryPoint] | None = None,
    given: Registry | None = None,
) -> PluginRegistry:
    """Load the installed plugins and those that the user named, and add those of `given`.

    A plugin that occurs more than once is loaded once. The plugins of this package that are
    offered as entry points (`kubesched.contrib`) give way to others with the same name.
    """
    registry = PluginRegistry(given)
    own: dict[str, PluginFactory] = {}
    for name, factory in installed_plugins(installed).items():
        if _is_own(factory):
            own[name] = factory
        elif registry.get(name) is not factory:
            registry.register(name, factory)
    for spec in named:
        plugin = load_plugin(spec)
        if registry.get(plugin.name) is plugin:
            continue
        try:
            registry.register(plugin.name, plugin)
        except ConfigError as exc:
            raise ConfigError(f"plugin {spec}: {exc}") from exc
    registry.merge({name: factory for name, factory in own.items() if name not in registry})
    return registry


def _is_own(factory: object) -> bool:
    return getattr(factory, "__module__", "").startswith(_OWN)


def installed_plugins(installed: Iterable[EntryPoint] | None = None) -> PluginRegistry:
    """Load the plugins of all installed packages; those of this package yield to others."""
    registry = PluginRegistry()
    offered = entry_points(group=GROUP) if installed is None else installed
    for entry in sorted(offered, key=lambda entry: (entry.value.startswith(_OWN), entry.name)):
        package = entry.dist.name if entry.dist is not None else "an installed package"
        where = f"plugin {entry.name} of {package} ({entry.value})"
        try:
            plugin = check_plugin_type(_attempt(entry.load))
            if _is_own(plugin) and plugin.name in registry:
                continue
            registry.register(plugin.name, plugin)
        except ConfigError as exc:
            raise ConfigError(f"{where}: {exc}") from exc
    return registry


def is_installed(spec: str) -> bool:
    """Whether an installed package offers exactly this class as a plugin; nothing is imported."""
    return any(entry.value == spec for entry in entry_points(group=GROUP))


def load_plugin(spec: str) -> type[Plugin]:
    """Load the plugin that a user named."""
    source, colon, name = spec.rpartition(":")
    if not colon:
        source, name = spec, ""
    try:
        if source.endswith(".py"):
            module = _module_of_file(Path(source))
            return _named(module, name) if name else _only_plugin(module)
        if not source or not name:
            raise ConfigError("expected module:Class or the path of a .py file")
        return _named(_attempt(lambda: importlib.import_module(source)), name)
    except ConfigError as exc:
        raise ConfigError(f"plugin {spec}: {exc}") from exc


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError("no such file")
    # The module's name contains the path, so that two files of one name do not collide.
    name = f"kubesched_plugin_{path.resolve().as_posix().replace('/', '_').removesuffix('.py')}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # the name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # msgspec resolves annotations in the module, so it must be registered before it runs.
    sys.modules[name] = module
    try:
        execute = spec.loader.exec_module
        _attempt(lambda: execute(module))
    except ConfigError:
        del sys.modules[name]
        raise
    return module


def _named(module: ModuleType, name: str) -> type[Plugin]:
    if not hasattr(module, name):
        raise ConfigError(f"has no {name}")
    return check_plugin_type(getattr(module, name))


def _only_plugin(module: ModuleType) -> type[Plugin]:
    found = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Plugin)
        and value.__module__ == module.__name__
    ]
    if len(found) == 1:
        return check_plugin_type(found[0])
    if not found:
        raise ConfigError("defines no subclass of kubesched.framework.Plugin")
    names = ", ".join(sorted(plugin.__name__ for plugin in found))
    raise ConfigError(f"defines several plugins, add :Class to name one: {names}")


def _attempt(load: Callable[[], _T]) -> _T:
    """Run a loader; any exception becomes a ConfigError of one line."""
    try:
        return load()
    except BaseException as exc:
        pass_on_interrupt(exc)
        reason = " ".join(str(exc).split())
        name = type(exc).__name__
        what = f"{name}: {reason}" if reason else name
        raise ConfigError(f"cannot be imported: {what}") from exc
