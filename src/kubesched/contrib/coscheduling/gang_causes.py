"""Causes of rejections by Coscheduling."""

from __future__ import annotations

from kubesched.framework import Cause

__all__ = ["GangIncomplete", "GangRejected", "GangTooLarge", "PodGroupMissing"]


class PodGroupMissing(Cause, frozen=True):
    """The PodGroup to which the pod refers does not exist."""

    group: str


class GangIncomplete(Cause, frozen=True):
    """Fewer pods of the group exist than its minMember."""

    group: str
    known: int
    needed: int


class GangTooLarge(Cause, frozen=True):
    """The free resources of the nodes are less than the group needs in total."""

    group: str
    places: int | None = None  # the number of further pods that the nodes have room for
    needed: int | None = None  # the number of further pods that minMember requires
    missing: tuple[tuple[str, int], ...] = ()  # the missing part of minResources, by resource


class GangRejected(Cause, frozen=True):
    """The group was rejected as a whole, and its backoff has not ended."""

    group: str
