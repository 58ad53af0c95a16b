"""The optional explaining part of a plugin: details of its rejections, and remedies.

A plugin returns its part from `Plugin.explaining`. `kubesched explain`, the page and the notes of
`kubesched run --explain-events` use it. The scheduling path never calls it, so a plugin imports
the module with its explaining part inside that method.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.framework.causes import Cause
from kubesched.framework.node_info import NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.pod_info import PodInfo

__all__ = [
    "ClusterChange",
    "Detail",
    "Explaining",
    "ObjectReader",
    "RejectedNodes",
    "Remedy",
    "Removal",
    "RuleKind",
]

T = TypeVar("T", bound=msgspec.Struct)


class ObjectReader(Protocol):
    """Read access to the objects of the cluster that is explained."""

    def get(self, kind: type[T], name: str, namespace: str = "") -> T | None:
        """The object, or None if there is no such object."""
        ...

    def list(self, kind: type[T], namespace: str | None = None) -> Collection[T]:
        """All objects of a kind, or those of one namespace."""
        ...


class RuleKind(enum.Enum):
    """What a filter's rejections mean for the nodes; the headline of an explanation uses it.

    The headline is about the nodes that the pod could use. It leaves out the nodes that the pod
    itself excludes first, then those that other pods exclude, then those that are closed.
    """

    SELECTION = enum.auto()  # the pod selects nodes by names, labels or places
    NEIGHBOURS = enum.auto()  # pods on this node or near it exclude it
    CLOSED = enum.auto()  # the node accepts no such pods
    CAPACITY = enum.auto()  # the node lacks something; this is also the kind of all other rules


class Removal(NamedTuple):
    """A change to the cluster: the object is deleted."""

    kind: type[Any]
    name: str
    namespace: str = ""


# A change to the cluster: an object to create or replace, or an object to delete.
ClusterChange = ApiObject | Removal


class Detail(NamedTuple):
    """What a plugin adds to the reason of a rejection. Empty texts are left out or defaulted."""

    # What the pod requests, such as `2` CPUs or `TCP 8080`.
    asked: str = ""
    # The most that is available on any of the nodes, and on which one.
    available: str = ""
    # Names: which taint, or which pods use the port.
    detail: str = ""
    # A complete sentence without context; by default the reason.
    sentence: str = ""
    # A shorter form, to print behind a number of nodes; by default the reason.
    brief: str = ""
    # For rules of the kind SELECTION: what the remaining nodes match, such as `nodeSelector
    # disk=ssd`. It is printed behind "nodes match"; texts that begin with "can " or "have " are
    # printed behind "nodes".
    selects: str = ""
    # For a pod that PreEnqueue holds back: what to do.
    advice: str = ""
    # The cause with the amounts that only an explanation computes; by default the status's own.
    cause: Cause | None = None


class Remedy(NamedTuple):
    """A change that might make the pod fit.

    It is shown only if the scheduler's own search places the pod on a copy of the cluster with
    the change.
    """

    text: str
    # Sort key of remedies, smallest first. 1 is one dropped rule or one edited object; a fraction
    # is a partly reduced request; a new node is 3; the sizes of combined changes add up.
    size: float
    # The pod, changed or not.
    pod: Pod
    # Changes to other objects.
    changes: tuple[ClusterChange, ...] = ()
    # A shell command that makes the change, if one line suffices.
    command: str = ""
    # The single changes, if the remedy consists of several.
    parts: tuple[str, ...] = ()
    # The node that the remedy is for, if it concerns one node.
    node: str = ""
    # The user's part of the change, if controllers make the rest of `changes`: a provisioner
    # creates volumes, a preemption evicts pods. None: all of `changes`. Empty, with an unchanged
    # pod: no request makes the change, for example if a node has to be repaired.
    edits: tuple[ClusterChange, ...] | None = None


def _never(_: Remedy) -> bool:
    return False


class RejectedNodes(NamedTuple):
    """The pod that is explained, and the nodes that one status rejects."""

    objects: ObjectReader
    pod_info: PodInfo
    nodes: NodeView  # all nodes
    positions: NDArray[np.intp]  # of the rejected nodes in `nodes`; none for PreEnqueue
    # Runs the scheduler's search with a remedy's changes on a copy of the cluster. All remedies are
    # verified in this way later, so call it only to choose between several of them. Without a copy
    # of the cluster the result is False.
    fits_after: Callable[[Remedy], bool] = _never

    @property
    def pod(self) -> Pod:
        return self.pod_info.pod

    @property
    def view(self) -> NodeView:
        """The rejected nodes."""
        return self.nodes.at_rows(self.nodes.rows[self.positions])

    @property
    def by_name(self) -> list[NodeInfo]:
        """The rejected nodes by name: texts and remedies that repeat name the same nodes."""
        return sorted(self.view, key=lambda node: node.name)

    @property
    def example(self) -> NodeInfo:
        """The first of the rejected nodes by name."""
        return min(self.view, key=lambda node: node.name)

    @property
    def are_all(self) -> bool:
        """Whether all nodes are rejected."""
        return len(self.positions) == len(self.nodes)


class Explaining:
    """Explains a plugin's rejections. Override what applies; the defaults add nothing.

    The methods are called for one cluster that does not change between the calls. An exception does
    not end the explanation: it is shown in place of the detail.
    """

    # What the plugin's rejections mean for the nodes.
    kind: ClassVar[RuleKind] = RuleKind.CAPACITY
    # A problem that several plugins check, such as "volume claims". If one of them rejects the pod
    # as a whole, the rejections of the others are not shown.
    topic: ClassVar[str] = ""

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        """Describe the rejection of these nodes for one cause.

        The cause is None if the plugin's status has none.
        """
        return Detail()

    def remedies(self, rejected: RejectedNodes) -> Iterable[Remedy]:
        """Propose changes after which the plugin would accept some of these nodes.

        It is called with the nodes that this plugin rejects and no other, and, for remedies that
        consist of two changes, with the nodes that it rejects together with one other plugin.
        """
        return ()

    def repeats(self, pod: Pod, node: Node, other: Cause) -> bool:
        """Whether this rejection of a node repeats another plugin's cause for the same node."""
        return False
