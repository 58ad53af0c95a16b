"""The configuration that a command line amounts to, with or without a file.

docs/reference/01 §12.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.config.defaults import default_configuration
from kubesched.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.config.flag_overrides import apply_deprecated_flags, apply_leader_election_flags
from kubesched.config.load import load_configuration
from kubesched.config.types import KubeSchedulerConfiguration

__all__ = ["effective_configuration"]


def effective_configuration(
    text: str | bytes | None,
    flags: Mapping[str, str],
    *,
    gates: FeatureGates = DEFAULT_FEATURE_GATES,
    known_args: Mapping[str, type] | None = None,
) -> KubeSchedulerConfiguration:
    """Combine a file's text, or None, with the flags that were set explicitly.

    With a file the deprecated flags are ignored. Without one the result is not validated
    again: what flags break shows when the scheduler runs.
    """
    if text is not None:
        return load_configuration(
            text, gates=gates, known_args=known_args, leader_election_flags=flags
        )
    configuration = apply_deprecated_flags(default_configuration(gates), flags)
    return apply_leader_election_flags(configuration, flags)
