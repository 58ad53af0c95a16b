"""Rules for the configuration as a whole (docs/reference/01 §3.2, §4.2, §9.1, §10.2).

Every rule is evaluated and every violation reported, in the reference's order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesched.api.resource_names import is_extended_resource_name
from kubesched.api.validation import label_key_errors
from kubesched.scheduler.config import plugin_names as names
from kubesched.scheduler.config.args_validation import args_errors
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.field_errors import (
    FieldError,
    InvalidConfigurationError,
    duplicate,
    invalid,
    invalid_duration,
    raise_all,
    required,
    unsupported,
)
from kubesched.scheduler.config.removed import plugin_note
from kubesched.scheduler.config.types import (
    API_VERSION,
    BY_NAME,
    RANDOM,
    ExtenderConfig,
    ExtenderManagedResource,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
)

__all__ = ["InvalidConfigurationError", "configuration_errors", "validate_configuration"]

_PERCENTAGE: Final = "not in valid range [0-100]"
_REMOVED: Final = (
    f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'
)
# Extension points where the reference does not check for removed plugins.
_UNCHECKED_POINTS: Final = frozenset(
    {names.MULTI_POINT, names.PLACEMENT_GENERATE, names.PLACEMENT_SCORE}
)

Errors = Iterator[FieldError]


def validate_configuration(
    configuration: KubeSchedulerConfiguration, *, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> None:
    """Check a complete configuration.

    Raises:
        InvalidConfigurationError: has every violated rule.
    """
    raise_all(configuration_errors(configuration, gates=gates))


def configuration_errors(
    configuration: KubeSchedulerConfiguration, *, gates: FeatureGates = DEFAULT_FEATURE_GATES
) -> Errors:
    """Return every violation in a complete configuration."""
    burst = configuration.client_connection.burst
    if burst < 0:
        yield invalid("clientConnection.burst", burst, "must be non-negative")
    if configuration.leader_election.leader_elect:
        yield from _leader_election(configuration.leader_election)
    if configuration.parallelism <= 0:
        text = "should be an integer value greater than zero"
        yield invalid("parallelism", configuration.parallelism, text)
    yield from _profiles(configuration.profiles, gates)
    percentage = configuration.percentage_of_nodes_to_score
    if not 0 <= percentage <= 100:
        yield invalid("percentageOfNodesToScore", percentage, _PERCENTAGE)
    initial = configuration.pod_initial_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if configuration.pod_max_backoff_seconds < initial:
        text = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", configuration.pod_max_backoff_seconds, text)
    yield from _extenders(configuration.extenders)


def _leader_election(election: LeaderElectionConfiguration) -> Errors:
    durations = {
        "leaseDuration": election.lease_duration_ns,
        "renewDeadline": election.renew_deadline_ns,
        "retryPeriod": election.retry_period_ns,
    }
    for name, duration in durations.items():
        if duration <= 0:
            path = f"leaderElection.{name}"
            yield invalid_duration(path, duration, "must be greater than zero")
    if election.lease_duration_ns <= election.renew_deadline_ns:
        # The reference prints the deadline here, not the value of the field it names.
        yield invalid_duration(
            "leaderElection.leaseDuration",
            election.renew_deadline_ns,
            "must be greater than `RenewDeadline`",
        )
    if not election.resource_lock:
        yield required("leaderElection.resourceLock")
    if not election.resource_namespace:
        yield required("leaderElection.resourceNamespace")
    if not election.resource_name:
        yield required("leaderElection.resourceName")
    if election.resource_lock != "leases":
        text = 'resourceLock value must be "leases"'
        yield invalid("leaderElection.resourceLock", election.resource_lock, text)


def _profiles(profiles: tuple[KubeSchedulerProfile, ...], gates: FeatureGates) -> Errors:
    if not profiles:
        yield required("profiles")
        return
    seen: set[str] = set()
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        yield from _profile(path, profile, gates)
        if profile.scheduler_name in seen:
            yield FieldError(f"{path}.schedulerName", "Duplicate value", "{}")
        seen.add(profile.scheduler_name)
    yield from _common_queue_sort(profiles)


def _profile(path: str, profile: KubeSchedulerProfile, gates: FeatureGates) -> Errors:
    if not profile.scheduler_name:
        yield required(f"{path}.schedulerName")
    percentage = profile.percentage_of_nodes_to_score
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(f"{path}.percentageOfNodesToScore", percentage, _PERCENTAGE)
    if profile.tie_break not in ("", RANDOM, BY_NAME):
        yield unsupported(f"{path}.tieBreak", profile.tie_break, (RANDOM, BY_NAME))
    for point, plugin_set in profile.plugins.sets():
        if point in _UNCHECKED_POINTS:
            continue
        for index, ref in enumerate(plugin_set.enabled):
            if ref.name in names.REMOVED_PLUGINS:
                yield _removed_plugin(f"{path}.plugins.{point}.enabled[{index}]", ref.name)
    seen: set[str] = set()
    for index, entry in enumerate(profile.plugin_config):
        entry_path = f"{path}.pluginConfig[{index}]"
        if entry.name in seen:
            yield duplicate(entry_path, entry.name)
        elif entry.name in names.REMOVED_PLUGINS:
            yield _removed_plugin(entry_path, entry.name)
        else:
            yield from args_errors(f"{entry_path}.args", entry.name, entry.args, gates)
        seen.add(entry.name)


def _removed_plugin(path: str, name: str) -> FieldError:
    return invalid(path, name, _REMOVED, plugin_note(name))


def _common_queue_sort(profiles: tuple[KubeSchedulerProfile, ...]) -> Errors:
    """Check that all profiles use one QueueSort plugin, because they share one queue."""
    first = profiles[0]
    common = first.plugins.queue_sort
    if len(common.enabled) > 1:
        path = "profiles[0].plugins.queueSort.Enabled"
        yield invalid(path, len(common.enabled), "only one queue sort plugin can be enabled")
    sorter = common.enabled[0].name if common.enabled else None
    has_args = sorter is not None and any(e.name == sorter for e in first.plugin_config)
    for index, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != common:
            path = f"profiles[{index}].plugins.queueSort"
            text = "must be the same for all profiles"
            yield invalid(path, profile.plugins.queue_sort, text)
        for entry in profile.plugin_config if has_args and sorter else ():
            if entry.name == sorter and entry.args != first.args_of(sorter):
                path = f"profiles[{index}].pluginConfig.args"
                text = "queueSort must be the same for all profiles"
                yield invalid(path, entry.args, text)


def _extenders(extenders: tuple[ExtenderConfig, ...]) -> Errors:
    managed: set[str] = set()
    binders = 0
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            text = "must have a positive weight applied to it"
            yield invalid(f"{path}.weight", extender.weight, text)
        binders += bool(extender.bind_verb)
        for position, resource in enumerate(extender.managed_resources):
            name_path = f"{path}.managedResources[{position}].name"
            yield from _managed_resource(name_path, resource, managed)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid("extenders", found, "only one extender can implement bind")


def _managed_resource(path: str, resource: ExtenderManagedResource, managed: set[str]) -> Errors:
    complaints = label_key_errors(resource.name)
    for complaint in complaints:
        yield invalid(path, resource.name, complaint)
    if not complaints and not is_extended_resource_name(resource.name):
        yield invalid(path, resource.name, "is an invalid extended resource name")
    if resource.name in managed:
        yield invalid(path, resource.name, "duplicate extender managed resource name")
    managed.add(resource.name)
