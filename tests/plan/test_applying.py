"""Plans are carried out exactly or stopped, on copies of clusters in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import ApiError, Node, Pod, ReplicaSet
from kubesched.api.access import ApiAccess
from kubesched.api.meta import Status
from kubesched.cluster.embedded_cluster import ClusterPart
from kubesched.explain import Snapshot
from kubesched.explain.clusters.virtual_cluster import VirtualCluster
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import ManualClock
from kubesched.foundation.util.randomness import derive
from kubesched.plan import consolidate
from kubesched.plan.applying.plan_application import rehearse_application
from kubesched.plan.applying.plan_applier import AppliedPlan, PlanApplier
from kubesched.plan.applying.plan_document import PlanDocument, PlanFileError, read_plan
from kubesched.plan.applying.plan_journal import PlanJournal
from tests.plan.clusters import budget, node, pod_of, random_cluster, replica_set

LONG_NS = 600 * 10**9

Change = Callable[[ApiAccess], Awaitable[Any]]


def workload(name: str, *nodes: str, **spec: Any) -> list[Any]:
    owner = replica_set(name, len(nodes), **spec)
    return [owner, *(pod_of(owner, number, there) for number, there in enumerate(nodes))]


def plan_for(objects: Sequence[Any]) -> PlanDocument:
    return read_plan(msgspec.json.encode(consolidate(Snapshot(objects), seconds=3)), "plan.json")


# Three waves of one pod each, because of the budget: the pods of b, c and d go to a.
CLUSTER = [
    node("a", cpu=16, labels={"keep": "yes"}),
    *map(node, "bcd"),
    *workload("web", *"abcd", cpu="3"),
    budget("web", maxUnavailable=1),
]


@pytest.fixture(scope="module")
def plan() -> PlanDocument:
    found = plan_for(CLUSTER)
    assert [len(wave.evict) for wave in found.waves] == [1, 1, 1]
    return found


class Outcome(NamedTuple):
    applied: AppliedPlan | None  # None: the run was interrupted, or failed
    error: BaseException | None
    evicted: list[str]
    nodes: dict[str, Node]
    pods: list[Pod]


def apply(
    plan: PlanDocument,
    objects: Sequence[Any],
    change: Change | None = None,
    *,
    at: int = 0,
    journals: Sequence[PlanJournal] | None = None,
) -> Outcome:
    """Carry out a plan. `change` happens before eviction `at`; each journal is a further run."""

    async def play() -> Outcome:
        parts = ClusterPart.NODES | ClusterPart.CONTROLLERS
        cluster = VirtualCluster(parts=parts)
        await cluster.copy_objects(objects)
        evicted: list[str] = []

        async def evict(pod: Pod) -> str:
            if len(evicted) == at and change is not None:
                await change(cluster.api)
                await cluster.clock.sleep(10**9)
            evicted.append(pod.metadata.name)
            return await cluster.evict(pod)

        applied: AppliedPlan | None = None
        error: BaseException | None = None
        async with cluster.running():
            await cluster.settle(quiet_ns=2 * 10**9)
            for journal in journals or [PlanJournal(plan.digest, cluster.clock)]:
                random = derive(0, "test")
                applier = PlanApplier(
                    plan,
                    cluster.api,
                    evict,
                    journal,
                    cluster.clock,
                    random,
                    longest_wave_ns=LONG_NS,
                )
                task = asyncio.create_task(applier.run())
                await asyncio.wait([task])
                error = None if task.cancelled() else task.exception()
                applied = None if task.cancelled() or error is not None else task.result()
            await cluster.settle(quiet_ns=2 * 10**9)
            nodes = {each.metadata.name: each for each in (await cluster.api.list(Node)).items}
            pods = list((await cluster.api.list(Pod)).items)
        return Outcome(applied, error, evicted, nodes, pods)

    return virtual_loop.run(play, start_ns=virtual_loop.DEFAULT_START_NS)


def cordoned(outcome: Outcome) -> set[str]:
    return {name for name, each in outcome.nodes.items() if each.spec.unschedulable}


def test_all_waves_are_played(plan: PlanDocument) -> None:
    outcome = apply(plan, CLUSTER)
    applied = outcome.applied
    assert applied is not None
    assert applied.is_complete
    assert (applied.waves_done, applied.moves_done) == (3, 3)
    assert set(applied.emptied) == cordoned(outcome) == {"b", "c", "d"}
    assert {pod.spec.node_name for pod in outcome.pods} == {"a"}
    assert sorted(outcome.evicted) == sorted(
        move.pod.removeprefix("default/") for move in plan.moves
    )


@pytest.mark.parametrize("seed", [0, 5, 9, 10])
def test_the_copy_ends_as_the_rehearsal_did(seed: int) -> None:
    objects = random_cluster(seed, 12, 40)
    found = plan_for(objects)
    applied = rehearse_application(
        found,
        Snapshot(objects),
        lambda clock: PlanJournal(found.digest, clock),
        longest_wave_ns=LONG_NS,
    )
    assert applied.is_complete
    assert applied.dry_run
    assert set(applied.emptied) == set(found.emptied)


async def _delete_pod(api: ApiAccess) -> None:
    """Delete a pod that is evicted later."""
    pods = sorted((await api.list(Pod)).items, key=lambda pod: pod.spec.node_name)
    await api.delete(Pod, pods[-1].metadata.name, "default")


async def _bind_pod(api: ApiAccess) -> None:
    made = pod_of(replica_set("other", 1), "new", ownerReferences=[], uid="")
    await api.create(replace(made, spec=replace(made.spec, node_name="d")))


def _new_workload(cpu: str) -> Change:
    async def change(api: ApiAccess) -> None:
        await api.create(replica_set("huge", 1, cpu=cpu))

    return change


def _set_cordon(name: str, *, unschedulable: bool) -> Change:
    async def change(api: ApiAccess) -> None:
        patch = {"spec": {"unschedulable": unschedulable or None}}
        await api.patch(Node, name, None, patch, patch_type="merge")

    return change


async def _fail_node(api: ApiAccess) -> None:
    found = await api.get(Node, "a")
    conditions = [replace(each, status="False") for each in found.status.conditions]
    status = replace(found.status, conditions=tuple(conditions))
    await api.update(replace(found, status=status), subresource="status")


async def _delete_node(api: ApiAccess) -> None:
    await api.delete(Node, "a")


async def _scale_down(api: ApiAccess) -> None:
    await api.patch(ReplicaSet, "web", "default", {"spec": {"replicas": 1}}, patch_type="merge")


SURPRISES: dict[str, tuple[Change, str]] = {
    "a pod of the plan is deleted": (_delete_pod, "by another client"),
    "a pod comes to a node that is to be emptied": (_bind_pod, "came to node d"),
    "a new pod finds no node": (_new_workload("20"), "has no node since"),
    "a new pod takes the room": (_new_workload("12"), "was not placed in time"),
    "the target is cordoned": (
        _set_cordon("a", unschedulable=True),
        "node a was cordoned by another client",
    ),
    "an emptied node is uncordoned": (
        _set_cordon("d", unschedulable=False),
        "node d was uncordoned by another client",
    ),
    "the target is not ready": (_fail_node, "node a is not ready"),
    "the target is deleted": (_delete_node, "node a was deleted"),
    "the owner wants fewer pods": (_scale_down, "by another client"),
}


@pytest.mark.parametrize(("change", "reason"), SURPRISES.values(), ids=SURPRISES)
def test_an_unexpected_change_stops_the_plan(
    plan: PlanDocument, change: Change, reason: str
) -> None:
    outcome = apply(plan, CLUSTER, change)
    applied = outcome.applied
    assert applied is not None
    assert reason in applied.stopped
    assert len(outcome.evicted) == 1
    # Nodes with pods are uncordoned, except the one that the unexpected change cordoned.
    in_use = {pod.spec.node_name for pod in outcome.pods}
    assert not in_use & cordoned(outcome) - {"a"}
    # No pod is lost: every desired pod has a node.
    placed = [pod for pod in outcome.pods if pod.metadata.labels["app"] == "web"]
    assert all(pod.spec.node_name for pod in placed)
    assert len(placed) == (1 if change is _scale_down else 4)


def test_a_replacement_on_another_node_stops_the_plan(plan: PlanDocument) -> None:
    async def add_better_node(api: ApiAccess) -> None:
        await api.create(replace(node("e", cpu=64), metadata=replace(node("e").metadata, uid="")))
        await _set_cordon("a", unschedulable=True)(api)

    outcome = apply(plan, CLUSTER, add_better_node)
    assert outcome.applied is not None
    assert outcome.applied.stopped


def test_a_changed_cluster_is_not_touched(plan: PlanDocument) -> None:
    others = [node("a", cpu=16), *map(node, "bcd"), *workload("api", *"abcd", cpu="3")]
    outcome = apply(plan, others)
    applied = outcome.applied
    assert applied is not None
    assert any("is gone" in problem for problem in applied.problems)
    assert any("is to be emptied" in problem for problem in applied.problems)
    assert (applied.waves_done, outcome.evicted, cordoned(outcome)) == (0, [], set())


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interrupted_plan_is_resumed(plan: PlanDocument, tmp_path: Path, at: int) -> None:
    path = tmp_path / "journal"

    async def interrupt(_api: ApiAccess) -> None:
        if not is_interrupted:
            is_interrupted.append(True)
            raise asyncio.CancelledError

    is_interrupted: list[bool] = []

    class Journals(Sequence[PlanJournal]):
        """Each run reads the journal that the previous run wrote."""

        def __len__(self) -> int:
            return 2

        def __getitem__(self, number: Any) -> Any:
            if number >= 2:
                raise IndexError
            return PlanJournal.read(path, plan.digest, ManualClock(1), writes=True)

    outcome = apply(plan, CLUSTER, interrupt, at=at, journals=Journals())
    assert outcome.applied is not None
    assert outcome.applied.is_complete
    assert sorted(outcome.evicted) == sorted(
        move.pod.removeprefix("default/") for move in plan.moves
    )
    assert cordoned(outcome) == {"b", "c", "d"}


def test_a_refused_request_stops_the_plan(plan: PlanDocument) -> None:
    async def refuse(_api: ApiAccess) -> None:
        raise ApiError(Status(code=403, message="you may not evict pods"))

    outcome = apply(plan, CLUSTER, refuse)
    assert outcome.applied is None
    assert "you may not evict pods" in str(outcome.error)
    assert (outcome.evicted, cordoned(outcome)) == ([], set())


def test_a_journal_of_another_plan_is_refused(plan: PlanDocument, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    PlanJournal.read(path, "another", ManualClock(1), writes=True)
    with pytest.raises(PlanFileError, match="the progress of another plan"):
        PlanJournal.read(path, plan.digest, ManualClock(1), writes=False)


def test_an_incomplete_last_line_is_dropped(plan: PlanDocument, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = PlanJournal.read(path, plan.digest, ManualClock(1), writes=True)
    journal.finish(1)
    with path.open("ab") as file:
        file.write(b'{"step":"do')
    again = PlanJournal.read(path, plan.digest, ManualClock(1), writes=True)
    again.finish(2)
    assert PlanJournal.read(path, plan.digest, ManualClock(1), writes=False).waves_done == 2


WRONG: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"waves", "not a plan"),
    "another document": (b'{"kind": "List"}', "not a plan"),
    "a plan without a rehearsal": (
        b'{"waves": [], "moves": [], "verified": false}',
        "did not survive its rehearsal",
    ),
    "an eviction without a move": (
        b'{"waves": [{"wave": 1, "steps": [{"node": "a", "evict": ["x"]}]}], "moves": [],'
        b' "verified": true}',
        "wave 1 evicts x, which has no move",
    ),
}


@pytest.mark.parametrize(("text", "reason"), WRONG.values(), ids=WRONG)
def test_a_file_that_is_no_plan(text: bytes, reason: str) -> None:
    with pytest.raises(PlanFileError, match=reason):
        read_plan(text, "plan.json")
