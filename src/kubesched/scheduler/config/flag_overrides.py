"""Overrides of a configuration by command line flags (docs/reference/01 §12).

Flags are passed by name without dashes, with the text of the user. Other flags are ignored, so the
caller may pass all flags that were set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from kubesched.errors import ConfigError
from kubesched.foundation.util.flag_values import parse_bool, parse_float32, parse_int
from kubesched.foundation.util.go_format import parse_duration, quote
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = [
    "LEADER_ELECTION_FLAGS",
    "apply_deprecated_flags",
    "apply_leader_election_flags",
    "ignored_flags",
]


_Parser = Callable[[str], Any]

LEADER_ELECTION_FLAGS: Final[Mapping[str, tuple[str, _Parser]]] = {
    "leader-elect": ("leader_elect", parse_bool),
    "leader-elect-lease-duration": ("lease_duration_ns", parse_duration),
    "leader-elect-renew-deadline": ("renew_deadline_ns", parse_duration),
    "leader-elect-retry-period": ("retry_period_ns", parse_duration),
    "leader-elect-resource-lock": ("resource_lock", str),
    "leader-elect-resource-name": ("resource_name", str),
    "leader-elect-resource-namespace": ("resource_namespace", str),
}
_CLIENT_FLAGS: Final[Mapping[str, tuple[str, _Parser]]] = {
    "kubeconfig": ("kubeconfig", str),
    "kube-api-content-type": ("content_type", str),
    "kube-api-qps": ("qps", parse_float32),
    "kube-api-burst": ("burst", lambda text: parse_int(text, 32)),
}
_DEBUG_FLAGS: Final[Mapping[str, tuple[str, _Parser]]] = {
    "profiling": ("enable_profiling", parse_bool),
    "contention-profiling": ("enable_contention_profiling", parse_bool),
}
# The fields of a configuration file that take the place of the deprecated flags.
_FIELDS_OF_FLAGS: Final[Mapping[str, str]] = {
    "kubeconfig": "clientConnection.kubeconfig",
    "kube-api-content-type": "clientConnection.contentType",
    "kube-api-qps": "clientConnection.qps",
    "kube-api-burst": "clientConnection.burst",
    "profiling": "enableProfiling",
    "contention-profiling": "enableContentionProfiling",
}


def apply_leader_election_flags(
    configuration: KubeSchedulerConfiguration, flags: Mapping[str, str]
) -> KubeSchedulerConfiguration:
    """Override leader election; this holds with and without a configuration file."""
    changes = _changes(LEADER_ELECTION_FLAGS, flags)
    if not changes:
        return configuration
    return replace(configuration, leader_election=replace(configuration.leader_election, **changes))


def apply_deprecated_flags(
    configuration: KubeSchedulerConfiguration, flags: Mapping[str, str]
) -> KubeSchedulerConfiguration:
    """Override what the deprecated flags set; only for use without a configuration file."""
    client_connection = replace(configuration.client_connection, **_changes(_CLIENT_FLAGS, flags))
    return replace(
        configuration, client_connection=client_connection, **_changes(_DEBUG_FLAGS, flags)
    )


def ignored_flags(
    configuration: KubeSchedulerConfiguration, flags: Mapping[str, str]
) -> dict[str, str]:
    """Return the deprecated flags that differ from a file's configuration, each with its field.

    The reference ignores all deprecated flags if there is a file.
    """
    return {
        flag: field
        for flag, field in _FIELDS_OF_FLAGS.items()
        if flag in flags
        and apply_deprecated_flags(configuration, {flag: flags[flag]}) != configuration
    }


def _changes(known: Mapping[str, tuple[str, _Parser]], flags: Mapping[str, str]) -> dict[str, Any]:
    changes = {}
    for flag, (attribute, parse) in known.items():
        if flag not in flags:
            continue
        try:
            changes[attribute] = parse(flags[flag])
        except ValueError as exc:
            raise ConfigError(
                f'invalid argument {quote(flags[flag])} for "--{flag}" flag: {exc}'
            ) from exc
    return changes
