"""What building a scheduler does to its configuration, and whether it can be built at all.

Extenders get their default timeout and take resources away from NodeResourcesFit;
profiles keep only the arguments of plugins that exist in them. `check_profiles` finds
the mistakes that the reference reports only when it constructs its profiles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from kubesched.config.args import NodeResourcesFitArgs
from kubesched.config.args_validation import validate_plugin_args
from kubesched.config.base import SECOND
from kubesched.config.expansion import ExpandedPlugins, expand_plugins
from kubesched.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.config.plugin_names import (
    IN_TREE_EXTENSION_POINTS,
    NODE_RESOURCES_FIT,
    QUEUE_SORT,
)
from kubesched.config.types import (
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    PluginConfig,
)
from kubesched.util.errors import ConfigError
from kubesched.util.go_format import quote

__all__ = [
    "DEFAULT_EXTENDER_TIMEOUT_NS",
    "check_profiles",
    "complete_extenders",
    "complete_profile",
    "completed_configuration",
    "ordered_extenders",
]

DEFAULT_EXTENDER_TIMEOUT_NS: Final = 5 * SECOND


def completed_configuration(
    configuration: KubeSchedulerConfiguration,
) -> KubeSchedulerConfiguration:
    """The configuration of a scheduler that was built from this one."""
    built = complete_extenders(configuration)
    return replace(built, profiles=tuple(map(complete_profile, built.profiles)))


def complete_extenders(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Give extenders their timeout, and have NodeResourcesFit ignore what they ask it to.

    Raises:
        ConfigError: a profile lacks the arguments that would have to change.
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


def ordered_extenders(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Extenders in the order they are called: those that may fail come last."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def complete_profile(profile: KubeSchedulerProfile) -> KubeSchedulerProfile:
    """Keep the arguments of the profile's own plugins, by name."""
    instantiated = profile.plugins.enabled_names()
    kept = (e for e in profile.plugin_config if e.name in instantiated and e.args is not None)
    return replace(profile, plugin_config=tuple(sorted(kept, key=lambda entry: entry.name)))


def check_profiles(
    configuration: KubeSchedulerConfiguration,
    implemented: Mapping[str, Collection[str]] = IN_TREE_EXTENSION_POINTS,
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
) -> dict[str, ExpandedPlugins]:
    """Say what each profile runs, by scheduler name, or why the profiles cannot be built.

    `implemented` holds the extension points of every plugin that exists.

    Raises:
        ConfigError: with the reference's text.
    """
    if not configuration.profiles:
        raise ConfigError("at least one profile is required")
    expanded: dict[str, ExpandedPlugins] = {}
    first = configuration.profiles[0]
    for profile in configuration.profiles:
        try:
            plugins = _expand(profile, implemented, gates)
        except ConfigError as exc:
            raise _wrapped(
                f"creating profile for scheduler name {profile.scheduler_name}: {exc}", exc
            ) from exc
        name = quote(profile.scheduler_name)
        if not profile.scheduler_name:
            raise _wrapped("scheduler name is needed")
        if profile.scheduler_name in expanded:
            raise _wrapped(f"duplicate profile with scheduler name {name}")
        expanded[profile.scheduler_name] = plugins
        sorter = plugins[QUEUE_SORT][0].name
        first_sorter = expanded[first.scheduler_name][QUEUE_SORT][0].name
        if sorter != first_sorter:
            raise _wrapped(
                f"different queue sort plugins for profile {name}: {quote(sorter)}, "
                f"first: {quote(first_sorter)}"
            )
        if profile.args_of(sorter) != first.args_of(sorter):
            raise _wrapped(f"different queue sort plugin args for profile {name}")
    return expanded


def _expand(
    profile: KubeSchedulerProfile,
    implemented: Mapping[str, Collection[str]],
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
