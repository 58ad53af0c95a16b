"""The validated configuration that a scheduler process is built from.

    options --feature_gates_of--> gates --validate_options--> process_config --> the scheduler

Nothing here opens a port, writes a file or contacts a server, so an error has no side effects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.config import (
    ClientConnectionConfiguration,
    ExtenderConfig,
    FeatureGates,
    KubeSchedulerConfiguration,
    LeaderElectionConfiguration,
    complete_configuration,
    load_configuration,
    parse_feature_gates,
)
from kubesched.scheduler.config.file_problems import find_problems, with_places
from kubesched.scheduler.config.flag_overrides import ignored_flags
from kubesched.scheduler.config.plugin_lists import Implemented
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.config.versions import EffectiveVersion, effective_version
from kubesched.scheduler.server.options.cluster_access import ClusterAccess, find_cluster
from kubesched.scheduler.server.options.command_line import Options
from kubesched.scheduler.server.options.option_validation import ReadFile, open_error
from kubesched.scheduler.server.options.serving_checks import check_serving

__all__ = [
    "ProcessConfig",
    "check_leader_election",
    "feature_gates_of",
    "process_config",
]

log = get_logger(__name__)

_LOCK: Final = "leases"
_REMOVED_LOCKS: Final = frozenset(
    {"endpoints", "configmaps", "endpointsleases", "configmapsleases"}
)


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a scheduler process is built from."""

    configuration: KubeSchedulerConfiguration  # complete
    options: Options
    gates: FeatureGates
    cluster: ClusterAccess
    sha256: str = ""  # of the configuration file; empty if there is none


def feature_gates_of(options: Options) -> tuple[EffectiveVersion, FeatureGates]:
    """Apply the emulated version, then the gates that were set, in this order."""
    version = effective_version(options.emulated_version, options.min_compatibility_version)
    return version, parse_feature_gates(options.feature_gates, version=version)


def process_config(
    options: Options,
    gates: FeatureGates,
    *,
    read_file: ReadFile,
    environment: Mapping[str, str],
    known_args: Mapping[str, type] | None = None,
    implemented: Implemented = IN_TREE_EXTENSION_POINTS,
    check_extenders: Callable[[Sequence[ExtenderConfig]], None] = lambda _: None,
) -> ProcessConfig:
    """Load the configuration and validate all inputs, in the reference's order.

    `known_args` has the argument types of plugins that are not in-tree, `implemented` the
    extension points of all plugins. `check_extenders` raises ConfigError if a certificate or key of
    an extender cannot be used.

    Raises:
        ConfigError: the first step that fails.
    """
    text, flags = _config_text(options.config_file, read_file), options.configuration_flags
    try:
        configuration = load_configuration(text, flags=flags, gates=gates, known_args=known_args)
    except ConfigError as exc:
        raise _with_places(exc, options, text, gates, known_args, implemented) from None
    if options.config_file:
        _check_flags(configuration, options, environment)
    connection = configuration.client_connection
    cluster = find_cluster(connection, options.master, read_file, environment)
    check_serving(options.secure_serving, options.authorization, read_file)
    _check_rate(connection)
    if configuration.leader_election.leader_elect:
        _check_lock(configuration.leader_election.resource_lock)
    check_extenders(configuration.extenders)
    try:
        configuration = complete_configuration(configuration, implemented, gates=gates)
    except ConfigError as exc:
        raise _with_places(exc, options, text, gates, known_args, implemented) from None
    return ProcessConfig(
        configuration=configuration,
        options=options,
        gates=gates,
        cluster=cluster,
        sha256="" if text is None else hashlib.sha256(text).hexdigest(),
    )


def _check_flags(
    configuration: KubeSchedulerConfiguration, options: Options, environment: Mapping[str, str]
) -> None:
    """Log the flags that have no effect because there is a configuration file.

    The reference never reads $KUBECONFIG. With --kubeconfig it must not name another cluster.
    """
    ignored = ignored_flags(configuration, options.configuration_flags)
    if not ignored:
        return
    flags = ", ".join(f"--{flag}" for flag in ignored)
    fields = ", ".join(ignored.values())
    log.warning("Flags have no effect together with --config", flags=flags, set_instead=fields)
    if "kubeconfig" not in ignored or configuration.client_connection.kubeconfig:
        return
    if environment.get("KUBECONFIG", "") not in ("", options.configuration_flags["kubeconfig"]):
        raise ConfigError(
            "--kubeconfig has no effect together with --config, and $KUBECONFIG names another "
            f"file: set clientConnection.kubeconfig in {options.config_file}"
        )


def check_leader_election(config: ProcessConfig) -> None:
    """Refuse settings with which no replica can be elected. The reference refuses them later."""
    election = config.configuration.leader_election
    if election.leader_elect:
        _check_timings(election)


def _check_timings(election: LeaderElectionConfiguration) -> None:
    """Refuse timings with which no leader could renew its lease."""
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


def _with_places(
    error: ConfigError,
    options: Options,
    text: bytes | None,
    gates: FeatureGates,
    known_args: Mapping[str, type] | None,
    implemented: Implemented,
) -> ConfigError:
    """Add all errors of the file, with their lines, to an error of the reference."""
    if text is None:
        return error
    problems = find_problems(
        text,
        flags=options.configuration_flags,
        gates=gates,
        known_args=known_args,
        implemented=implemented,
    )
    return with_places(error, options.config_file, problems)


def _config_text(path: str, read_file: ReadFile) -> bytes | None:
    if not path:
        return None
    try:
        return read_file(path)
    except OSError as exc:
        raise ConfigError(open_error(path, exc)) from exc


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
