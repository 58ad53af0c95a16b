"""The keyword options of `Scheduler` (docs/reference/01 §15).

A caller can set everything that a configuration file can set. Profiles and extenders are values, or
plain dicts in the form of the file.
"""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypedDict, TypeVar, Unpack

from msgspec.structs import replace

from kubesched.foundation.client.event_recorder import Broadcaster
from kubesched.foundation.client.informer_factory import InformerFactory
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.spans import SpanSink
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.all_plugins import complete_registry
from kubesched.scheduler.backend.queue import SchedulingQueue
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
from kubesched.scheduler.extenders.extender_building import TransportOf
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry
from kubesched.scheduler.runtime.plugin_set import Registry
from kubesched.scheduler.search.schedule_result import SchedulePod

__all__ = [
    "DEFAULT_OPTIONS",
    "NextPod",
    "SchedulerOptions",
    "all_plugins",
    "check_options",
    "scheduler_configuration",
]

_T = TypeVar("_T")

# Returns the pod to try next, taken from the queue (`SchedulingQueue.pop` is the default); None if
# no pod is ready. The arguments are the time and the extenders that are busy.
NextPod = Callable[[SchedulingQueue, int, Collection[str]], QueuedPodInfo | None]


class SchedulerOptions(TypedDict, total=False):
    """Everything a scheduler can be built with, besides an API server and a clock."""

    # The configuration (by default the default one), and options that override parts of it.
    # Profiles and extenders may be dicts in the form of the configuration file.
    configuration: KubeSchedulerConfiguration | None
    configuration_is_complete: bool  # by `complete_configuration`; it is not completed again
    profiles: Iterable[KubeSchedulerProfile | Mapping[str, Any]] | None
    extenders: Iterable[ExtenderConfig | Mapping[str, Any]] | None
    parallelism: int | None
    percentage_of_nodes_to_score: int | None
    pod_initial_backoff_seconds: int | None
    pod_max_backoff_seconds: int | None
    feature_gates: FeatureGates
    # How long an unschedulable pod waits for an event before it is tried again.
    pod_max_in_unschedulable_pods_duration: timedelta
    # The plugins that profiles may enable: the in-tree ones, and additional ones.
    registry: Registry
    out_of_tree_registry: Registry | None
    # Whether every decision of the cached search is compared with a full search.
    verify_engine: bool
    # The seed of all random choices.
    seed: int
    metrics: SchedulerMetrics | None
    # Receives a span for each attempt, extension point, binding and request of the share
    # `trace_ratio` of the pods; None: there are no spans, which costs nothing.
    spans: SpanSink | None
    trace_ratio: float
    # The broadcaster of events, which runs and stops with the scheduler, and the host name in them.
    broadcaster: Broadcaster | None
    hostname: str
    # The scheduling loop waits until this event is set.
    begins: asyncio.Event | None
    # Whether informers request their first list as part of the watch, and whether they share equal
    # parts of pods and nodes. The latter is for a server outside this process.
    stream_lists: bool
    share_parts: bool
    # The transport to each extender (by default over the network), and whether this process may
    # still let an extender bind.
    extender_transport: TransportOf | None
    may_act: Callable[[], bool] | None
    # Informers of the caller, which runs all of `components()` after it has built the scheduler.
    informer_factory: InformerFactory | None
    # Called with each completed profile, which has arguments for its own plugins only.
    on_profile: Callable[[KubeSchedulerProfile], None] | None
    # Replacements for the choice of the next pod, for the search for a node, and for the handling
    # of failed attempts.
    next_pod: NextPod | None
    schedule_pod: SchedulePod | None
    failure_handler: HandleFailure | None
    # Returns a text that is appended to the events of pods that fit nowhere.
    failure_note: FailureNote | None
    # For plugins that open their own connections: the kubeconfig, and the version of the
    # configuration file.
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
    "spans": None,
    "trace_ratio": 1.0,
    "broadcaster": None,
    "hostname": "localhost",
    "begins": None,
    "stream_lists": False,
    "share_parts": False,
    "extender_transport": None,
    "may_act": None,
    "informer_factory": None,
    "on_profile": None,
    "next_pod": None,
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
    "name": "set scheduler_name in profiles",
    "preemption_disabled": "disable the plugin DefaultPreemption in profiles",
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
    """Check that all options exist.

    Raises:
        TypeError: an option is unknown; a note suggests a similar name.
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
    """Return the completed configuration of the options.

    Dicts are decoded as strictly as a file.

    Raises:
        ConfigError: an option has a value that is invalid in a file too, or no scheduler can be
            built from the options.
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
    """Return the in-tree and the out-of-tree plugins."""
    return complete_registry(
        options.get("out_of_tree_registry"), in_tree=options.get("registry", IN_TREE_PLUGINS)
    )


def _decoded(
    key: str,
    values: tuple[_T | Mapping[str, Any], ...],
    gates: FeatureGates,
    known_args: Mapping[str, type],
) -> tuple[_T, ...]:
    """Decode the values that are dicts, together, so that errors contain their index."""
    dicts = [value for value in values if isinstance(value, Mapping)]
    if not dicts:
        return values  # type: ignore[return-value]  # none of them is a mapping
    document = {"apiVersion": API_VERSION, "kind": KIND, key: dicts}
    read = configuration_from_builtins(document, gates=gates, known_args=known_args)
    decoded = iter(getattr(read, key))
    return tuple(next(decoded) if isinstance(value, Mapping) else value for value in values)
