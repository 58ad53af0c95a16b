"""Autoscalers: the arithmetic, the limits of changes, and whole decisions on virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import Deployment, Pod
from kubesched.api.meta import ObjectMeta
from kubesched.api.pod import Container, PodCondition, PodSpec, PodStatus, ResourceRequirements
from kubesched.api.time import format_time
from kubesched.cluster.controllers.pod_autoscalers import AUTOSCALERS
from kubesched.cluster.controllers.replica_calculation import (
    NoMetricsError,
    ResourceTarget,
    Tolerance,
    propose_replicas,
)
from kubesched.cluster.controllers.scaling_limits import ScalingHistory, limit_replicas
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import workload, workloads

Json = dict[str, Any]
NOW_NS = 1_800_000_000 * SECOND
MILLI = 10**6
DAY_NS = 24 * 3600 * SECOND


def pod(name: str, *, ready: bool = True, phase: str = "Running", age_ns: int = DAY_NS) -> Pod:
    """Return a pod with a request of one core."""
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": "1"}))
    since = format_time(NOW_NS - age_ns)
    condition = PodCondition(
        type="Ready", status="True" if ready else "False", last_transition_time=since
    )
    status = PodStatus(phase=phase, start_time=since, conditions=(condition,))
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(containers=(container,)), status=status)


UTILIZATION = ResourceTarget("cpu", utilization=50)
# Usage of pods in thousandths, and the proposal for a target of half of their request.
CASES: dict[str, tuple[list[Pod], dict[str, int], int]] = {
    "twice the target doubles the number": ([pod("a"), pod("b")], {"a": 1000, "b": 1000}, 4),
    "half the target halves it": ([pod("a"), pod("b")], {"a": 250, "b": 250}, 1),
    "a tenth more is tolerated": ([pod("a"), pod("b")], {"a": 550, "b": 550}, 2),
    "more than a tenth is not": ([pod("a"), pod("b")], {"a": 560, "b": 560}, 3),
    "an unready pod counts as idle when others are busy": (
        [pod("a"), pod("b", ready=False, age_ns=10 * SECOND)],
        {"a": 1000, "b": 0},
        2,
    ),
    "an unready pod is left out when the number shrinks": (
        [pod("a"), pod("b"), pod("c", ready=False, age_ns=10 * SECOND)],
        {"a": 100, "b": 100, "c": 0},
        1,
    ),
    "a pod without metrics counts as idle when others are busy": (
        [pod("a"), pod("b")],
        {"a": 1000},
        2,
    ),
    "a pod without metrics counts as busy when others are idle": (
        [pod("a"), pod("b"), pod("c")],
        {"a": 100, "b": 100},
        3,
    ),
    "a pending pod counts as idle": (
        [pod("a"), pod("b", phase="Pending")],
        {"a": 2000},
        4,
    ),
    "a failed pod does not count": ([pod("a"), pod("b", phase="Failed")], {"a": 1000}, 2),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_proposals(case: tuple[list[Pod], dict[str, int], int]) -> None:
    pods, used, wanted = case
    usage = {name: {"c": amount * MILLI} for name, amount in used.items()}
    proposal = propose_replicas(UTILIZATION, pods, usage, len(pods), NOW_NS, Tolerance())
    assert proposal.replicas == wanted


def test_an_average_needs_no_requests() -> None:
    target = ResourceTarget("cpu", average_nanos=500 * MILLI)
    usage = {name: {"c": 1000 * MILLI} for name in "ab"}
    proposal = propose_replicas(target, [pod("a"), pod("b")], usage, 2, NOW_NS, Tolerance())
    assert (proposal.replicas, proposal.utilization) == (4, None)


def test_failures_have_a_reason() -> None:
    with pytest.raises(NoMetricsError, match="no metrics returned from resource metrics API"):
        propose_replicas(UTILIZATION, [pod("a")], {}, 1, NOW_NS, Tolerance())
    memory = ResourceTarget("memory", utilization=50)
    with pytest.raises(NoMetricsError, match="missing request for memory in container c of Pod a"):
        propose_replicas(memory, [pod("a")], {"a": {"c": 1}}, 1, NOW_NS, Tolerance())
    starting = pod("a", ready=False, age_ns=SECOND)
    with pytest.raises(NoMetricsError, match=r"pods might be unready"):
        propose_replicas(UTILIZATION, [starting], {"a": {"c": 1}}, 1, NOW_NS, Tolerance())


def limited(
    desired: int,
    current: int,
    behavior: Json | None = None,
    history: ScalingHistory | None = None,
    bounds: tuple[int, int] = (1, 100),
    now_ns: int = NOW_NS,
) -> tuple[int, str]:
    found = limit_replicas(desired, current, bounds, behavior, history or ScalingHistory(), now_ns)
    return found.replicas, found.limited[1]


def rules(**fields: Any) -> Json:
    return {"selectPolicy": "Max", "stabilizationWindowSeconds": 0, **fields}


def policy(kind: str, value: int, seconds: int = 60) -> Json:
    return {"type": kind, "value": value, "periodSeconds": seconds}


def test_without_a_behavior_the_number_doubles_at_most() -> None:
    assert limited(30, 10) == (20, "ScaleUpLimit")
    assert limited(30, 1) == (4, "ScaleUpLimit")
    assert limited(200, 60) == (100, "TooManyReplicas")
    assert limited(0, 3) == (1, "TooFewReplicas")
    assert limited(12, 10) == (12, "DesiredWithinRange")


def test_the_highest_recommendation_of_five_minutes_counts() -> None:
    history = ScalingHistory()
    assert limited(8, 8, None, history)[0] == 8
    assert limited(2, 8, None, history, now_ns=NOW_NS + 299 * SECOND)[0] == 8
    assert limited(2, 8, None, history, now_ns=NOW_NS + 301 * SECOND)[0] == 2


def test_policies_limit_the_rate() -> None:
    pods_or_percent = rules(policies=[policy("Pods", 3), policy("Percent", 50)])
    up = {"scaleUp": pods_or_percent, "scaleDown": pods_or_percent}
    assert limited(50, 10, up) == (15, "ScaleUpLimit")
    assert limited(50, 4, up) == (7, "ScaleUpLimit")
    assert limited(1, 10, up) == (5, "ScaleDownLimit")
    least = {"scaleUp": {**pods_or_percent, "selectPolicy": "Min"}, "scaleDown": pods_or_percent}
    assert limited(50, 10, least) == (13, "ScaleUpLimit")
    off = {"scaleUp": rules(selectPolicy="Disabled", policies=[policy("Pods", 1)])}
    assert limited(50, 10, {**off, "scaleDown": pods_or_percent}) == (10, "ScaleUpLimit")


def test_changes_of_the_period_count() -> None:
    history = ScalingHistory()
    behavior = {"scaleUp": rules(policies=[policy("Pods", 4)]), "scaleDown": rules(policies=[])}
    assert limited(50, 10, behavior, history)[0] == 14
    history.record(10, 14, NOW_NS, 60)
    assert limited(50, 14, behavior, history, now_ns=NOW_NS + 30 * SECOND)[0] == 14
    assert limited(50, 14, behavior, history, now_ns=NOW_NS + 61 * SECOND)[0] == 18


def test_a_window_of_scale_up_takes_the_lowest_recommendation() -> None:
    history = ScalingHistory()
    every = {"policies": [policy("Percent", 1000)]}
    behavior = {
        "scaleUp": rules(**{**every, "stabilizationWindowSeconds": 60}),
        "scaleDown": rules(**every),
    }
    assert limited(10, 10, behavior, history)[0] == 10
    assert limited(30, 10, behavior, history, now_ns=NOW_NS + 30 * SECOND)[0] == 10
    assert limited(40, 10, behavior, history, now_ns=NOW_NS + 61 * SECOND)[0] == 30


def autoscaler(**spec: Any) -> Json:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    target = {"type": "Utilization", "averageUtilization": 50}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    return {
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": reference, "maxReplicas": 6, "metrics": [metric], **spec},
    }


def test_a_deployment_follows_its_load() -> None:
    """A load of 2 cores, with half a core per pod as the target, needs four pods."""

    async def main() -> None:
        async with workloads(usage=True) as harness:
            document = workload("web", {"replicas": 1})
            document["metadata"]["annotations"] = {"kubesched.io/cpu-load": "2"}
            template = document["spec"]["template"]["spec"]
            template["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
            await harness.create(Deployment, document)
            await harness.settle(60)
            await harness.create(AUTOSCALERS, autoscaler())
            await harness.settle(120)
            stored = harness.document(Deployment, "web")
            assert stored["spec"]["replicas"] == 4
            status = harness.document(AUTOSCALERS, "web")["status"]
            assert (status["currentReplicas"], status["desiredReplicas"]) == (4, 4)
            (metric,) = status["currentMetrics"]
            assert metric["resource"]["current"] == {
                "averageUtilization": 50,
                "averageValue": "500m",
            }
            conditions = {each["type"]: each["reason"] for each in status["conditions"]}
            assert conditions["ScalingActive"] == "ValidMetricFound"
            assert conditions["ScalingLimited"] == "DesiredWithinRange"
            # Less load: the number shrinks after five minutes, not before.
            note = {"metadata": {"annotations": {"kubesched.io/cpu-load": "200m"}}}
            await harness.patch(Deployment, "web", note)
            await harness.settle(240)
            assert harness.document(Deployment, "web")["spec"]["replicas"] == 4
            await harness.settle(120)
            assert harness.document(Deployment, "web")["spec"]["replicas"] == 1

    run(main)


def test_the_bounds_apply_without_metrics() -> None:
    async def main() -> None:
        async with workloads(usage=True) as harness:
            await harness.create(Deployment, workload("web", {"replicas": 9}))
            await harness.create(AUTOSCALERS, autoscaler(minReplicas=2))
            await harness.settle(20)
            assert harness.document(Deployment, "web")["spec"]["replicas"] == 6
            # The containers request nothing, so that there is no utilization.
            await harness.settle(60)
            conditions = {
                each["type"]: each
                for each in harness.document(AUTOSCALERS, "web")["status"]["conditions"]
            }
            active = conditions["ScalingActive"]
            assert (active["status"], active["reason"]) == ("False", "FailedGetResourceMetric")
            assert "missing request for cpu in container c of Pod web-" in active["message"]
            await harness.patch(Deployment, "web", {"spec": {"replicas": 0}})
            await harness.settle(60)
            assert harness.document(Deployment, "web")["spec"]["replicas"] == 0

    run(main)


def test_a_target_that_does_not_exist_is_reported() -> None:
    async def main() -> None:
        async with workloads(usage=True) as harness:
            await harness.create(AUTOSCALERS, autoscaler())
            await harness.settle(20)
            (condition,) = harness.document(AUTOSCALERS, "web")["status"]["conditions"]
            assert (condition["type"], condition["reason"]) == ("AbleToScale", "FailedGetScale")

    run(main)
