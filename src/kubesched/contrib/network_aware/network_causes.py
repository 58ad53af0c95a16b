"""Why NetworkOverhead rejects nodes, as values."""

from __future__ import annotations

from kubesched.framework import Cause

__all__ = ["DependenciesTooFar"]


class DependenciesTooFar(Cause, frozen=True):
    """More of the pods that the pod depends on are too far from the node than near to it."""
