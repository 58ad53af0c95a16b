"""Consolidations from objects to rehearsed moves."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import Deployment, Job, Pod, ReplicaSet
from kubesched.api.codec import from_builtins
from kubesched.api.labels import Selector
from kubesched.explain import Snapshot
from kubesched.plan import Consolidation, PlanningPolicy, consolidate
from kubesched.plan.plan_page import plan_page
from kubesched.plan.reading.pinned_pods import follows_node
from tests.plan.clusters import (
    ZONE,
    apart,
    budget,
    mixed_cluster,
    node,
    pod_of,
    random_cluster,
    replica_set,
    spread,
)


def plan_of(objects: list[Any], **options: Any) -> Consolidation:
    policy = PlanningPolicy(**options)
    return consolidate(Snapshot(objects), policy=policy, seconds=30)


def workload(name: str, *nodes: str, **spec: Any) -> list[Any]:
    """A ReplicaSet with a pod on each of these nodes."""
    owner = replica_set(name, len(nodes), **spec)
    return [owner, *(pod_of(owner, number, there) for number, there in enumerate(nodes))]


def test_half_empty_nodes_are_merged() -> None:
    objects = [node("a"), node("b"), *workload("web", "a", "b", cpu="3")]
    plan = plan_of(objects)
    assert (plan.nodes, plan.planned_nodes, plan.lower_bound, plan.verified) == (2, 1, 1, True)
    (move,) = plan.moves
    (wave,) = plan.waves
    assert {move.source, move.target} == {"a", "b"}
    assert plan.emptied == (move.source,)
    assert wave.evict == (move.pod,)
    assert wave.cordon == (move.source,)


def test_a_notebook_can_plan() -> None:
    """Its kernel runs an event loop."""
    objects = [node("a"), node("b"), *workload("web", "a", "b", cpu="3")]

    async def cell() -> Consolidation:
        return plan_of(objects)

    assert asyncio.run(cell()) == plan_of(objects)


@pytest.mark.parametrize("duration", ["", "90s"], ids=["of any job", "that end soon"])
def test_pods_of_jobs_move_and_do_not_end(duration: str) -> None:
    """Nothing says when the pods of a real Job end, so they run as long as the plan is played."""
    annotations = {"kubesched.io/ready-delay": "60s"}  # so that waves take long
    if duration:
        annotations["kubesched.io/run-duration"] = duration
    names = [f"n{number}" for number in range(8)]
    objects = [*map(node, names), *job("sums", *names, annotations=annotations)]
    plan = plan_of(objects)
    assert (plan.pods, plan.movable_pods) == (8, 8)
    assert (plan.nodes, plan.planned_nodes, plan.lower_bound) == (8, 2, 2)
    assert plan.verified, plan.problems
    check_moves(objects, plan)
    assert len(plan.waves) > 1


def job(name: str, *nodes: str, annotations: dict[str, str]) -> list[Any]:
    """A Job with a pod of 2 cpu on each of these nodes."""
    like = replica_set(name, len(nodes), cpu="2")
    template = msgspec.to_builtins(like.spec.template)
    template["metadata"]["annotations"] = annotations
    template["spec"]["restartPolicy"] = "Never"
    template["spec"]["containers"][0]["image"] = "sums"  # containers of the image pause do not end
    owner = from_builtins(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"job-{name}"},
            "spec": {
                "parallelism": len(nodes),
                "completions": len(nodes),
                "backoffLimit": 1000,
                "selector": {"matchLabels": {"app": name}},
                "template": template,
            },
            "status": {"active": len(nodes), "startTime": "2025-01-01T00:00:00Z"},
        },
        Job,
    )
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": f"job-{name}",
        "controller": True,
    }
    made = replace(like, spec=replace(like.spec, template=owner.spec.template))
    pods = [
        pod_of(made, number, there, ownerReferences=[reference], annotations=annotations)
        for number, there in enumerate(nodes)
    ]
    return [owner, *pods]


def test_full_nodes_stay() -> None:
    plan = plan_of([node("a"), node("b"), *workload("web", "a", "b", cpu="5")])
    assert (plan.planned_nodes, plan.lower_bound, plan.moves, plan.verified) == (2, 2, (), True)


PINNED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "a pod without a controller": (
        [pod_of(replica_set("web", 1), 0, "a", ownerReferences=[])],
        {},
        "no controller",
    ),
    "a pod that an annotation excludes": (
        [
            replica_set("web", 1),
            pod_of(
                replica_set("web", 1),
                0,
                "a",
                annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
            ),
        ],
        {},
        "safe-to-evict",
    ),
    "a pod with local storage": (
        workload("web", "a", volumes=[{"name": "scratch", "emptyDir": {}}]),
        {},
        "local storage",
    ),
    "a pod whose budget allows nothing": (
        [*workload("web", "a"), budget("web", maxUnavailable=0)],
        {},
        "allows no eviction",
    ),
    "a pod that the user pins": (
        workload("web", "a"),
        {"pinned_pods": Selector.parse("app=web")},
        "pinned by a selector",
    ),
    "a pod whose owner is not in the dump": (
        workload("web", "a")[1:],
        {},
        "is not among the objects",
    ),
}


@pytest.mark.parametrize(("pods", "options", "reason"), PINNED.values(), ids=PINNED)
def test_pods_that_cannot_move_stay_on_their_node(
    pods: list[Any], options: dict[str, Any], reason: str
) -> None:
    objects = [node("a"), node("b", cpu=16), *pods, *workload("other", "b", cpu="5")]
    plan = plan_of(objects, **options)
    assert reason in plan.kept_nodes["a"]
    assert "a" not in plan.emptied
    assert "default/web-0" not in {move.pod for move in plan.moves}


def test_pods_that_appear_only_on_the_copy_stay() -> None:
    """The cluster would give them other names, so no plan can move them."""
    owner = replica_set("web", 2)
    objects = [node("a"), node("b"), owner, pod_of(owner, 0, "a")]
    plan = plan_of(objects)
    assert plan.pods == 2
    assert {move.pod for move in plan.moves} <= {"default/web-0"}
    assert any("when the cluster was read" in why for why in plan.kept_nodes.values())
    assert plan_page(plan, Snapshot(objects), [])


def test_a_deployment_keeps_its_last_revision() -> None:
    """A capture drops fields of templates, so that earlier revisions look equal."""
    pods = workload("web", "a", "b", cpu="3")
    owner = pods[0]
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d-web"}
    template = owner.spec.template
    deployment = from_builtins(
        {
            "metadata": {"name": "web", "namespace": "default", "uid": "d-web"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}},
        },
        Deployment,
    )
    deployment = replace(deployment, spec=replace(deployment.spec, template=template))

    def revision(number: int, **metadata: Any) -> ReplicaSet:
        own = {
            "annotations": {"deployment.kubernetes.io/revision": str(number)},
            "creationTimestamp": f"2025-01-0{number}T00:00:00Z",
            "ownerReferences": [{**reference, "controller": True}],
        }
        read = from_builtins({"metadata": own}, ReplicaSet).metadata
        named = replace(
            read, name="web", namespace="default", uid="rs-web", labels=template.metadata.labels
        )
        return replace(owner, metadata=replace(named, **metadata))

    old = revision(1, name="old", uid="rs-old")
    old = replace(old, spec=replace(old.spec, replicas=0))
    objects = [node("a"), node("b"), deployment, old, revision(2), *pods[1:]]
    plan = plan_of(objects)
    assert (plan.movable_pods, plan.planned_nodes, plan.verified) == (2, 1, True)


def test_local_storage_moves_on_request() -> None:
    pods = workload("web", "a", volumes=[{"name": "scratch", "emptyDir": {}}])
    plan = plan_of([node("a"), node("b"), *pods], moves_local_storage=True)
    assert plan.planned_nodes == 1


def test_a_user_can_exclude_nodes_from_removal() -> None:
    objects = [node("a", labels={"keep": "yes"}), node("b"), *workload("web", "b")]
    plan = plan_of(objects, kept_nodes=Selector.parse("keep=yes"))
    assert plan.emptied == ("b",)


def test_spare_room_stays_free() -> None:
    objects = [node("a"), node("b"), *workload("web", "a", "b", cpu="3")]
    assert plan_of(objects, spare_percent=20).planned_nodes == 1
    assert plan_of(objects, spare_percent=30).planned_nodes == 2
    assert plan_of(objects, spare_percent=30).lower_bound == 2


def test_the_cheapest_nodes_remain() -> None:
    objects = [node("big", cpu=16), node("a"), node("b"), *workload("web", "big", cpu="7")]
    objects += workload("api", "a", "b", cpu="4")
    prices = {"big": 10.0, "a": 1.0, "b": 1.0}
    plan = plan_of(objects, prices=prices)
    assert (plan.planned_nodes, plan.planned_cost, plan.lower_bound_cost) == (2, 2.0, 2.0)
    assert plan.emptied == ("big",)
    assert plan_of(objects).planned_nodes == 1


def test_waves_respect_budgets() -> None:
    names = [f"n{number}" for number in range(4)]
    objects = [
        *(node(name) for name in names),
        *workload("web", *names, cpu="1"),
        budget("web", maxUnavailable=1),
    ]
    plan = plan_of(objects)
    assert plan.planned_nodes == 1
    assert [len(wave.evict) for wave in plan.waves] == [1, 1, 1]


def test_exclusive_pods_stay_apart() -> None:
    names = ["a", "b", "c"]
    objects = [
        *(node(name) for name in names),
        *workload("db", *names, cpu="1", affinity=apart("db")),
    ]
    plan = plan_of(objects)
    assert (plan.planned_nodes, plan.lower_bound) == (3, 3)


def test_zones_stay_balanced() -> None:
    objects = [
        node("a", zone="z1"),
        node("b", zone="z2"),
        node("c", zone="z2"),
        *workload("web", "a", "b", "c", topologySpreadConstraints=spread("web", ZONE)),
    ]
    plan = plan_of(objects)
    assert plan.planned_nodes == 2
    assert set(plan.emptied) < {"b", "c"}


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_is_verified_and_within_its_bounds(seed: int) -> None:
    objects = random_cluster(seed, 12, 40)
    plan = plan_of(objects)
    assert plan.verified
    assert plan.lower_bound <= plan.planned_nodes <= plan.nodes
    check_moves(objects, plan)


def test_a_larger_cluster_comes_close_to_the_bound() -> None:
    objects = mixed_cluster(3, 40)
    plan = consolidate(Snapshot(objects), seconds=3)
    assert plan.verified
    assert plan.gap <= 0.1
    check_moves(objects, plan)


def check_moves(objects: list[Any], plan: Consolidation) -> None:
    """Each pod moves at most once, from where it was, and not to an emptied node.

    Pods of DaemonSets end with their node.
    """
    places = {
        f"{each.metadata.namespace}/{each.metadata.name}": each.spec.node_name
        for each in objects
        if isinstance(each, Pod) and not follows_node(each)
    }
    moved = Counter(move.pod for move in plan.moves)
    assert set(moved.values()) <= {1}
    for move in plan.moves:
        assert places.pop(move.pod) == move.source
        assert move.target not in plan.emptied
    assert not set(places.values()) & set(plan.emptied)
    assert sorted(pod for wave in plan.waves for pod in wave.evict) == sorted(moved)
    assert len(plan.emptied) == plan.nodes - plan.planned_nodes


def test_the_document_names_its_parts() -> None:
    objects = [node("a"), node("b"), *workload("web", "a", "b", cpu="3")]
    document = msgspec.json.decode(msgspec.json.encode(plan_of(objects)))
    assert {"nodes", "planned_nodes", "lower_bound", "moves", "waves", "verified"} <= set(document)
    assert {"pod", "from", "to", "wave"} <= set(document["moves"][0])


def test_a_plan_survives_the_loss_of_a_node() -> None:
    """6 cpu fit on one node of 8; if that node is lost, the other one needs room for them."""
    names = ["a", "b", "c"]
    objects = [*map(node, names), *workload("web", *names, cpu="2")]
    assert plan_of(objects).planned_nodes == 1
    plan = plan_of(objects, survive="node")
    assert (plan.planned_nodes, plan.lower_bound, plan.verified) == (2, 2, True)


def test_a_plan_survives_the_loss_of_a_zone() -> None:
    """Both nodes of the plan in one zone would be lost together."""
    objects = [
        node("a", zone="z1"),
        node("b", zone="z1"),
        node("c", zone="z2"),
        node("d", zone="z2"),
        *workload("web", *"abcd", cpu="2"),
    ]
    plan = plan_of(objects, survive="zone")
    assert (plan.planned_nodes, plan.lower_bound, plan.verified) == (2, 2, True)
    assert len(set(plan.emptied) & {"a", "b"}) == 1


def test_an_empty_node_stays_as_a_spare() -> None:
    """Without c, the pod of a lost node would find 3 of 5 cpu."""
    objects = [
        *map(node, "abc"),
        *workload("large", "a", cpu="5"),
        *workload("other", "b", cpu="5"),
    ]
    plan = plan_of(objects, survive="node")
    assert (plan.planned_nodes, plan.verified, plan.losses) == (3, True, ())
    assert plan_of(objects, spare_percent=40).planned_nodes == 3
    assert plan_of(objects, spare_percent=35).planned_nodes == 2


def test_pods_that_no_loss_leaves_room_for_do_not_count() -> None:
    """A pod that fits one node only is lost with it, with or without a plan."""
    special = {"labels": {"disk": "ssd"}}
    objects = [
        node("a", **special),
        node("b"),
        node("c"),
        *workload("fast", "a", cpu="1", nodeSelector={"disk": "ssd"}),
        *workload("web", "b", "c", cpu="1"),
    ]
    plan = plan_of(objects, survive="node")
    assert (plan.planned_nodes, plan.verified) == (2, True)
