"""Version numbers of the scheduler's state of the cluster."""

from __future__ import annotations

import msgspec

__all__ = ["ClusterVersion"]


class ClusterVersion(msgspec.Struct, frozen=True):
    """A version of the cluster state.

    While it is equal, nothing that a plugin can read has changed.

    Each part counts the changes to one kind of state, and only increases.
    """

    # Rows of the node table: nodes, and the pods on them.
    rows: int
    # Node objects, without their pods.
    nodes: int
    # The set of nodes, and their rows.
    membership: int
    # Labels and start times of pods on nodes.
    pods: int
    # Nominations of pods to nodes.
    nominations: int
    # Watched objects other than nodes and pods.
    objects: int
