"""The panels of plugins on the page, with the plugins' own state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from kubesched.foundation.util.logging import get_logger
from kubesched.framework import MOST_PANEL_ROWS, Panel, Plugin, overrides
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.plugin_registry import plugin_type_of

__all__ = ["PluginPanels", "have_panels", "panels_of"]

log = get_logger(__name__)


class PluginPanels(TypedDict):
    """The panels of one plugin."""

    plugin: str
    panels: list[Panel]


def panels_of(frameworks: Iterable[Framework]) -> list[PluginPanels]:
    """Return the panels of all plugins. Profiles that show the same are shown once."""
    found: dict[str, dict[Panel, None]] = {}
    for framework in frameworks:
        for plugin in framework.plugins.by_name.values():
            if overrides(plugin, "panels"):
                found.setdefault(plugin.name, {}).update(dict.fromkeys(_panels(plugin)))
    return [{"plugin": name, "panels": list(found[name])} for name in sorted(found)]


def _panels(plugin: Plugin) -> Sequence[Panel]:
    try:
        return [_cut(each) for each in plugin.panels()]
    except Exception as error:  # an own plugin's mistake must not end the page
        log.error("Panels failed", exc=error, plugin=plugin.name)
        return [Panel(plugin.name, f"the plugin failed: {error}", "bad")]


def _cut(panel: Panel) -> Panel:
    if len(panel.rows) <= MOST_PANEL_ROWS:
        return panel
    more = panel.more + len(panel.rows) - MOST_PANEL_ROWS
    rows = panel.rows[:MOST_PANEL_ROWS]
    return Panel(panel.title, panel.summary, panel.tone, rows, more)


def have_panels(
    configuration: KubeSchedulerConfiguration | None, registry: Mapping[str, Any]
) -> bool:
    """Whether a plugin that a profile enables may have panels."""
    if configuration is None:
        return False
    kinds = (plugin_type_of(registry.get(name)) for name in configuration.enabled_plugins())
    return any(kind is not None and overrides(kind, "panels") for kind in kinds)
