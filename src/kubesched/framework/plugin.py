"""The plugin contract: one base class, one method per extension point.

A plugin extends a point by overriding its method; `extension_points` returns these points. Filter
and Score have a form for one node, which is the definition, and a form for many nodes over
columns, which is an optional faster form of the same rule.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Awaitable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Kind, Pod
from kubesched.framework.cluster_events import ClusterEventWithHint
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.explaining import Explaining
from kubesched.framework.fast_paths import FastPaths
from kubesched.framework.handle import Handle
from kubesched.framework.node_info import NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.panels import Panel
from kubesched.framework.placements import (
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPlacement,
)
from kubesched.framework.pod_info import PodInfo, QueuedPodInfo
from kubesched.framework.post_filter import PostFilterResult
from kubesched.framework.preemption import PreemptionHooks
from kubesched.framework.status import SKIP, SUCCESS, Status

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "ExtensionPoint",
    "OnlyNodes",
    "Plugin",
    "Wait",
    "extension_points",
    "overrides",
]

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0


class ExtensionPoint(enum.StrEnum):
    """The points of a scheduling attempt, named as in the configuration file."""

    QUEUE_SORT = "queueSort"
    PRE_ENQUEUE = "preEnqueue"
    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    PRE_SCORE = "preScore"
    SCORE = "score"
    RESERVE = "reserve"
    PERMIT = "permit"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"

    def __init__(self, value: str) -> None:
        # The name in metrics and errors, such as `PreFilter`.
        self.label = value[0].upper() + value[1:]


class OnlyNodes(msgspec.Struct, frozen=True):
    """A PreFilter result: continue, but only these nodes can fit (none if it is empty)."""

    names: frozenset[str]


class Wait(msgspec.Struct, frozen=True):
    """A Permit result: the pod waits until it is allowed, at most this long."""

    timeout_ns: int
    reasons: tuple[str, ...] = ()


class Plugin(FastPaths, PreemptionHooks):
    """Base class of all plugins. Stores configuration only: state of an attempt is in CycleState.

    The methods here are those of the extension points. `FastPaths` has methods that only make a
    plugin faster, and `PreemptionHooks` those that are called only when pods are preempted.
    """

    name: ClassVar[str] = ""
    # The type that `pluginConfig[].args` is decoded into; None: the plugin takes no arguments.
    args_type: ClassVar[type[msgspec.Struct] | None] = None
    # The custom resources that the plugin reads. `kubesched explain` reads them from a cluster too.
    custom_kinds: ClassVar[tuple[Kind, ...]] = ()
    # PreBind methods of adjacent plugins for which this is true run concurrently.
    pre_bind_in_parallel: ClassVar[bool] = False

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        """Store both; without arguments they are the defaults of `args_type`."""
        self.args = _default_args(type(self)) if args is None else args
        self._handle = handle

    @property
    def handle(self) -> Handle:
        """The services of the plugin; only tests may build a plugin without them."""
        if self._handle is None:
            raise RuntimeError(f"plugin {self.name} was built without a handle")
        return self._handle

    def close(self) -> Awaitable[None] | None:
        """Release the plugin's resources; called once when the scheduler ends. May be async."""
        return None

    async def work_as_leader(self) -> None:
        """Run a task outside the scheduling loop, such as writing the status of custom resources.

        It runs as a task from the moment when the scheduler begins to place pods, which in
        `kubesched run` is when it holds the lease, and is cancelled when the scheduler ends or a
        reload of the configuration replaces the profile. Each profile that enables the plugin has a
        plugin object and a task of its own.
        """

    def explaining(self) -> Explaining | None:
        """Return the part that explains rejections and proposes remedies; None: there is none.

        Only commands that explain call this, never the scheduling path. Import the part's module
        inside the method, so that a scheduler does not load it.
        """
        return None

    def panels(self) -> Sequence[Panel]:
        """Return panels for the page with the plugin's own state, such as quotas or groups.

        Only requests of the page call this, possibly several times a second, so it must only read
        existing state.
        """
        return ()

    def sort_key(self, queued: QueuedPodInfo) -> Any:
        """QueueSort: the smallest key is scheduled first."""
        raise NotImplementedError

    def pre_enqueue(self, pod: Pod) -> Status:
        """PreEnqueue: anything but success keeps the pod out of the active queue."""
        return SUCCESS

    def events_to_register(self) -> Sequence[ClusterEventWithHint] | None:
        """Events that could make a rejected pod schedulable; None: all of them."""
        return None

    def pre_filter(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView
    ) -> Status | OnlyNodes:
        """PreFilter: compute state for Filter; SKIP if Filter does not apply to this pod."""
        return SUCCESS

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Filter, one node: the definition of the rule."""
        raise NotImplementedError

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """PostFilter: called if no node fits, to make room by preemption."""
        raise NotImplementedError

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        """PreScore: compute state for Score; SKIP if Score does not apply to this pod."""
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score, one node: higher is better. An exception ends the attempt in an error."""
        raise NotImplementedError

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """NormalizeScore: scale the scores of all nodes to 0..100."""
        return scores

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Reserve: reserve resources for the pod on the node."""
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo Reserve. Also called if Reserve did not run."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        """Permit: admit the pod, reject it, or make it wait."""
        return SUCCESS

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Whether PreBind has work to do for this pod: SUCCESS, or SKIP if not."""
        return SUCCESS if overrides(self, "pre_bind") else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """PreBind: do the work that must precede binding."""
        return SUCCESS

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Bind: assign the pod, or SKIP to leave that to the next Bind plugin."""
        raise NotImplementedError

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """PostBind: called after the pod is bound, for information."""

    def generate_placements(
        self, state: CycleState, group: PodGroupInfo, parent: PodGroupPlacement
    ) -> Sequence[PodGroupPlacement] | Status:
        """PlacementGenerate: return the sets of nodes to try the group on, in this order.

        They are parts of the parent placement, which has all nodes. A status that is not a success
        ends the attempt of the group. `state` is shared by all calls about the group.
        """
        raise NotImplementedError

    def score_placement(
        self, state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
    ) -> int:
        """PlacementScore: score a placement that has room for the group; higher is better.

        The snapshot does not show the assignments. An exception ends the attempt in an error.
        """
        raise NotImplementedError

    def normalize_placement_scores(
        self, state: CycleState, group: PodGroupInfo, scores: Sequence[int]
    ) -> Sequence[int]:
        """NormalizePlacementScore: scale the scores of all placements to 0..100."""
        return scores


def _default_args(plugin: type[Plugin]) -> Any:
    """Return default arguments; None if the plugin takes none or has required ones."""
    if plugin.args_type is None:
        return None
    if any(field.required for field in msgspec.structs.fields(plugin.args_type)):
        return None
    return plugin.args_type()


_METHODS: dict[ExtensionPoint, str] = {
    ExtensionPoint.QUEUE_SORT: "sort_key",
    ExtensionPoint.PRE_ENQUEUE: "pre_enqueue",
    ExtensionPoint.PRE_FILTER: "pre_filter",
    ExtensionPoint.FILTER: "filter",
    ExtensionPoint.POST_FILTER: "post_filter",
    ExtensionPoint.PRE_SCORE: "pre_score",
    ExtensionPoint.SCORE: "score",
    ExtensionPoint.RESERVE: "reserve",
    ExtensionPoint.PERMIT: "permit",
    ExtensionPoint.PRE_BIND: "pre_bind",
    ExtensionPoint.BIND: "bind",
    ExtensionPoint.POST_BIND: "post_bind",
    ExtensionPoint.PLACEMENT_GENERATE: "generate_placements",
    ExtensionPoint.PLACEMENT_SCORE: "score_placement",
}


def overrides(plugin: Plugin | type[Plugin], method: str) -> bool:
    """Whether a plugin overrides a method of the base class."""
    cls = plugin if isinstance(plugin, type) else type(plugin)
    return getattr(cls, method) is not getattr(Plugin, method)


def extension_points(plugin: Plugin | type[Plugin]) -> frozenset[ExtensionPoint]:
    """Return the points that a plugin extends: those whose method it overrides."""
    cls: Any = plugin if isinstance(plugin, type) else type(plugin)
    return _extension_points(cls)


@functools.lru_cache(maxsize=1024)
def _extension_points(plugin: type[Any]) -> frozenset[ExtensionPoint]:
    points = {point for point, method in _METHODS.items() if overrides(plugin, method)}
    if overrides(plugin, "unreserve"):
        points.add(ExtensionPoint.RESERVE)
    return frozenset(points)
