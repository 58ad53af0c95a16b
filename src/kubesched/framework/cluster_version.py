"""How far changes to the cluster have come."""

from __future__ import annotations

import msgspec

__all__ = ["ClusterVersion"]


class ClusterVersion(msgspec.Struct, frozen=True):
    """Equal versions: nothing has changed in between that a plugin could see.

    Each part only grows, and says how much has happened to one kind of state.
    """

    # Rows of the node table: nodes, and the pods on them.
    rows: int
    # Nodes themselves, whatever pods come and go.
    nodes: int
    # Which nodes there are, and in which rows.
    membership: int
    # Labels and start times of pods on nodes.
    pods: int
    # Pods that are expected on a node.
    nominations: int
    # Watched objects besides nodes and pods.
    objects: int
