"""From options to the configuration of a process that is ready to be built.

    docs/reference/01 §12, §13. options --feature_gates_of--> gates --validate_options-->
    build_config --> Config --complete--> CompletedConfig --> the scheduler

Nothing here opens a port, writes a file or talks to a server: a mistake leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kubesched.config import (
    ClientConnectionConfiguration,
    FeatureGates,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    effective_configuration,
    parse_feature_gates,
)
from kubesched.config.versions import EffectiveVersion, effective_version
from kubesched.server.options.cluster_access import ClusterAccess, find_cluster
from kubesched.server.options.command_line import Options
from kubesched.server.options.option_validation import ReadFile, open_error
from kubesched.server.options.serving_checks import check_serving
from kubesched.util.errors import ConfigError

__all__ = [
    "CompletedConfig",
    "Config",
    "build_config",
    "check_leader_elector",
    "complete",
    "feature_gates_of",
]

_LOCK: Final = "leases"
_REMOVED_LOCKS: Final = frozenset(
    {"endpoints", "configmaps", "endpointsleases", "configmapsleases"}
)


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a scheduler process is built from."""

    configuration: KubeSchedulerConfiguration
    options: Options
    gates: FeatureGates
    cluster: ClusterAccess
    pod_max_in_unschedulable_pods_ns: int


class CompletedConfig(Config, frozen=True, kw_only=True):
    """A config that went through every step; there is nothing else that completing changes."""


def feature_gates_of(options: Options) -> tuple[EffectiveVersion, FeatureGates]:
    """Apply the emulated version, then the gates that were set, in this order."""
    version = effective_version(options.emulated_version, options.min_compatibility_version)
    return version, parse_feature_gates(options.feature_gates, version=version)


def build_config(
    options: Options,
    gates: FeatureGates,
    *,
    read_file: ReadFile,
    environment: Mapping[str, str],
    known_args: Mapping[str, type] | None = None,
) -> Config:
    """Load the configuration and check, in the reference's order, all that it will need.

    Raises:
        ConfigError: the first step that fails.
    """
    configuration = _component_configuration(options, gates, read_file, known_args)
    connection = configuration.client_connection
    cluster = find_cluster(connection, options.master, read_file, environment)
    check_serving(options.secure_serving, options.authorization, read_file)
    _check_rate(connection)
    if configuration.leader_election.leader_elect:
        _check_lock(configuration.leader_election.resource_lock)
    return Config(
        configuration=configuration,
        options=options,
        gates=gates,
        cluster=cluster,
        pod_max_in_unschedulable_pods_ns=options.pod_max_in_unschedulable_pods_ns,
    )


def complete(config: Config) -> CompletedConfig:
    """Declare a config whole."""
    return CompletedConfig(**msgspec.structs.asdict(config))


def check_leader_elector(election: LeaderElectionConfiguration) -> None:
    """Refuse timings by which nobody could stay leader; the reference does so when it runs."""
    if not election.leader_elect:
        return
    lease_ns, renew_ns = election.lease_duration_ns, election.renew_deadline_ns
    problem = ""
    if lease_ns <= renew_ns:
        problem = "leaseDuration must be greater than renewDeadline"
    elif 5 * renew_ns <= 6 * election.retry_period_ns:  # a factor of 1.2, in integers
        problem = "renewDeadline must be greater than retryPeriod*JitterFactor"
    elif lease_ns < 1:
        problem = "leaseDuration must be greater than zero"
    elif renew_ns < 1:
        problem = "renewDeadline must be greater than zero"
    elif election.retry_period_ns < 1:
        problem = "retryPeriod must be greater than zero"
    if problem:
        raise ConfigError(f"couldn't create leader elector: {problem}")


def _component_configuration(
    options: Options,
    gates: FeatureGates,
    read_file: ReadFile,
    known_args: Mapping[str, type] | None,
) -> KubeSchedulerConfiguration:
    text = None
    if options.config_file:
        try:
            text = read_file(options.config_file)
        except OSError as exc:
            raise ConfigError(open_error(options.config_file, exc)) from exc
    return effective_configuration(
        text, options.configuration_flags, gates=gates, known_args=known_args
    )


def _check_rate(connection: ClientConnectionConfiguration) -> None:
    if connection.qps > 0 and connection.burst <= 0:
        raise ConfigError(
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set "
            "to greater than 0"
        )


def _check_lock(lock: str) -> None:
    if lock in _REMOVED_LOCKS:
        raise ConfigError(
            f"couldn't create resource lock: {lock} lock is removed, migrate to {_LOCK}"
        )
    if lock != _LOCK:
        raise ConfigError(f"couldn't create resource lock: Invalid lock-type {lock}")
