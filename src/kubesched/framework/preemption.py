"""The parts of the plugin contract that only preemption needs.

A PostFilter plugin that preempts pods uses `handle.dry_run` to find out, for single nodes or for
many at once, whether the pod would fit without some pods. Plugins that store facts about pods on
nodes in the cycle state update them during a dry run with `add_pod` and `remove_pod`. Nothing
here changes the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework.cluster_version import ClusterVersion
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.node_info import NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.placements import PodGroupInfo
from kubesched.framework.pod_info import PodInfo
from kubesched.framework.post_filter import PostFilterResult
from kubesched.framework.rejections import Rejections
from kubesched.framework.status import SUCCESS, Status

__all__ = [
    "DryRun",
    "NominatedTotals",
    "PodGroupDryRun",
    "PreemptionHooks",
    "PreemptionRules",
    "VictimPreemption",
    "VictimReview",
    "Victims",
]


class PreemptionHooks:
    """The methods of a plugin that dry runs call. `Plugin` inherits these."""

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        """Update PreFilter's state as if `added` ran on the node."""
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        """Update PreFilter's state as if `removed` did not run on the node."""
        return SUCCESS

    def ignores(self, state: CycleState, pod: Pod, other: PodInfo) -> bool:
        """Whether `other` makes no difference to Filter and the two hooks, but for its totals.

        False is always right; dry runs over many nodes are faster where it is True.
        """
        return False

    if TYPE_CHECKING:

        def post_filter(
            self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
        ) -> PostFilterResult: ...

    def post_filter_group(self, group: PodGroupInfo, dry_run: PodGroupDryRun) -> Status:
        """Make room for a whole pod group by preemption.

        Success means that the group waits for the room. Only called for the plugin
        DefaultPreemption, with the gate WorkloadAwarePreemption.
        """
        return Status.unschedulable()

    async def post_filter_with_review(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis, review: VictimReview
    ) -> PostFilterResult:
        """PostFilter of a pod whose extenders review the victims.

        The cluster may change during the calls. A plugin that does not preempt pods need not
        override this.
        """
        return self.post_filter(state, pod_info, diagnosis)


class NominatedTotals(NamedTuple):
    """The total requests of the pods that are nominated to each node."""

    rows: NDArray[np.intp]  # ascending
    requested: NDArray[np.int64]  # int64[resource, node], resources numbered as in the table
    pod_count: NDArray[np.int64]


class DryRun(Protocol):
    """Runs the profile's filters on nodes as they would be with other pods on them."""

    @property
    def version(self) -> ClusterVersion:
        """The version of the state that this attempt reads."""
        ...

    def fits_now(self, pod_info: PodInfo, since: ClusterVersion) -> bool:
        """Whether the pod, which fitted no node in that version, fits one now.

        For tasks outside the scheduling loop; an attempt itself reads its snapshot.
        """
        ...

    def fits_without(self, pod_info: PodInfo, node_name: str, gone: Collection[PodInfo]) -> bool:
        """Whether the pod would fit the node in its current state without these pods.

        For tasks outside the scheduling loop; the call updates the snapshot.
        """
        ...

    def filter_node(self, state: CycleState, pod_info: PodInfo, node: NodeInfo) -> Status:
        """Run the filters on one node; they must pass with and without pods nominated to it."""
        ...

    def filter_nodes(
        self,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        *,
        in_full: bool = False,
        again: bool = False,
    ) -> Rejections:
        """Run the filters on many nodes, up to the first that reads more than totals of pods.

        `nodes` may have hypothetical totals (`TotalsView`). With `in_full` all filters run: none
        of them depends on the pods that make the difference. With `again` the nodes have passed
        with other totals, and only filters that read totals run.
        """
        ...

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        """Call `add_pod` of the plugins."""
        ...

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        """Call `remove_pod` of the plugins."""
        ...

    def reads_totals_only(self, state: CycleState) -> bool:
        """Whether no filter that runs for this pod reads more of pods than their totals."""
        ...

    def ignored_pods(self, state: CycleState, pod: Pod) -> Callable[[PodInfo], bool] | None:
        """Return a test whether all filters ignore a pod except for its totals, or None."""
        ...

    def nominated_totals(self, pod: Pod) -> NominatedTotals:
        """Return the totals of the nominated pods that take precedence over this pod."""
        ...

    def cache_key(self, state: CycleState) -> Hashable | None:
        """Return a key that is equal for pods with the same filter results on unchanged rows.

        None if the results of some filter are not cached.
        """
        ...


class PreemptionRules(Protocol):
    """Rules about which pods may be evicted for a pod; see `Handle.preemption`."""

    def leaving(self, state: CycleState, preemptor: PodInfo) -> Collection[str]:
        """Return the uids of pods, on any node, whose termination the preemptor can wait for.

        They count as gone, and are not evicted again. A node that fits the preemptor without them
        is preferred to nodes that need further victims.
        """
        ...

    def potential_victims(
        self, state: CycleState, preemptor: PodInfo, node: NodeInfo
    ) -> Sequence[PodInfo]:
        """Return the pods on a node that may be evicted.

        `state` is the state of the attempt. The method is called once for each node of an attempt,
        so it must be fast.
        """
        ...

    def admits(self, state: CycleState, preemptor: PodInfo) -> bool:
        """Whether the preemptor may run, in addition to the verdicts of the filters.

        `state` is the state of a dry run, which `add_pod` and `remove_pod` of the plugin have
        changed.
        """
        ...


class VictimPreemption(Protocol):
    """Evicts pods by a plugin's rules, and nominates the preemptor to their node."""

    def preempt(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Choose a node and start the evictions there. For `Plugin.post_filter`."""
        ...

    def is_running(self, uid: str) -> bool:
        """Whether victims of this preemptor are still to be evicted. For `Plugin.pre_enqueue`."""
        ...

    def chosen(self) -> Collection[PodInfo]:
        """Return the victims that are still to be evicted, or whose end was not yet watched."""
        ...


class PodGroupDryRun(Protocol):
    """The trial placement of a pod group in a cluster without some of its pods.

    Nothing here changes the cluster.
    """

    def remove(self, pods: Sequence[PodInfo]) -> None:
        """Remove pods from their nodes for the trials that follow."""
        ...

    def put_back(self, pods: Sequence[PodInfo]) -> None:
        """Return removed pods to their nodes."""
        ...

    def fits(self) -> bool:
        """Whether enough members of the group would be placed.

        Raises:
            PluginError: a plugin failed.
        """
        ...

    def rejection(self) -> Status:
        """Return why the group does not fit, after `fits` was false."""
        ...


class Victims(NamedTuple):
    """The pods to preempt on a node."""

    pods: tuple[PodInfo, ...]
    violations: int  # of those, how many break a disruption budget
    present: Mapping[str, PodInfo]  # all pods of the node at that time, by uid


class VictimReview(Protocol):
    """The review of victims by the extenders of an attempt.

    The cluster may change during the calls, so the result must be checked again before a pod is
    evicted.
    """

    async def review(self, preemptor: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Return the victims that the extenders accept, by node name.

        Raises:
            KubeschedError: the call of an extender that is not ignorable failed.
        """
        ...

    def fits_now(self) -> bool:
        """Whether the pod fits some node now without preemption."""
        ...

    def fits_without(self, node_name: str, victims: Collection[PodInfo]) -> bool:
        """Whether the pod would fit the node in its current state without these pods."""
        ...
