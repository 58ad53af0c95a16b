"""The options that a scheduler is built with in Python, as a configuration (spec 01 §15).

What the configuration file can say, a caller can say with keyword arguments: profiles and
extenders as values, or in the file's own form as plain dicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from kubesched.config.defaults import default_configuration
from kubesched.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.config.load import configuration_from_builtins
from kubesched.config.types import (
    API_VERSION,
    KIND,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
)
from kubesched.config.validation import validate_configuration

__all__ = ["scheduler_configuration"]

_T = TypeVar("_T")


def scheduler_configuration(
    configuration: KubeSchedulerConfiguration | None = None,
    *,
    profiles: Iterable[KubeSchedulerProfile | Mapping[str, Any]] | None = None,
    extenders: Iterable[Extender | Mapping[str, Any]] | None = None,
    parallelism: int | None = None,
    percentage_of_nodes_to_score: int | None = None,
    pod_initial_backoff_seconds: int | None = None,
    pod_max_backoff_seconds: int | None = None,
    feature_gates: FeatureGates = DEFAULT_FEATURE_GATES,
    known_args: Mapping[str, type] | None = None,
) -> KubeSchedulerConfiguration:
    """Change a configuration, or the default one, by the options that are given.

    Dicts are decoded as strictly as a file; `known_args` has the argument types of plugins that
    are not in-tree.

    Raises:
        ConfigError: an option has a value that a file could not have either.
    """
    configuration = configuration or default_configuration(feature_gates)
    changes: dict[str, Any] = {
        "parallelism": parallelism,
        "percentage_of_nodes_to_score": percentage_of_nodes_to_score,
        "pod_initial_backoff_seconds": pod_initial_backoff_seconds,
        "pod_max_backoff_seconds": pod_max_backoff_seconds,
    }
    for key, values in (("profiles", profiles), ("extenders", extenders)):
        if values is not None:
            changes[key] = _decoded(key, tuple(values), feature_gates, known_args)
    changes = {name: value for name, value in changes.items() if value is not None}
    if not changes:
        return configuration
    changed = replace(configuration, **changes)
    validate_configuration(changed, gates=feature_gates)
    return changed


def _decoded(
    key: str,
    values: tuple[_T | Mapping[str, Any], ...],
    gates: FeatureGates,
    known_args: Mapping[str, type] | None,
) -> tuple[_T, ...]:
    """Decode those values that are dicts, together, so that errors name their place."""
    dicts = [value for value in values if isinstance(value, Mapping)]
    if not dicts:
        return values  # type: ignore[return-value]  # none of them is a mapping
    document = {"apiVersion": API_VERSION, "kind": KIND, key: dicts}
    read = configuration_from_builtins(document, gates=gates, known_args=known_args)
    decoded = iter(getattr(read, key))
    return tuple(next(decoded) if isinstance(value, Mapping) else value for value in values)
