"""A number of the scheduler that a flag can set and the file cannot (spec 01 §15)."""

from __future__ import annotations

from typing import Final

from kubesched.config.base import MINUTE

__all__ = ["POD_MAX_IN_UNSCHEDULABLE_PODS_NS"]

POD_MAX_IN_UNSCHEDULABLE_PODS_NS: Final = 5 * MINUTE
