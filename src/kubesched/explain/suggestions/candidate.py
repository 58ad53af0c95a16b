"""A change that might help: to the pod, to the cluster, or to both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.explain.model import Change, ClusterModel
from kubesched.framework import NodeInfo, NodeView, PodInfo

__all__ = ["CLUSTER", "POD", "PREEMPTION", "Candidate", "Question", "both"]

POD = "pod"
CLUSTER = "cluster"
PREEMPTION = "preemption"


class Question(NamedTuple):
    """For whom and on which nodes a rule is to be satisfied."""

    model: ClusterModel
    pod: Pod
    nodes: NodeView  # all nodes
    positions: NDArray[np.intp]  # in `nodes`: where only this rule is in the way

    @property
    def candidates(self) -> NodeView:
        return self.nodes.at_rows(self.nodes.rows[self.positions])

    @property
    def infos(self) -> list[NodeInfo]:
        """The nodes by name, so that the same ones are always suggested."""
        return sorted(self.candidates, key=lambda node: node.name)

    @property
    def pod_info(self) -> PodInfo:
        return PodInfo(self.pod)


class Candidate(NamedTuple):
    """What to change. `size` orders candidates: less is a smaller change.

    Sizes are comparable across rules: 1 is one rule dropped or one object edited, a fraction is
    part of a request given up, adding a node is 3, and changes that go together add up.
    """

    text: str
    kind: str
    size: float
    pod: Pod
    changes: tuple[Change, ...] = ()
    command: str = ""
    parts: tuple[str, ...] = ()
    node: str = ""  # the node that it is meant for, if it is for one


def both(first: Candidate, second: Candidate, pod: Pod) -> Candidate:
    """Two changes together; `pod` has both changes to the pod."""
    kind = POD if first.kind == second.kind == POD else CLUSTER
    return Candidate(
        f"{first.text}, and {second.text}",
        kind,
        first.size + second.size,
        pod,
        (*first.changes, *second.changes),
        parts=(first.text, second.text),
    )
