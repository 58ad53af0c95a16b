"""Plans on a copy of a cluster in virtual time, and rehearses the plan there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.base import ApiObject
from kubesched.api.latest_time import latest_time_ns
from kubesched.api.pod_facts import is_terminating, pod_key
from kubesched.cluster.embedded_cluster import ClusterPart
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.clusters.virtual_cluster import VirtualCluster
from kubesched.explain.snapshot import Snapshot
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.object_table import ObjectTable
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.randomness import derive
from kubesched.plan.moving.pod_follower import PodFollower
from kubesched.plan.moving.rehearsal import Rehearsal, RehearsedWaves
from kubesched.plan.moving.wave_player import WavePlayer
from kubesched.plan.packing.packing_problem import Placement
from kubesched.plan.reading.cluster_problem import ClusterProblem, PinOf, read_problem
from kubesched.plan.reading.pinned_pods import Pin, why_pinned
from kubesched.plan.reading.planning_policy import PlanningPolicy

__all__ = ["PlanningRun", "RunOutcome"]

_ATTEMPTS: Final = 4
_QUIET_NS: Final = 2 * SECOND

# Chooses the goal placement of the plan.
ChoosePlacement = Callable[[ClusterProblem, ClusterModel], Placement]


class RunOutcome(NamedTuple):
    """The planned problem, and the result of the rehearsal."""

    cluster: ClusterProblem
    played: RehearsedWaves
    pods: int  # the number of pods with a node
    objects: tuple[ApiObject, ...]  # the copy at the end of the rehearsal


class PlanningRun:
    """Plans for one snapshot, on copies of it."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: PlanningPolicy,
        choose: ChoosePlacement,
        *,
        wave_pods: int,
        seed: int,
        report: Callable[[str], None],
        drained: Collection[str] | None = None,
    ) -> None:
        """`drained` are the nodes to empty; by default those that the placement does not use."""
        self._snapshot = snapshot
        self._policy = policy
        self._choose = choose
        self._wave_pods = wave_pods
        self._seed = seed
        self._report = report
        self._drained = drained

    def run(self) -> RunOutcome:
        """Plan and rehearse.

        After a failed rehearsal, plan again without moving the failed owners' pods.

        Raises:
            KubeschedError: OR-Tools is not installed, or the cluster cannot be rehearsed.
        """
        model = self._snapshot.model
        objects = list(model.objects)
        start_ns = max(latest_time_ns(objects), model.clock.now_ns())
        policy = self._policy
        for attempt in range(1, _ATTEMPTS + 1):
            outcome = virtual_loop.run(
                lambda policy=policy: self._attempt(objects, policy),  # type: ignore[misc]
                start_ns=start_ns or virtual_loop.DEFAULT_START_NS,
                seed=self._seed,
            )
            played = outcome.played
            if played.is_sound or not played.stuck or attempt == _ATTEMPTS:
                break
            self._report(f"attempt {attempt} failed its rehearsal: {played.problems[-1]}")
            policy = replace(policy, pinned_owners=policy.pinned_owners | played.stuck)
        return outcome

    async def _attempt(self, objects: list[ApiObject], policy: PlanningPolicy) -> RunOutcome:
        snapshot = self._snapshot
        cluster = VirtualCluster(
            configuration=snapshot.model.configuration,
            plugins=snapshot.out_of_tree_plugins,
            seed=self._seed,
            parts=ClusterPart.NODES | ClusterPart.CONTROLLERS,
        )
        await cluster.copy_objects(objects)
        random = derive(self._seed, "pod informer")
        informer = SharedInformer(cluster.api, Pod, cluster.clock, random)
        async with cluster.running(after=[informer]):
            self._report("reading the cluster")
            await cluster.settle(quiet_ns=_QUIET_NS)
            model = snapshot.model.with_objects(await cluster.objects_like(objects))
            problem = read_problem(model, policy, _pinning_arrivals(snapshot.model))
            goal = self._choose(problem, model)
            follower = PodFollower(problem.budgets, cluster.clock)
            informer.add_handler(follower.on_add, follower.on_update, follower.on_delete)
            rehearsal = Rehearsal(
                problem,
                goal,
                model,
                WavePlayer(cluster.api, cluster.evict, follower, cluster.clock),
                follower,
                owner_percent=policy.owner_percent,
                wave_pods=self._wave_pods,
                report=self._report,
                drained=self._drained,
            )
            played = await rehearsal.play()
            await cluster.clock.sleep(_QUIET_NS)  # controllers remove the taints of cordons
            after: tuple[Any, ...] = tuple(await cluster.objects_like(objects))
        pods = sum(bool(pod.spec.node_name) for pod in model.objects.list(Pod))
        return RunOutcome(problem, played, pods, after)


def _pinning_arrivals(before: ClusterModel) -> PinOf:
    """Return `why_pinned`, which also pins pods that came to their node on the copy only.

    The cluster creates other pods and may place them elsewhere, so a plan cannot name them.
    """
    places = {
        pod_key(pod): pod.spec.node_name
        for pod in before.objects.list(Pod)
        if not is_terminating(pod)
    }

    def pin_of(
        pod: Pod, objects: ObjectTable, policy: PlanningPolicy, profiles: Collection[str]
    ) -> Pin | None:
        if places.get(pod_key(pod)) != pod.spec.node_name:
            return Pin(
                "it was not on the node when the cluster was read",
                "make the plan again when no rollout is in progress",
            )
        return why_pinned(pod, objects, policy, profiles)

    return pin_of
