"""Stage one of plugin lists: a profile's sets laid over the built-in ones (docs/reference/01 §6).

The result is what `--write-config-to` prints. Which plugins run at which point is decided
later, by `expansion.py`.
"""

from __future__ import annotations

from kubesched.config.plugin_names import ALL
from kubesched.config.types import PluginRef, Plugins, PluginSet
from kubesched.util.logging import get_logger

__all__ = ["merge_plugin_set", "merge_plugins"]

_log = get_logger(__name__)


def merge_plugins(defaults: Plugins, custom: Plugins) -> Plugins:
    """Merge each set of a profile with the default set of the same name."""
    return Plugins(
        **{
            name: merge_plugin_set(getattr(defaults, name), getattr(custom, name))
            for name in Plugins.__struct_fields__
        }
    )


def merge_plugin_set(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    """Merge one set: a default keeps its place but takes the custom entry, weight included."""
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
            _log.info("Default plugin is explicitly re-configured; overriding", plugin=default.name)
            enabled.append(custom.enabled[index])
            replacements.add(index)
    enabled.extend(ref for i, ref in enumerate(custom.enabled) if i not in replacements)
    return PluginSet(enabled=tuple(enabled), disabled=disabled)
