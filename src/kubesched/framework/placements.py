"""Placements of pod groups in the plugin contract (docs/reference/09 §8).

With the gate TopologyAwareWorkloadScheduling a group is tried on one set of nodes after another,
such as one rack after another. A PlacementGenerate plugin returns the sets, and PlacementScore
plugins rank those that have room for the group.
"""

from __future__ import annotations

import msgspec

from kubesched.api import Pod
from kubesched.framework.node_view import NodeView

__all__ = ["PodGroupAssignments", "PodGroupInfo", "PodGroupPlacement"]


class PodGroupInfo(msgspec.Struct, frozen=True, eq=False):
    """The group that is being scheduled, and its pending pods in the order of their attempts."""

    namespace: str
    name: str
    pods: tuple[Pod, ...]


class PodGroupPlacement(msgspec.Struct, frozen=True, eq=False):
    """A set of nodes that all pods of the group are restricted to."""

    name: str
    nodes: NodeView


class PodGroupAssignments(msgspec.Struct, frozen=True, eq=False):
    """A placement, and the pods of the group that found a node there.

    Pods for which preemption makes room are included. `node_names` has the node of each pod. It is
    empty for plugins with `placement_score_reads_nodes = False`.
    """

    placement: PodGroupPlacement
    pods: tuple[Pod, ...]
    node_names: tuple[str, ...] = ()
