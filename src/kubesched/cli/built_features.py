"""Which feature gates kubesched can be run with."""

from __future__ import annotations

from kubesched.config.feature_gate_table import ALWAYS_ON, NOT_BUILT
from kubesched.config.feature_gates import FeatureGates
from kubesched.scheduler.options import GROUPS_WITH_EXTENDERS
from kubesched.util.errors import ConfigError

__all__ = ["check_gates"]


def check_gates(gates: FeatureGates, *, has_extenders: bool) -> None:
    """Refuse what is asked for and does not exist here, instead of passing over it.

    Raises:
        ConfigError: the first gate that cannot be set like this.
    """
    asked_for = sorted(name for name in NOT_BUILT if gates.enabled(name))
    if asked_for:
        raise ConfigError(f"feature gate {asked_for[0]} turns on what kubesched does not have")
    always_on = sorted(name for name in ALWAYS_ON if not gates.enabled(name))
    if always_on:
        raise ConfigError(f"feature gate {always_on[0]} cannot be turned off in kubesched")
    if has_extenders and gates.enabled("GenericWorkload"):
        raise ConfigError(GROUPS_WITH_EXTENDERS)
