"""The plugin lists of a profile, merged with the defaults and expanded per extension point.

`merge_plugins` merges a profile's sets with the built-in ones (docs/reference/01 §6);
`--write-config-to` prints the result. `expand_plugins` determines, from the extension points of
each plugin, which plugins run at each point, in which order and with which weight, or why the
profile cannot be built (docs/reference/01 §7). Both functions only use names; the runtime builds
the plugins.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.config.plugin_names import (
    ALL,
    BIND,
    EXTENSION_POINTS,
    PLACEMENT_GENERATE,
    PLACEMENT_SCORE,
    QUEUE_SORT,
    SCORE,
)
from kubesched.scheduler.config.removed import plugin_note
from kubesched.scheduler.config.types import PluginRef, Plugins, PluginSet

__all__ = [
    "MAX_NODE_SCORE",
    "ExpandedPlugins",
    "expand_plugins",
    "merge_plugin_set",
    "merge_plugins",
]

log = get_logger(__name__)

MAX_NODE_SCORE: Final = 100

# For every extension point the plugins that run there, in order. The weight is 0 where a
# point has none.
ExpandedPlugins = Mapping[str, tuple[PluginRef, ...]]

# The extension points of every plugin; None: they are not known before it is built.
Implemented = Mapping[str, Collection[str] | None]

_MAX_INT64: Final = 2**63 - 1


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """Merge each set of a profile with the default set of the same name."""
    return Plugins(
        **{
            name: merge_plugin_set(getattr(defaults, name), getattr(custom, name))
            for name in Plugins.__struct_fields__
        }
    )


def merge_plugin_set(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    """Merge one set: a custom entry, with its weight, replaces a default in its position."""
    disabled = tuple(PluginRef(ref.name) for ref in (*custom.disabled, *defaults.disabled))
    disabled_names = {ref.name for ref in disabled}
    last_index = {ref.name: index for index, ref in enumerate(custom.enabled)}
    enabled: list[PluginRef] = []
    replacements: set[int] = set()
    if ALL not in disabled_names:
        for default in defaults.enabled:
            if default.name in disabled_names:
                continue
            index = last_index.get(default.name)
            if index is None:
                enabled.append(default)
                continue
            log.info("Default plugin is explicitly re-configured; overriding", plugin=default.name)
            enabled.append(custom.enabled[index])
            replacements.add(index)
    enabled.extend(ref for i, ref in enumerate(custom.enabled) if i not in replacements)
    return PluginSet(enabled=tuple(enabled), disabled=disabled)


def expand_plugins(
    plugins: Plugins, implemented: Implemented, *, scheduler_name: str
) -> ExpandedPlugins:
    """Return the plugins that run at each extension point of a profile.

    `implemented` has the names of the extension points of every existing plugin, or None if they
    are only known after the plugin is built. Such a plugin is assumed to have the points for which
    it is enabled by name.

    Raises:
        ConfigError: the text is the reference's, without its prefix `creating profile for scheduler
            name`.
    """
    explicit = {point: _explicit(plugins, implemented, point) for point in EXTENSION_POINTS}
    lists = explicit
    if plugins.multi_point.enabled:
        lists = {
            point: _with_multi_point(plugins, implemented, point, explicit[point])
            for point in EXTENSION_POINTS
        }
    if not any(implemented[name] is None for name in plugins.enabled_names() & implemented.keys()):
        _check_counts(lists, scheduler_name)
    weights = {
        SCORE: _weights(plugins, implemented, SCORE, "score plugins"),
        PLACEMENT_SCORE: _weights(plugins, implemented, PLACEMENT_SCORE, "placement score plugins"),
    }
    return MappingProxyType(
        {
            point: tuple(PluginRef(name, weights.get(point, {}).get(name, 0)) for name in names)
            for point, names in lists.items()
        }
    )


def _explicit(plugins: Plugins, implemented: Implemented, point: str) -> list[str]:
    names: list[str] = []
    for ref in plugins.at(point).enabled:
        if ref.name not in implemented:
            raise _does_not_exist(point, ref.name, implemented)
        points = implemented[ref.name]
        if points is not None and point not in points:
            raise _does_not_extend(point, ref.name, points)
        if ref.name in names:
            raise _already_registered(point, ref.name)
        names.append(ref.name)
    return names


def _with_multi_point(
    plugins: Plugins,
    implemented: Implemented,
    point: str,
    explicit: list[str],
) -> list[str]:
    disabled = {ref.name for ref in plugins.at(point).disabled}
    if ALL in disabled:
        return explicit
    added: list[str] = []
    overrides: set[str] = set()
    for ref in plugins.multi_point.enabled:
        if ref.name not in implemented:
            raise _does_not_exist(point, ref.name, implemented)
        if point not in (implemented[ref.name] or ()) or ref.name in disabled:
            continue
        if ref.name in explicit:
            overrides.add(ref.name)
            continue
        if ref.name in added:
            raise _already_registered(point, ref.name)
        added.append(ref.name)
    first = [name for name in explicit if name in overrides]
    last = [name for name in explicit if name not in overrides]
    return [*first, *added, *last]


def _check_counts(lists: Mapping[str, list[str]], scheduler_name: str) -> None:
    if (count := len(lists[QUEUE_SORT])) != 1:
        raise ConfigError(
            "only one queue sort plugin required for profile with scheduler name "
            f"{quote(scheduler_name)}, but got {count}"
        )
    if not lists[BIND]:
        raise ConfigError(
            "at least one bind plugin is needed for profile with scheduler name "
            f"{quote(scheduler_name)}"
        )
    if len(lists[PLACEMENT_GENERATE]) > 1:
        raise ConfigError(
            "at most one placement generate plugin is allowed for profile with scheduler name "
            f"{quote(scheduler_name)}"
        )


def _weights(
    plugins: Plugins, implemented: Implemented, point: str, subject: str
) -> dict[str, int]:
    """Weights by name; an entry of the point wins over multiPoint even if it has none."""
    weights: dict[str, int] = {}
    total = 0
    for ref in (*plugins.at(point).enabled, *plugins.multi_point.enabled):
        if ref.name in weights or point not in (implemented.get(ref.name) or ()):
            continue
        weight = ref.weight or 1
        # In 64 bits the room left wraps around once negative weights made the total negative.
        room = _wrap_int64(_MAX_INT64 - total)
        if weight * MAX_NODE_SCORE > room:
            raise ConfigError(f"{subject}: total score of Score plugins could overflow")
        weights[ref.name] = weight
        total += weight * MAX_NODE_SCORE
    return weights


def _wrap_int64(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _interface(point: str) -> str:
    return f"{point[0].upper()}{point[1:]}Plugin"


def _does_not_exist(point: str, name: str, known: Collection[str]) -> ConfigError:
    error = ConfigError(f"{_interface(point)} {quote(name)} does not exist")
    if note := plugin_note(name):
        error.add_note(note)
    elif near := difflib.get_close_matches(name, known, n=1):
        error.add_note(f"did you mean {near[0]!r}?")
    return error


def _does_not_extend(point: str, name: str, points: Collection[str]) -> ConfigError:
    error = ConfigError(f"plugin {quote(name)} does not extend {_interface(point)} plugin")
    extended = ", ".join(point for point in EXTENSION_POINTS if point in points)
    error.add_note(f"{name} has methods for: {extended}")
    return error


def _already_registered(point: str, name: str) -> ConfigError:
    return ConfigError(f'plugin {quote(name)} already registered as "{_interface(point)}"')
