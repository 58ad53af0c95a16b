"""What only preemption needs of the plugin contract.

A PostFilter plugin that makes room asks, for one node after another or for many at once, whether
the pod would fit if some pods were gone. `handle.dry_run` answers. Plugins that keep facts about
pods on nodes follow such a dry run with `add_pod` and `remove_pod`. Nothing here changes the
cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework.cluster_version import ClusterVersion
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.node_info import NodeInfo
from kubesched.framework.node_view import NodeView
from kubesched.framework.pod_info import PodInfo
from kubesched.framework.post_filter import PostFilterResult
from kubesched.framework.rejections import Rejections
from kubesched.framework.status import SUCCESS, Status

__all__ = ["DryRun", "NominatedTotals", "PreemptionHooks", "VictimReview", "Victims"]


class PreemptionHooks:
    """How a plugin takes part in dry runs. `Plugin` inherits these."""

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        """Update what PreFilter noted as if `added` ran on the node."""
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        """Update what PreFilter noted as if `removed` were gone from the node."""
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

    async def post_filter_with_review(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis, review: VictimReview
    ) -> PostFilterResult:
        """PostFilter of a pod whose extenders want a say in whom to preempt.

        The cluster may change while they are asked. A plugin that preempts nobody needs none
        of this.
        """
        return self.post_filter(state, pod_info, diagnosis)


class NominatedTotals(NamedTuple):
    """What pods request that are nominated to nodes, in sum for each of those nodes."""

    rows: NDArray[np.intp]  # ascending
    requested: NDArray[np.int64]  # int64[resource, node], resources numbered as in the table
    pod_count: NDArray[np.int64]


class DryRun(Protocol):
    """Runs the profile's filters on nodes as they would be with other pods on them."""

    @property
    def version(self) -> ClusterVersion:
        """Of the cluster as this attempt sees it."""
        ...

    def fits_now(self, pod_info: PodInfo, since: ClusterVersion) -> bool:
        """Whether the pod, which fitted no node in that version, fits one by now.

        For work beside the scheduling loop; an attempt itself looks at its snapshot.
        """
        ...

    def fits_without(self, pod_info: PodInfo, node_name: str, gone: Collection[PodInfo]) -> bool:
        """Whether the pod would fit the node, as it is by now, without these pods.

        For work beside the scheduling loop, which brings the snapshot up to date.
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

        `nodes` may have totals of their own (`TotalsView`). With `in_full` all filters run: no
        plugin cares about the pods that make the difference. With `again` the nodes passed
        before with other totals, and only filters that read totals run.
        """
        ...

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        """Tell the plugins that `added` runs on the node."""
        ...

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        """Tell the plugins that `removed` is gone from the node."""
        ...

    def reads_totals_only(self, state: CycleState) -> bool:
        """Whether no filter that runs for this pod reads more of pods than their totals."""
        ...

    def ignored_pods(self, state: CycleState, pod: Pod) -> Callable[[PodInfo], bool] | None:
        """A test whether all filters ignore a pod but for its totals; None: there is none."""
        ...

    def nominated_totals(self, pod: Pod) -> NominatedTotals:
        """What pods request that are nominated to nodes and that this pod gives way to."""
        ...

    def cache_key(self, state: CycleState) -> Hashable | None:
        """Equal for pods that all filters answer alike on a row that has not changed.

        None: some filter's answers are not cached.
        """
        ...


class Victims(NamedTuple):
    """Whom to preempt on a node."""

    pods: tuple[PodInfo, ...]
    violations: int  # of those, how many break a disruption budget
    present: Mapping[str, PodInfo]  # everybody who was there when that was worked out, by uid


class VictimReview(Protocol):
    """Extenders that have a say in whom to preempt for the pod of an attempt.

    Asking them takes time, in which the cluster changes, so what they answer has to be looked at
    again before anybody is evicted.
    """

    async def review(self, preemptor: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """What is left of the proposal, by node name, or other victims instead.

        Raises:
            KubeschedError: someone who must be heard could not be asked.
        """
        ...

    def fits_now(self) -> bool:
        """Whether the pod fits somewhere by now, without anybody having to go."""
        ...

    def fits_without(self, node_name: str, victims: Collection[PodInfo]) -> bool:
        """Whether the pod would fit the node, as it is by now, without these pods."""
        ...
