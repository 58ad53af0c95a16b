"""What PostFilter answers, and what becomes of a pod's nomination."""

from __future__ import annotations

import enum

import msgspec

from kubesched.framework.status import Status

__all__ = ["Nominating", "NominatingMode", "PostFilterResult", "nominated_node"]


class NominatingMode(enum.Enum):
    NOOP = 0
    OVERRIDE = 1


class Nominating(msgspec.Struct, frozen=True):
    """What to do with a pod's nominated node: leave it, or set it (an empty name clears)."""

    mode: NominatingMode
    node_name: str = ""


def nominated_node(nominating: Nominating | None) -> str | None:
    """The node to nominate the pod to, empty to clear; None: what there is stays."""
    if nominating is None or nominating.mode is not NominatingMode.OVERRIDE:
        return None
    return nominating.node_name


class PostFilterResult(msgspec.Struct, frozen=True):
    """A PostFilter answer; without `nominating` the pod's nomination stays as it is."""

    status: Status
    nominating: Nominating | None = None
