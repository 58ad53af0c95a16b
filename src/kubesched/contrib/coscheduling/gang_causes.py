"""Why Coscheduling rejects pods, as values."""

from __future__ import annotations

from kubesched.framework import Cause

__all__ = ["GangIncomplete", "GangRejected", "GangTooLarge", "PodGroupMissing"]


class PodGroupMissing(Cause, frozen=True):
    """The PodGroup that the pod names does not exist."""

    group: str


class GangIncomplete(Cause, frozen=True):
    """Fewer pods of the group exist than its minMember."""

    group: str
    known: int
    needed: int


class GangTooLarge(Cause, frozen=True):
    """The nodes have less room than the group needs as a whole."""

    group: str
    places: int | None = None  # for how many more pods there is room
    needed: int | None = None  # how many more pods minMember demands
    missing: tuple[tuple[str, int], ...] = ()  # of minResources, by resource


class GangRejected(Cause, frozen=True):
    """The group was rejected as a whole, and its backoff has not ended."""

    group: str
