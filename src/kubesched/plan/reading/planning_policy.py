"""The options of a plan: which pods and nodes may not be changed, and how much room stays free."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubesched.api.labels import NOTHING, Selector

__all__ = ["PlanningPolicy"]


class PlanningPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a plan."""

    # Pods and nodes with these labels are not changed.
    pinned_pods: Selector = NOTHING
    kept_nodes: Selector = NOTHING
    # Pods of these controllers are not moved, by uid.
    pinned_owners: frozenset[str] = frozenset()
    # Whether pods with an emptyDir or a hostPath may be moved; their data is lost.
    moves_local_storage: bool = False
    # Percent of the allocatable cpu and memory of the planned nodes that must stay free.
    spare_percent: int = 0
    # The loss of any one `node` or `zone` of the plan must leave room for its pods; empty: ignored.
    survive: str = ""
    # Percent of the requests that must have room after a loss. Values above 100 are a reserve for
    # pods that do not fit although the sums suffice.
    survive_percent: int = 100
    # Price per node: by this label, or by the name of the node or of its instance type.
    price_label: str = ""
    prices: Mapping[str, float] = {}
    # Of the pods of one owner without a budget, at most this share is moved at a time.
    owner_percent: int = 25
