"""Builds the plugins of one profile, by extension point (docs/reference/01 §7, 04 §8.1)."""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.interrupts import pass_on_interrupt
from kubesched.framework import ExtensionPoint, Handle, Plugin, extension_points
from kubesched.scheduler.config.plugin_lists import expand_plugins
from kubesched.scheduler.config.types import KubeSchedulerProfile
from kubesched.scheduler.runtime.plugin_registry import PluginFactory, Registry, args_type_of
from kubesched.scheduler.runtime.plugin_resources import PluginResources

__all__ = ["ProfilePlugins", "Registry"]


class ProfilePlugins:
    """The plugins of a profile by extension point, in the order in which they run."""

    def __init__(
        self,
        profile: KubeSchedulerProfile,
        registry: Registry,
        handle: Handle,
        resources: PluginResources | None = None,
    ) -> None:
        """Build the plugins. Those that were built are in `resources`, even if one fails.

        Raises:
            ConfigError: a plugin cannot be built.
        """
        self.profile_name = profile.scheduler_name
        plugins = profile.plugins
        enabled = plugins.enabled_names()
        built: dict[str, Plugin] = {}
        for name, factory in registry.items():
            if name in enabled:
                built[name] = _build(name, factory, profile.args_of(name), handle)
                if resources is not None:
                    resources.plugins.append(built[name])
        expanded = expand_plugins(
            plugins,
            {name: [str(p) for p in extension_points(plugin)] for name, plugin in built.items()},
            scheduler_name=profile.scheduler_name,
        )
        names = {ref.name for refs in expanded.values() for ref in refs}
        self.by_name: dict[str, Plugin] = {
            name: plugin for name, plugin in built.items() if name in names
        }
        if resources is not None:
            resources.plugins = list(self.by_name.values())
        self._at: dict[ExtensionPoint, tuple[Plugin, ...]] = {
            point: tuple(self.by_name[ref.name] for ref in expanded[str(point)])
            for point in ExtensionPoint
        }
        self.score_weights: dict[str, int] = {
            ref.name: ref.weight for ref in expanded[str(ExtensionPoint.SCORE)]
        }
        self.placement_score_weights: dict[str, int] = {
            ref.name: ref.weight for ref in expanded[str(ExtensionPoint.PLACEMENT_SCORE)]
        }

    @property
    def pre_filters(self) -> tuple[Plugin, ...]:
        return self._at[ExtensionPoint.PRE_FILTER]

    @property
    def filters(self) -> tuple[Plugin, ...]:
        return self._at[ExtensionPoint.FILTER]

    @property
    def scores(self) -> tuple[Plugin, ...]:
        return self._at[ExtensionPoint.SCORE]

    def at(self, point: ExtensionPoint) -> tuple[Plugin, ...]:
        return self._at[point]


def _build(name: str, factory: PluginFactory, args: Any, handle: Handle) -> Plugin:
    try:
        args_type = args_type_of(factory)
        if args is None and args_type is not None:
            # A profile built in Python may leave out arguments that have defaults.
            args = msgspec.convert({}, args_type)
        plugin = factory(args, handle)
        if not isinstance(plugin, Plugin):
            raise ConfigError(f"its factory returned {plugin!r}, which is not a Plugin")
        if plugin.name != name:
            # One class may be registered under several names.
            plugin.name = name  # type: ignore[misc]  # hides the class's own
        return plugin
    except ConfigError as exc:
        raise ConfigError(f'initializing plugin "{name}": {exc}') from exc
    except BaseException as exc:
        pass_on_interrupt(exc)
        # Any exception of a plugin's constructor ends the start with one line.
        what = f"{type(exc).__name__}: {exc}"
        raise ConfigError(f'initializing plugin "{name}": {what}') from exc
