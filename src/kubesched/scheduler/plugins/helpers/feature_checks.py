"""Feature gates for plugins, which may be built without a handle."""

from __future__ import annotations

from kubesched.framework import Handle
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES

__all__ = ["feature_enabled"]


def feature_enabled(handle: Handle | None, gate: str) -> bool:
    """Whether a feature gate is on; without a handle, its default applies."""
    if handle is None:
        return DEFAULT_FEATURE_GATES.enabled(gate)
    return handle.feature_enabled(gate)
