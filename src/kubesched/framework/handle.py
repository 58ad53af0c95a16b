"""What a plugin may reach: the cluster as this attempt sees it, listers, the API, time, chance.

`Handle` is a protocol; the runtime provides it. Plugins never import `client/`.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.api.access import ApiAccess
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.node_info import NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.pod_info import PodInfo
from kubesched.framework.rejections import Rejections
from kubesched.framework.status import Status
from kubesched.framework.what_if import NominatedTotals
from kubesched.util.clock import Clock

__all__ = [
    "EventRecorder",
    "Handle",
    "Lister",
    "Moment",
    "Nominating",
    "NominatingMode",
    "Nominator",
    "PluginMetrics",
    "PodInPreBind",
    "Snapshot",
    "WaitingPod",
]

T = TypeVar("T", bound=msgspec.Struct)
T_co = TypeVar("T_co", bound=msgspec.Struct, covariant=True)


class NominatingMode(enum.Enum):
    NOOP = 0
    OVERRIDE = 1


class Nominating(msgspec.Struct, frozen=True):
    """What to do with a pod's nominated node: leave it, or set it (an empty name clears)."""

    mode: NominatingMode
    node_name: str = ""


class Lister(Protocol[T_co]):
    """Objects of one kind as the informer last saw them."""

    def get(self, name: str, namespace: str | None = None) -> T_co | None: ...

    def list(self, namespace: str | None = None) -> Collection[T_co]: ...


class Snapshot(Protocol):
    """The nodes as they were when the attempt began."""

    @property
    def nodes(self) -> NodeView: ...

    @property
    def order(self) -> NDArray[np.intp]:
        """Rows of the nodes in the order in which the reference lists them."""
        ...

    def get(self, name: str) -> NodeInfo | None: ...

    def has_pvc_in_use(self, key: str) -> bool:
        """Whether a scheduled pod uses the claim `namespace/name`."""
        ...


class Nominator(Protocol):
    """Pods that are expected on a node soon."""

    def nominated_pods(self, node_name: str) -> Collection[PodInfo]: ...

    def nominated_nodes(self) -> Collection[str]:
        """Names of the nodes that some pod is nominated to."""
        ...

    def node_of(self, uid: str) -> str | None:
        """The node that the pod with this uid is nominated to, if any."""
        ...

    @property
    def position(self) -> int:
        """How much has happened to nominations so far."""
        ...

    def changes_since(self, position: int) -> Collection[str] | None:
        """Names of nodes whose nominations changed; None: that is no longer known."""
        ...

    def add_nominated_pod(self, pod_info: PodInfo, nominating: Nominating | None) -> None: ...

    def delete_nominated_pod(self, pod: Pod) -> None: ...


class WaitingPod(Protocol):
    """A pod that Permit plugins asked to wait."""

    @property
    def pod(self) -> Pod: ...

    @property
    def pending_plugins(self) -> Collection[str]: ...

    def allow(self, plugin: str) -> None: ...

    def reject(self, plugin: str, message: str) -> bool:
        """False if the outcome was decided before."""
        ...

    def preempt(self, plugin: str, message: str) -> bool:
        """End the wait because the pod has to give way; False if it was decided before."""
        ...


class PodInPreBind(Protocol):
    """A pod that PreBind plugins are working on."""

    @property
    def pod(self) -> Pod: ...

    def cancel(self, reason: str) -> bool:
        """Stop the work; False if it is over."""
        ...


class EventRecorder(Protocol):
    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str) -> None: ...


class Moment(msgspec.Struct, frozen=True):
    """How far changes to the cluster had come, to ask later what they changed since."""

    rows: int
    pods: int
    nominations: int
    other_objects: int


class PluginMetrics(Protocol):
    """Metrics that only a plugin can know the values of."""

    def count_preemption_attempt(self) -> None: ...

    def observe_preemption_victims(self, count: int) -> None: ...

    def observe_background_preemption(self, result: str, duration_ns: int) -> None: ...


class Handle(Protocol):
    """The world of a plugin."""

    @property
    def profile_name(self) -> str: ...

    @property
    def snapshot(self) -> Snapshot: ...

    @property
    def nominator(self) -> Nominator: ...

    @property
    def api(self) -> ApiAccess: ...

    @property
    def recorder(self) -> EventRecorder: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> random.Random: ...

    @property
    def metrics(self) -> PluginMetrics: ...

    def lister(self, kind: type[T]) -> Lister[T]:
        """The lister of a kind; asking for it makes the scheduler watch that kind."""
        ...

    def feature_enabled(self, gate: str) -> bool: ...

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run work beside the scheduling loop; the scheduler owns the task and ends with it.

        An exception costs the work alone: it is logged.
        """
        ...

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Try these waiting pods ("ns/name" -> pod) again at once."""
        ...

    @property
    def moment(self) -> Moment:
        """The cluster as this attempt sees it."""
        ...

    def has_room(self, pod_info: PodInfo, since: Moment) -> bool:
        """Whether the pod, which fitted no node at that moment, fits one right now.

        For work beside the loop; an attempt itself looks at its snapshot.
        """
        ...

    def waiting_pod(self, uid: str) -> WaitingPod | None: ...

    def waiting_pods(self) -> Iterable[WaitingPod]: ...

    def pod_in_pre_bind(self, uid: str) -> PodInPreBind | None: ...

    def filter_with_nominated_pods(
        self, state: CycleState, pod_info: PodInfo, node: NodeInfo
    ) -> Status:
        """Run the filters on one node, with the pods nominated to it counted in."""
        ...

    def nominated_totals(self, pod: Pod) -> NominatedTotals:
        """What other pods ask for that are nominated to nodes and that this one gives way to."""
        ...

    def totals_suffice(self, state: CycleState) -> bool:
        """Whether no filter that runs for this pod sees more of pods than their totals."""
        ...

    def indifference(self, state: CycleState, pod: Pod) -> Callable[[PodInfo], bool] | None:
        """Tells of pods whether, but for their totals, no filter cares; None: nobody can tell."""
        ...

    def likeness(self, state: CycleState) -> Hashable | None:
        """Equal for pods on which every filter passes the same verdict, row by row.

        For as long as nothing happens to a row and its pods. None: a filter may judge otherwise.
        """
        ...

    def filter_by_totals(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        *,
        in_full: bool = False,
        again: bool = False,
    ) -> Rejections:
        """Run the filters on many nodes, up to the first that looks at single pods.

        `nodes` may have totals of their own (`WhatIfView`). With `in_full` all filters run:
        nobody cares about the pods that make the difference. With `again` the nodes passed
        before with other totals, and only filters that look at totals are asked.
        """
        ...

    def add_pod_to_state(
        self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo
    ) -> Status: ...

    def remove_pod_from_state(
        self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo
    ) -> Status: ...
