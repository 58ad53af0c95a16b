"""The options that a scheduler is built with in Python (docs/reference/01 §15).

What the configuration file can say, a caller can say with keyword arguments: profiles and
extenders as values, or in the file's own form as plain dicts.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from kubesched.foundation.client.event_recorder import Broadcaster
from kubesched.foundation.client.informer_factory import InformerFactory
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.scheduler.config.configuration_completion import complete_configuration
from kubesched.scheduler.config.configuration_validation import validate_configuration
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.config.types import (
    API_VERSION,
    KIND,
    ExtenderConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
)
from kubesched.scheduler.cycles.failure import FailureNote, HandleFailure
from kubesched.scheduler.extenders.building import TransportOf
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry
from kubesched.scheduler.runtime.plugin_set import Registry
from kubesched.scheduler.search.schedule_result import SchedulePod

__all__ = [
    "DEFAULT_OPTIONS",
    "SchedulerOptions",
    "all_plugins",
    "check_options",
    "scheduler_configuration",
]

_T = TypeVar("_T")


class SchedulerOptions(TypedDict, total=False):
    """Everything a scheduler can be built with, besides an API server and a clock."""

    # The configuration, which is the default one unless given, and what changes it. Profiles
    # and extenders may be dicts in the form of the configuration file.
    configuration: KubeSchedulerConfiguration | None
    configuration_is_complete: bool  # by `complete_configuration`: it is taken as it is
    profiles: Iterable[KubeSchedulerProfile | Mapping[str, Any]] | None
    extenders: Iterable[ExtenderConfig | Mapping[str, Any]] | None
    parallelism: int | None
    percentage_of_nodes_to_score: int | None
    pod_initial_backoff_seconds: int | None
    pod_max_backoff_seconds: int | None
    feature_gates: FeatureGates
    # How long a pod that nothing happened to waits before it is tried again anyway.
    pod_max_in_unschedulable_pods_duration: timedelta
    # The plugins that exist, and others that exist besides them, for profiles to enable.
    registry: Registry
    out_of_tree_registry: Registry | None
    # Whether every answer from the cache is compared with a full search.
    verify_engine: bool
    # What all chance is derived from.
    seed: int
    metrics: SchedulerMetrics | None
    # Where events go, and the machine they are said to come from. The broadcaster is run and
    # stopped with the scheduler.
    broadcaster: Broadcaster | None
    hostname: str
    # Pods are placed only once this is set.
    begins: asyncio.Event | None
    # Informers ask for their first list as part of the watch; they keep equal parts of pods and
    # nodes once, which is for a server outside this process.
    stream_lists: bool
    share_parts: bool
    # How extenders are reached, by default over the network; they are told to bind while this
    # is true.
    extender_transport: TransportOf | None
    may_act: Callable[[], bool] | None
    # Informers of the caller, who runs them: all of `components()`, after the scheduler is built.
    informer_factory: InformerFactory | None
    # Called with each profile as it will run, arguments of its own plugins only.
    on_profile: Callable[[KubeSchedulerProfile], None] | None
    # Instead of the search for a node, and instead of what is done with a pod that failed.
    schedule_pod: SchedulePod | None
    failure_handler: HandleFailure | None
    # What the events of pods that fit nowhere say besides.
    failure_note: FailureNote | None
    # For plugins that connect by themselves: how, and the version of the configuration file.
    kubeconfig: Any
    component_config_version: str


DEFAULT_OPTIONS: Final[SchedulerOptions] = {
    "configuration": None,
    "configuration_is_complete": False,
    "profiles": None,
    "extenders": None,
    "parallelism": None,
    "percentage_of_nodes_to_score": None,
    "pod_initial_backoff_seconds": None,
    "pod_max_backoff_seconds": None,
    "feature_gates": DEFAULT_FEATURE_GATES,
    "pod_max_in_unschedulable_pods_duration": timedelta(minutes=5),
    "registry": IN_TREE_PLUGINS,
    "out_of_tree_registry": None,
    "verify_engine": False,
    "seed": 0,
    "metrics": None,
    "broadcaster": None,
    "hostname": "localhost",
    "begins": None,
    "stream_lists": False,
    "share_parts": False,
    "extender_transport": None,
    "may_act": None,
    "informer_factory": None,
    "on_profile": None,
    "schedule_pod": None,
    "failure_handler": None,
    "failure_note": None,
    "kubeconfig": None,
    "component_config_version": API_VERSION,
}
# Options of earlier releases of the reference, as Go and Python would spell them.
_REMOVED: Final = {
    "algorithm_source": "list plugins in profiles",
    "algorithm_provider": "list plugins in profiles",
    "policy": "list plugins in profiles",
    "bind_timeout_seconds": "set bindTimeoutSeconds in the args of the plugin VolumeBinding",
    "disable_preemption": "disable the plugin DefaultPreemption in profiles",
    "hard_pod_affinity_symmetric_weight": (
        "set hardPodAffinityWeight in the args of the plugin InterPodAffinity"
    ),
    "scheduler_name": "set scheduler_name in profiles",
    "framework_plugins": "list plugins in profiles",
    "framework_plugin_config": "set plugin_config in profiles",
    "framework_registry": "use out_of_tree_registry, or registry for all plugins",
    "framework_default_registry": "use registry",
    "framework_config_producer_registry": "list plugins in profiles",
    "pod_max_in_unschedulable_q_duration": "use pod_max_in_unschedulable_pods_duration",
    "build_framework_capturer": "use on_profile",
    "kube_config": "use kubeconfig",
    "framework_out_of_tree_registry": "use out_of_tree_registry",
    "percentage_of_nodes": "use percentage_of_nodes_to_score",
}
_GO_WORD: Final = re.compile(r"(?<!^)(?=[A-Z])")

_NUMBERS: Final = (
    "parallelism",
    "percentage_of_nodes_to_score",
    "pod_initial_backoff_seconds",
    "pod_max_backoff_seconds",
)


def check_options(options: Iterable[str]) -> None:
    """Refuse names that no option has, with a hint.

    Raises:
        TypeError: as for any wrong keyword argument.
    """
    for name in options:
        if name in DEFAULT_OPTIONS:
            continue
        error = TypeError(f"Scheduler() has no option {name!r}")
        plain = _GO_WORD.sub("_", name.removeprefix("With").removeprefix("with_")).lower()
        if plain in _REMOVED:
            error.add_note(f"{name} was removed: {_REMOVED[plain]}")
        elif near := difflib.get_close_matches(plain, DEFAULT_OPTIONS, n=1):
            error.add_note(f"did you mean {near[0]!r}?")
        raise error


def scheduler_configuration(**options: Unpack[SchedulerOptions]) -> KubeSchedulerConfiguration:
    """The configuration in the options, or the default one, changed by the others; complete.

    Dicts are decoded as strictly as a file.

    Raises:
        ConfigError: an option has a value that a file could not have either, or no scheduler
            can be built from the options.
    """
    plugins = all_plugins(**options)
    gates = options.get("feature_gates", DEFAULT_FEATURE_GATES)
    configuration = options.get("configuration") or default_configuration(gates)
    changes: dict[str, Any] = {name: options.get(name) for name in _NUMBERS}
    known_args = PluginRegistry(options.get("out_of_tree_registry")).known_args()
    if (profiles := options.get("profiles")) is not None:
        changes["profiles"] = _decoded("profiles", tuple(profiles), gates, known_args)
    if (extenders := options.get("extenders")) is not None:
        changes["extenders"] = _decoded("extenders", tuple(extenders), gates, known_args)
    changes = {name: value for name, value in changes.items() if value is not None}
    if options.get("configuration_is_complete") and not changes:
        return configuration
    if changes:
        configuration = replace(configuration, **changes)
        validate_configuration(configuration, gates=gates)
    implemented = {**IN_TREE_EXTENSION_POINTS, **plugins.implemented()}
    return complete_configuration(configuration, implemented, gates=gates)


def all_plugins(**options: Unpack[SchedulerOptions]) -> PluginRegistry:
    """The plugins that exist, in-tree or not."""
    plugins = PluginRegistry(options.get("registry", IN_TREE_PLUGINS))
    plugins.merge(options.get("out_of_tree_registry") or {})
    return plugins


def _decoded(
    key: str,
    values: tuple[_T | Mapping[str, Any], ...],
    gates: FeatureGates,
    known_args: Mapping[str, type],
) -> tuple[_T, ...]:
    """Decode those values that are dicts, together, so that errors name their place."""
    dicts = [value for value in values if isinstance(value, Mapping)]
    if not dicts:
        return values  # type: ignore[return-value]  # none of them is a mapping
    document = {"apiVersion": API_VERSION, "kind": KIND, key: dicts}
    read = configuration_from_builtins(document, gates=gates, known_args=known_args)
    decoded = iter(getattr(read, key))
    return tuple(next(decoded) if isinstance(value, Mapping) else value for value in values)
