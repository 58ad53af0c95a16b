"""What describing a rejection may look at, and what comes of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.explain.objects import Objects
from kubesched.framework import NodeInfo, NodeView, PodInfo

__all__ = ["Detail", "DetailContext", "listed", "nearest", "plural", "pod_name"]

_SHOWN = 3


class Detail(NamedTuple):
    """More about one rule's verdict on some nodes than its reason says."""

    asked: str = ""
    available: str = ""  # the most there is on any of the nodes, and where
    detail: str = ""  # with names: which taint, which port held by whom
    says: str = ""  # in plain words, what is wrong, for whoever knows nothing yet
    brief: str = ""  # the same in a few words, to stand behind a number of nodes
    narrows: str = ""  # of a rule that chooses nodes: by what, to stand behind "nodes that"


class DetailContext(NamedTuple):
    """The pod, and the nodes that one status was given to."""

    objects: Objects
    pod_info: PodInfo
    nodes: NodeView  # all of them
    positions: NDArray[np.intp]  # in `nodes`, of those that were rejected

    @property
    def pod(self) -> Pod:
        return self.pod_info.pod

    @property
    def rejected(self) -> NodeView:
        return self.nodes.at_rows(self.nodes.rows[self.positions])

    @property
    def example(self) -> NodeInfo:
        """The first of the rejected nodes by name, so that the same one is always shown."""
        return min(self.rejected, key=lambda node: node.name)

    @property
    def is_about_all(self) -> bool:
        return len(self.positions) == len(self.nodes)


def pod_name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def listed(names: Iterable[str], most: int = _SHOWN) -> str:
    """Some of the names, and how many more there are."""
    known = list(names)
    shown = ", ".join(known[:most])
    return f"{shown} and {len(known) - most} more" if len(known) > most else shown


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def nearest(wanted: str, known: Sequence[str]) -> str:
    """The name that was probably meant; empty if none comes near."""
    folded = {each.lower(): each for each in known}
    if wanted.lower() in folded:
        return folded[wanted.lower()]
    found = difflib.get_close_matches(wanted, known, n=1, cutoff=0.6)
    return found[0] if found else ""
