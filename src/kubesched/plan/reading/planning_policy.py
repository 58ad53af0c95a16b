"""What a plan may do: which pods and nodes stay, and which room must stay free."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubesched.api.labels import NOTHING, Selector

__all__ = ["PlanningPolicy"]


class PlanningPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a plan."""

    # Pods and nodes with these labels stay as they are.
    pinned_pods: Selector = NOTHING
    kept_nodes: Selector = NOTHING
    # Pods of these controllers stay, by uid.
    pinned_owners: frozenset[str] = frozenset()
    # Whether pods with an emptyDir or a hostPath may be moved; their data is lost.
    moves_local_storage: bool = False
    # Percent of the allocatable cpu and memory of the planned nodes that must stay free.
    spare_percent: int = 0
    # The loss of any `node` or `zone` of the plan must leave room for its pods; empty: no loss.
    survive: str = ""
    # Percent of the requests that must have room after a loss. More than 100 is a reserve for pods
    # that do not fit although the sums do.
    survive_percent: int = 100
    # Price per node: by this label, or by the name of the node or of its instance type.
    price_label: str = ""
    prices: Mapping[str, float] = {}
    # Of the pods of one owner without a budget, at most this share is moved at a time.
    owner_percent: int = 25
