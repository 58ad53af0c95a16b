"""The values of a shadow ledger: verdicts, entries, and the report over them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from kubesched.explain.explanation import VersusPoint

__all__ = [
    "AGREEMENTS",
    "VERDICT_TEXTS",
    "AssumedState",
    "ShadowEntry",
    "ShadowReport",
    "ShadowVerdict",
]


class ShadowVerdict(StrEnum):
    """How the decision of the other scheduler compares with the shadow's decision."""

    SAME = "same"
    TIED = "tied"
    SAMPLED = "sampled"
    ANOTHER = "another"
    ONLY_OTHER = "only-other"
    ONLY_SHADOW = "only-shadow"
    NEITHER = "neither"


# Verdicts that do not mean that the schedulers differ.
AGREEMENTS: Final = frozenset([ShadowVerdict.SAME, ShadowVerdict.TIED, ShadowVerdict.NEITHER])
VERDICT_TEXTS: Final[Mapping[ShadowVerdict, str]] = {
    ShadowVerdict.SAME: "the same node",
    ShadowVerdict.TIED: "a node with the same score",
    ShadowVerdict.NEITHER: "neither found a node",
    ShadowVerdict.SAMPLED: "the best node of a sample of the nodes",
    ShadowVerdict.ANOTHER: "another node",
    ShadowVerdict.ONLY_OTHER: "placed by the other scheduler only",
    ShadowVerdict.ONLY_SHADOW: "placed by the shadow only",
}


class AssumedState(StrEnum):
    """The state of the cluster in which a decision was compared."""

    AS_SEEN = "as-seen"  # all writes before the first write of the decision
    QUEUE_ORDER = "queue-order"  # pods that were in flight at the same time, in queue order
    # the same without the last writes, which the scheduler had not received yet
    EARLIER = "earlier"
    IN_FLIGHT = "in-flight"  # some pods in flight in another order than queue order
    RECORDED = "recorded"  # the scheduler recorded its state itself


class ShadowEntry(msgspec.Struct, frozen=True):
    """One decision of the other scheduler, and the shadow's decision for the same pod."""

    at: str  # RFC 3339
    pod: str  # namespace/name
    profile: str
    verdict: str  # a ShadowVerdict
    state: str = AssumedState.AS_SEEN
    node: str = ""  # chosen by the other scheduler; empty: none
    own_node: str = ""  # chosen by the shadow
    summary: str = ""
    # the plugin that caused the difference: its filter, or the largest difference in points
    plugin: str = ""
    points: tuple[VersusPoint, ...] = ()  # `chosen` is the shadow's node


class ShadowReport(msgspec.Struct, frozen=True):
    """The content of the ledger at one moment."""

    since: str
    until: str
    compared: int = 0
    agreed: float = 0.0  # share of `compared`, 0 to 1
    verdicts: dict[str, int] = {}
    profiles: dict[str, dict[str, int]] = {}  # profile -> verdicts
    states: dict[str, int] = {}
    causes: dict[str, int] = {}  # plugin -> number of differences that it caused
    not_compared: dict[str, int] = {}  # reason -> pods
    differences: tuple[ShadowEntry, ...] = ()  # the last ones, newest first
    entries: tuple[ShadowEntry, ...] = ()  # the last decisions of any verdict, newest first
