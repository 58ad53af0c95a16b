"""Feature gates as a plugin sees them."""

from __future__ import annotations

from kubesched.framework import Handle
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES

__all__ = ["feature_enabled"]


def feature_enabled(handle: Handle | None, gate: str) -> bool:
    """Whether a feature is on; without a handle the defaults hold."""
    if handle is None:
        return DEFAULT_FEATURE_GATES.enabled(gate)
    return handle.feature_enabled(gate)
