"""Completes a loaded configuration, so that profiles can be built from it.

`complete_configuration` is the step between `config/load.py` and the scheduler. Extenders get their
default timeout, NodeResourcesFit ignores the resources that they manage, and every rule about
profiles is checked, including those that the reference checks only when it builds them.
`as_written` returns such a configuration in the form of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from kubesched.errors import ConfigError
from kubesched.foundation.util.go_format import quote
from kubesched.scheduler.config.args import NodeResourcesFitArgs
from kubesched.scheduler.config.args_validation import validate_plugin_args
from kubesched.scheduler.config.config_struct import SECOND
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.plugin_lists import ExpandedPlugins, Implemented, expand_plugins
from kubesched.scheduler.config.plugin_names import (
    IN_TREE_EXTENSION_POINTS,
    NODE_RESOURCES_FIT,
    QUEUE_SORT,
)
from kubesched.scheduler.config.types import (
    ExtenderConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
)

__all__ = [
    "DEFAULT_EXTENDER_TIMEOUT_NS",
    "as_written",
    "complete_configuration",
    "expand_profiles",
    "ordered_extenders",
]

DEFAULT_EXTENDER_TIMEOUT_NS: Final = 5 * SECOND


def complete_configuration(
    configuration: KubeSchedulerConfiguration,
    implemented: Implemented = IN_TREE_EXTENSION_POINTS,
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> KubeSchedulerConfiguration:
    """Return the configuration that a scheduler is built from. Idempotent.

    `implemented` holds the extension points of every plugin that exists.

    Raises:
        ConfigError: no scheduler can be built from it; the text is the reference's.
    """
    completed = _with_extender_defaults(configuration)
    expand_profiles(completed.profiles, implemented, gates=gates)
    return completed


def as_written(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Return a complete configuration with only the arguments that its profiles use."""
    return replace(configuration, profiles=tuple(map(_with_own_args, configuration.profiles)))


def _with_extender_defaults(
    configuration: KubeSchedulerConfiguration,
) -> KubeSchedulerConfiguration:
    """Set the extenders' timeouts, and make NodeResourcesFit ignore their resources.

    Raises:
        ConfigError: a profile has no arguments of NodeResourcesFit.
    """
    extenders = tuple(
        replace(e, http_timeout_ns=e.http_timeout_ns or DEFAULT_EXTENDER_TIMEOUT_NS)
        for e in configuration.extenders
    )
    ignored = tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    profiles = configuration.profiles
    if ignored:
        profiles = tuple(_ignoring(profile, ignored) for profile in profiles)
    return replace(configuration, extenders=extenders, profiles=profiles)


def ordered_extenders(extenders: Iterable[ExtenderConfig]) -> tuple[ExtenderConfig, ...]:
    """Return extenders in the order of their calls: ignorable ones come last."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def _with_own_args(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    instantiated = profile.plugins.enabled_names()
    kept = (e for e in profile.plugin_config if e.name in instantiated and e.args is not None)
    return replace(profile, plugin_config=tuple(sorted(kept, key=lambda entry: entry.name)))


def expand_profiles(
    profiles: Sequence[KubeSchedulerProfile],
    implemented: Implemented = IN_TREE_EXTENSION_POINTS,
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> dict[str, ExpandedPlugins]:
    """Return the plugins of each extension point, by scheduler name.

    Raises:
        ConfigError: with the reference's text.
    """
    if not profiles:
        raise ConfigError("at least one profile is required")
    expanded: dict[str, ExpandedPlugins] = {}
    first = profiles[0]
    for profile in profiles:
        try:
            plugins = _expand(profile, implemented, gates)
        except ConfigError as exc:
            raise _wrapped(
                f"creating profile for scheduler name {profile.scheduler_name}: {exc}", exc
            ) from exc
        name = profile.scheduler_name
        if not name:
            raise _wrapped("scheduler name is needed")
        if name in expanded:
            raise _wrapped(f"duplicate profile with scheduler name {quote(name)}")
        expanded[name] = plugins
        sorter = plugins[QUEUE_SORT][0].name
        first_sorter = expanded[first.scheduler_name][QUEUE_SORT][0].name
        if sorter != first_sorter:
            raise _wrapped(
                f"different queue sort plugins for profile {quote(name)}: {quote(sorter)}, "
                f"first: {quote(first_sorter)}"
            )
        if profile.args_of(sorter) != first.args_of(sorter):
            raise _wrapped(f"different queue sort plugin args for profile {quote(name)}")
    return expanded


def _expand(
    profile: KubeSchedulerProfile,
    implemented: Implemented,
    gates: FeatureGates,
) -> ExpandedPlugins:
    needed = profile.plugins.enabled_names()
    seen: set[str] = set()
    for entry in profile.plugin_config:
        if entry.name in seen:
            raise ConfigError(f"repeated config for plugin {entry.name}")
        seen.add(entry.name)
    for entry in profile.plugin_config:
        if entry.name in needed and entry.name in implemented:
            try:
                validate_plugin_args(entry.name, entry.args, gates=gates)
            except ConfigError as exc:
                raise ConfigError(f"initializing plugin {quote(entry.name)}: {exc}") from exc
    return expand_plugins(profile.plugins, implemented, scheduler_name=profile.scheduler_name)


def _wrapped(text: str, cause: ConfigError | None = None) -> ConfigError:
    error = ConfigError(f"initializing profiles: {text}")
    for note in getattr(cause, "__notes__", ()):
        error.add_note(note)
    return error


def _ignoring(profile: KubeSchedulerProfile, resources: tuple[str, ...]) -> KubeSchedulerProfile:
    found = False
    entries: list[PluginConfig] = []
    for entry in profile.plugin_config:
        if entry.name == NODE_RESOURCES_FIT:
            found = True
            if not isinstance(entry.args, NodeResourcesFitArgs):
                raise ConfigError(
                    "couldn't build extenders: want args to be of type NodeResourcesFitArgs, "
                    f"got {type(entry.args).__name__}"
                )
            entry = PluginConfig(entry.name, replace(entry.args, ignored_resources=resources))
        entries.append(entry)
    if not found:
        raise ConfigError(
            "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
        )
    return replace(profile, plugin_config=tuple(entries))
