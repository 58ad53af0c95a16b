"""Carries out a plan on a cluster, or on a copy of the current cluster in virtual time."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.api.latest_time import latest_time_ns
from kubesched.cluster.embedded_cluster import ClusterPart
from kubesched.explain.clusters.virtual_cluster import VirtualCluster
from kubesched.explain.snapshot import Snapshot
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.randomness import derive
from kubesched.plan.applying.plan_applier import AppliedPlan, PlanApplier
from kubesched.plan.applying.plan_document import PlanDocument
from kubesched.plan.applying.plan_journal import PlanJournal

__all__ = ["apply_plan", "rehearse_application"]

_QUIET_NS = 2 * SECOND
_TOO_MANY_REQUESTS = 429
_NOT_FOUND = 404

Report = Callable[[str], None]


async def apply_plan(
    plan: PlanDocument,
    api: HttpApi,
    journal: PlanJournal,
    clock: Clock,
    *,
    longest_wave_ns: int,
    report: Report = lambda _: None,
) -> AppliedPlan:
    """Carry out the plan, or the steps that are not in its journal yet.

    Raises:
        ApiError: the server rejects a request.
    """

    async def evict(pod: Pod) -> str:
        metadata = pod.metadata
        try:
            await api.evict(metadata.namespace, metadata.name, metadata.uid)
        except ApiError as error:
            if error.code == _TOO_MANY_REQUESTS:
                return str(error)
            if error.code != _NOT_FOUND:
                raise
        return ""

    random = derive(clock.now_ns(), "plan apply")
    applier = PlanApplier(
        plan, api, evict, journal, clock, random, report=report, longest_wave_ns=longest_wave_ns
    )
    return await applier.run()


def rehearse_application(
    plan: PlanDocument,
    snapshot: Snapshot,
    read_journal: Callable[[Clock], PlanJournal],
    *,
    longest_wave_ns: int,
    report: Report = lambda _: None,
) -> AppliedPlan:
    """Carry out the plan on a copy of the cluster in virtual time, by the same code.

    Raises:
        KubeschedError: the copy cannot be made, or the journal cannot be used.
    """
    model = snapshot.model
    objects = list(model.objects)

    async def play() -> AppliedPlan:
        cluster = VirtualCluster(
            configuration=model.configuration,
            plugins=snapshot.out_of_tree_plugins,
            parts=ClusterPart.NODES | ClusterPart.CONTROLLERS,
        )
        await cluster.copy_objects(objects)
        async with cluster.running():
            await cluster.settle(quiet_ns=_QUIET_NS)
            applier = PlanApplier(
                plan,
                cluster.api,
                cluster.evict,
                read_journal(cluster.clock),
                cluster.clock,
                derive(0, "plan apply"),
                report=report,
                longest_wave_ns=longest_wave_ns,
                dry_run=True,
            )
            return await applier.run()

    start_ns = max(latest_time_ns(objects), model.clock.now_ns())
    return virtual_loop.run(play, start_ns=start_ns or virtual_loop.DEFAULT_START_NS)
