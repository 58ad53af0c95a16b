"""Invalid pods and nodes do not stop the process or the placement of other pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kubesched.api import Node, Pod
from kubesched.api.pod import PodSpec, PodStatus
from tests.hostile_values import documents
from tests.scheduler.hostile_object_harness import HostileObjectHarness, run_steps

BIG = "8191Pi"


def asking(**requests: str) -> dict[str, Any]:
    return {
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
    }


HUGE = {
    "memory": asking(memory=BIG),
    "cpu": asking(cpu="9223372036854775"),
    "ephemeral storage": asking(**{"ephemeral-storage": BIG}),
    "an extended resource": asking(**{"example.com/gpu": "9223372036854775807"}),
}


@pytest.mark.parametrize("lie", HUGE.values(), ids=HUGE)
def test_pods_with_requests_beyond_64_bits_do_not_block_others(lie: dict[str, Any]) -> None:
    async def steps(harness: HostileObjectHarness) -> None:
        for number in range(3):
            await harness.add_pod(f"huge{number}", lie, node_name="n0")
        await harness.add_pod("innocent", requests={"cpu": "1"})
        await harness.until_bound("innocent")
        for number in range(3):
            await harness.delete_pod(f"huge{number}")
        # Sums beyond 64 bits are subtracted again without a remainder.
        for number in range(3):
            await harness.add_pod(f"large{number}", requests={"cpu": "7", "memory": "15Gi"})
        for number in range(3):
            await harness.until_bound(f"large{number}", within_s=400)
        harness.scheduler.cache.check_invariants()

    run_steps(steps)


# Fields that are not replaced, so that the invalid object keeps its identity.
IDENTITY = ("name", "namespace", "uid", "resourceVersion", "deletionTimestamp")


def _without_identity(document: dict[str, Any]) -> dict[str, Any]:
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        metadata = {key: metadata[key] for key in metadata if key not in IDENTITY}
        document = document | {"metadata": metadata}
    return {key: document[key] for key in document if key in ("metadata", "spec", "status")}


@settings(
    max_examples=40, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
)
@given(
    pods=st.lists(documents(PodSpec), min_size=1, max_size=4),
    nodes=st.lists(documents(Node), max_size=2),
    data=st.data(),
)
def test_other_pods_are_placed_whatever_some_objects_contain(
    pods: list[dict[str, Any]], nodes: list[dict[str, Any]], data: st.DataObject
) -> None:
    async def steps(harness: HostileObjectHarness) -> None:
        for number, node in enumerate(nodes):
            await harness.add_node(f"odd{number}", _without_identity(node))
        names = []
        for number, spec in enumerate(pods):
            names.append(f"bound{number}")
            status = data.draw(documents(PodStatus))
            lie = {"spec": {**spec, "nodeName": "n0"}, "status": status}
            await harness.add_pod(names[-1], lie, node_name="n0")
            names.append(f"waiting{number}")
            waiting = {**spec, "nodeName": "", "schedulerName": "default-scheduler"}
            await harness.add_pod(names[-1], {"spec": waiting, "status": status})
        await harness.add_pod(
            "innocent", requests={"cpu": "1"}, node_selector={"kubernetes.io/hostname": "n1"}
        )
        await harness.until_bound("innocent", 400)
        for name in names:
            await harness.delete_pod(name)
        for number in range(3):
            await harness.add_pod(
                f"large{number}",
                requests={"cpu": "6", "memory": "10Gi"},
                node_selector={"kubernetes.io/hostname": f"n{number}"},
            )
        for number in range(3):
            await harness.until_bound(f"large{number}", 400)
        harness.scheduler.cache.check_invariants()
        harness.scheduler.queue.check_invariants()

    run_steps(steps)


def many_terms(count: int) -> dict[str, Any]:
    terms = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchExpressions": [{"key": f"k{n}", "operator": "DoesNotExist"}]},
        }
        for n in range(count)
    ]
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"spec": {"affinity": {"podAntiAffinity": rule}}}


def many_constraints(count: int) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
    }
    return {"spec": {"topologySpreadConstraints": [constraint] * count}}


def many_expressions(count: int) -> dict[str, Any]:
    expressions = [{"key": f"k{n}", "operator": "DoesNotExist"} for n in range(count)]
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}, *expressions]},
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"spec": {"affinity": {"podAntiAffinity": rule}}}


def many_spread_expressions(count: int) -> dict[str, Any]:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {
            "matchExpressions": [{"key": f"k{n}", "operator": "Exists"} for n in range(count)]
        },
    }
    return {"spec": {"topologySpreadConstraints": [constraint]}}


def many_node_requirements(count: int) -> dict[str, Any]:
    terms = [
        {"matchExpressions": [{"key": f"k{n}", "operator": "DoesNotExist"}]} for n in range(count)
    ]
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"spec": {"affinity": {"nodeAffinity": rule}}}


def many_tolerations(count: int) -> dict[str, Any]:
    return {"spec": {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(count)]}}


def many_resources(count: int) -> dict[str, Any]:
    return asking(**{f"example.com/r{each}": "1" for each in range(count)})


TOO_MUCH = {
    "expressions": (many_expressions, 511, "selector expressions in pod affinity terms, of which"),
    "spread expressions": (
        many_spread_expressions,
        512,
        "selector expressions in topology spread constraints, of which 512 are allowed",
    ),
    "node requirements": (
        many_node_requirements,
        1_000,
        "5000 node selector requirements, of which 1000 are allowed",
    ),
    "tolerations": (many_tolerations, 512, "5000 tolerations, of which 512 are allowed"),
    "affinity terms": (many_terms, 64, "pod affinity terms, of which 64 are allowed"),
    "constraints": (many_constraints, 32, "topology spread constraints, of which 32 are allowed"),
}
TOO_MUCH_FOR_ANY_NODE = TOO_MUCH | {
    "resources": (many_resources, 128, "5000 resources, of which 128 are allowed"),
}


@pytest.mark.parametrize(("lie", "most", "text"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_a_pod_beyond_the_limits_is_rejected_with_a_reason(
    lie: Callable[[int], dict[str, Any]], most: int, text: str
) -> None:
    async def steps(harness: HostileObjectHarness) -> None:
        await harness.add_pod("most", lie(most))
        await harness.until_bound("most")
        await harness.delete_pod("most")
        for number in range(5):
            await harness.add_pod(f"too-much-{number}", lie(5_000))
            await harness.add_pod(f"bound-{number}", lie(5_000), node_name="n0")
        for number in range(5):
            await harness.add_pod(f"innocent{number}", requests={"cpu": "1"})
        for number in range(5):
            await harness.until_bound(f"innocent{number}")
        for number in range(5):
            pod = await harness.api.get(Pod, f"too-much-{number}", "default")
            (condition,) = (each for each in pod.status.conditions if each.type == "PodScheduled")
            assert condition.reason == "Unschedulable"
            assert text in condition.message

    run_steps(steps)


@pytest.mark.parametrize(
    ("lie", "most", "text"), TOO_MUCH_FOR_ANY_NODE.values(), ids=TOO_MUCH_FOR_ANY_NODE
)
def test_events_do_not_requeue_a_pod_beyond_the_limits(
    lie: Callable[[int], dict[str, Any]], most: int, text: str
) -> None:
    """No change of another object makes such a pod schedulable.

    The test ends before the retry after five minutes.
    """
    attempts: list[int] = []

    async def steps(harness: HostileObjectHarness) -> None:
        assert most < 5_000, text
        await harness.add_pod("too-much", lie(5_000))
        await harness.add_pod("large", lie(5_000), node_name="n0")
        await asyncio.sleep(15)
        for number in range(5):
            await harness.add_pod(f"other-{number}", node_name="n1", labels={"k": "v"})
            await harness.add_node(f"more-{number}", labels={"k": "v"})
            await asyncio.sleep(15)
            await harness.api.patch(Node, "n2", None, {"metadata": {"labels": {"k0": str(number)}}})
            await asyncio.sleep(15)
            await harness.delete_pod(f"other-{number}")
            await asyncio.sleep(15)
        await harness.delete_pod("large")
        await asyncio.sleep(15)
        queued = harness.scheduler.queue.get_pod("too-much", "default")
        assert queued is not None
        attempts.append(queued.attempts)

    run_steps(steps)
    assert attempts == [1]


def test_a_pod_with_very_many_resources_is_rejected_with_a_reason() -> None:
    async def steps(harness: HostileObjectHarness) -> None:
        for number in range(5):
            many = asking(**{f"example.com/r{each}": "1" for each in range(2_000)})
            await harness.add_pod(f"too-much-{number}", many)
            await harness.add_pod(f"innocent{number}", requests={"cpu": "1"})
        for number in range(5):
            await harness.until_bound(f"innocent{number}")
        pod = await harness.api.get(Pod, "too-much-0", "default")
        (condition,) = (each for each in pod.status.conditions if each.type == "PodScheduled")
        assert "2000 resources, of which 128 are allowed" in condition.message

    run_steps(steps)


STRANGE = {
    "no uid": {"metadata": {"uid": ""}},
    "the uid of others": {"metadata": {"uid": "same"}},
    "no name": {"metadata": {"name": ""}},
    "no identity at all": {"metadata": {"uid": "", "name": "", "namespace": ""}},
    "a version that is no number": {"metadata": {"resourceVersion": "x"}},
    "times that are none": {
        "metadata": {"creationTimestamp": "x", "deletionTimestamp": "y"},
        "status": {"startTime": "z"},
    },
}


@pytest.mark.parametrize("lie", STRANGE.values(), ids=STRANGE)
def test_pods_without_mandatory_fields_do_not_block_others(lie: dict[str, Any]) -> None:
    async def steps(harness: HostileObjectHarness) -> None:
        for number in range(3):
            await harness.add_pod(f"odd{number}", lie, requests={"cpu": "1"})
            await harness.add_pod(f"bound{number}", lie, node_name="n0")
        await harness.add_pod("innocent", node_selector={"kubernetes.io/hostname": "n1"})
        await harness.until_bound("innocent", 400)
        for number in range(3):
            await harness.delete_pod(f"odd{number}")
            await harness.delete_pod(f"bound{number}")
        await harness.add_pod(
            "large", requests={"cpu": "6"}, node_selector={"kubernetes.io/hostname": "n0"}
        )
        await harness.until_bound("large", 400)
        harness.scheduler.cache.check_invariants()
        harness.scheduler.queue.check_invariants()

    run_steps(steps)
