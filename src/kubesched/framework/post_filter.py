"""The result of PostFilter, and changes of a pod's nomination."""

from __future__ import annotations

import enum

import msgspec

from kubesched.framework.status import Status

__all__ = ["Nominating", "NominatingMode", "PostFilterResult", "nominated_node"]


class NominatingMode(enum.Enum):
    NOOP = 0
    OVERRIDE = 1


class Nominating(msgspec.Struct, frozen=True):
    """Whether a pod's nominated node stays or is set (an empty name clears it)."""

    mode: NominatingMode
    node_name: str = ""


def nominated_node(nominating: Nominating | None) -> str | None:
    """Return the node to nominate the pod to, empty to clear; None: the nomination stays."""
    if nominating is None or nominating.mode is not NominatingMode.OVERRIDE:
        return None
    return nominating.node_name


class PostFilterResult(msgspec.Struct, frozen=True):
    """A PostFilter result; without `nominating` the pod's nomination stays."""

    status: Status
    nominating: Nominating | None = None
