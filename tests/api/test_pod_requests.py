"""Requests of pods: every recorded pod, and the table of docs/reference/05 §11.2."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kubesched.api import (
    Container,
    ContainerStatus,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    RawQuantity,
    ResourceRequirements,
)
from kubesched.api.codec import from_builtins
from kubesched.api.pod_requests import (
    FIT_REQUESTS,
    NODE_REQUESTS,
    SCORE_REQUESTS,
    PodRequestOptions,
    fit_requested,
    node_amounts,
    pod_nonzero_requested,
    pod_requested,
    pod_requests,
)
from kubesched.api.resource_amounts import Resources

Amounts = dict[str, RawQuantity]
MI = 1024 * 1024
INFEASIBLE = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
DEFERRED = PodCondition(type="PodResizePending", status="True", reason="Deferred")


def container(requests: Amounts | None = None, name: str = "main", **fields: Any) -> Container:
    return Container(name=name, resources=ResourceRequirements(requests=requests or {}), **fields)


def sidecar(requests: Amounts | None = None, name: str = "sidecar") -> Container:
    return container(requests, name, restart_policy="Always")


def cpu(amount: RawQuantity) -> Amounts:
    return {"cpu": amount}


def status(
    actual: Amounts | None, allocated: Amounts | None = None, name: str = "main"
) -> ContainerStatus:
    return ContainerStatus(
        name=name,
        resources=None if actual is None else ResourceRequirements(requests=actual),
        allocated_resources=allocated or {},
    )


def pod(
    *containers: Container,
    init: tuple[Container, ...] = (),
    overhead: Amounts | None = None,
    pod_level: Amounts | None = None,
    **status_fields: Any,
) -> Pod:
    return Pod(
        spec=PodSpec(
            containers=containers,
            init_containers=init,
            overhead=overhead or {},
            resources=None if pod_level is None else ResourceRequirements(requests=pod_level),
        ),
        status=PodStatus(**status_fields),
    )


def recorded(goldens: Path) -> list[dict[str, Any]]:
    with gzip.open(goldens / "pod_requests.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


def test_recorded_pods(goldens: Path) -> None:
    cases = recorded(goldens)
    assert len(cases) == 600
    for case in cases:
        subject = from_builtins(case["pod"], Pod)
        got = pod_requested(subject)
        assert {
            "cpu": got.milli_cpu,
            "memory": got.memory,
            "ephemeral-storage": got.ephemeral_storage,
            **got.scalar,
        } == case["requests"], subject
        nonzero_cpu, nonzero_memory = pod_nonzero_requested(subject)
        assert {"cpu": nonzero_cpu, "memory": nonzero_memory} == case["nonZero"], subject


def test_the_fast_path_for_one_container_agrees_with_the_general_one(goldens: Path) -> None:
    # A second container without requests makes the pod take the general path.
    bare = container({"cpu": "0", "memory": "0"}, "bare")
    for case in recorded(goldens):
        spec = from_builtins(case["pod"], Pod).spec
        short = pod(spec.containers[0])
        long = pod(spec.containers[0], bare)
        for options in (FIT_REQUESTS, NODE_REQUESTS):
            assert pod_requested(short, options) == pod_requested(long, options)
            assert pod_nonzero_requested(short, options) == pod_nonzero_requested(long, options)


class Case(NamedTuple):
    pod: Pod
    want: dict[str, str]
    options: PodRequestOptions = NODE_REQUESTS


CASES = {
    "an init container that asks for more sets the request": Case(
        pod(container(cpu(1)), init=(container(cpu(4)),)), {"cpu": "4"}
    ),
    "containers add up, and overhead comes on top": Case(
        pod(
            container(cpu(2)),
            container(cpu(3)),
            init=(container(cpu(2)),),
            overhead={"cpu": "1", "memory": "1Gi"},
        ),
        {"cpu": "6", "memory": "1Gi"},
    ),
    "sidecars run beside the containers": Case(
        pod(
            container(cpu(1)),
            init=(container(cpu(5)), sidecar(cpu(1)), sidecar(cpu(2)), sidecar(cpu(3))),
        ),
        {"cpu": "7"},
    ),
    "an init container needs room beside the sidecars before it": Case(
        pod(
            container(cpu(1)),
            init=(
                container(cpu(5)),
                sidecar(cpu(1)),
                sidecar(cpu(2)),
                container(cpu(5)),
                sidecar(cpu(3)),
            ),
        ),
        {"cpu": "8"},
    ),
    "a large init container after a sidecar": Case(
        pod(container(cpu(100)), init=(sidecar(cpu(10)), container(cpu(200)))), {"cpu": "210"}
    ),
    "a smaller grant does not lower the request": Case(
        pod(container(cpu(4)), container_statuses=(status(cpu(2)),)), {"cpu": "4"}
    ),
    "a resize that cannot be had does not count": Case(
        pod(container(cpu(4)), container_statuses=(status(cpu(2)),), conditions=(INFEASIBLE,)),
        {"cpu": "2"},
    ),
    "a deferred resize counts": Case(
        pod(container(cpu(4)), container_statuses=(status(cpu(2)),), conditions=(DEFERRED,)),
        {"cpu": "4"},
    ),
    "only the first resize condition is looked at": Case(
        pod(
            container(cpu(4)),
            container_statuses=(status(cpu(2)),),
            conditions=(DEFERRED, INFEASIBLE),
        ),
        {"cpu": "4"},
    ),
    "who does not look at the status sees the wish": Case(
        pod(container(cpu(4)), container_statuses=(status(cpu(2)),), conditions=(INFEASIBLE,)),
        {"cpu": "4"},
        FIT_REQUESTS,
    ),
    "of an infeasible resize the allocation counts": Case(
        pod(
            container(cpu(6)),
            container_statuses=(status(cpu(2), cpu(4)),),
            conditions=(INFEASIBLE,),
        ),
        {"cpu": "4"},
    ),
    "the most of wish, allocation and use, for each resource": Case(
        pod(
            container({"cpu": "30m", "memory": "20M"}),
            container_statuses=(
                status({"cpu": "10m", "memory": "30M"}, {"cpu": "20m", "memory": "10M"}),
            ),
        ),
        {"cpu": "30m", "memory": "30M"},
    ),
    "what is in use counts without a wish": Case(
        pod(container(), container_statuses=(status(cpu(2)),)), {"cpu": "2"}
    ),
    "an allocation without actual resources is ignored": Case(
        pod(container(cpu(1)), container_statuses=(status(None, cpu(5)),)), {"cpu": "1"}
    ),
    "the status of a plain init container is ignored": Case(
        pod(
            container(cpu(1)),
            init=(container(cpu(2), "setup"),),
            init_container_statuses=(status(cpu(9), name="setup"),),
        ),
        {"cpu": "2"},
    ),
    "the status of a sidecar counts": Case(
        pod(
            container(cpu(1)),
            init=(sidecar(cpu(2)),),
            init_container_statuses=(status(cpu(9), name="sidecar"),),
        ),
        {"cpu": "10"},
    ),
    "the pod's own requests join those of containers": Case(
        pod(
            container({"memory": "4Mi", "hugepages-1Gi": "1Gi"}),
            pod_level={"cpu": "1", "hugepages-2Mi": "10Mi"},
        ),
        {"cpu": "1", "hugepages-2Mi": "10Mi", "memory": "4Mi", "hugepages-1Gi": "1Gi"},
    ),
    "a pod cannot request storage as a whole": Case(
        pod(container({"ephemeral-storage": "2Gi"}), pod_level={"ephemeral-storage": "9Gi"}),
        {"ephemeral-storage": "2Gi"},
    ),
    "the pod's own request replaces the sum": Case(
        pod(
            container(cpu("2m")),
            init=(sidecar(cpu("4m")), container(cpu("8m"))),
            pod_level=cpu("18m"),
        ),
        {"cpu": "18m"},
    ),
    "even when it is smaller": Case(pod(container(cpu(5)), pod_level=cpu(3)), {"cpu": "3"}),
    "overhead comes on top of the pod's own request": Case(
        pod(container(cpu(5)), pod_level=cpu(3), overhead=cpu(1)), {"cpu": "4"}
    ),
    "what the pod as a whole uses counts": Case(
        pod(
            container(),
            pod_level=cpu(1),
            resources=ResourceRequirements(requests=cpu(2)),
            allocated_resources=cpu(3),
        ),
        {"cpu": "3"},
    ),
    "but not to who does not look at the status": Case(
        pod(container(), pod_level=cpu(1), resources=ResourceRequirements(requests=cpu(2))),
        {"cpu": "1"},
        FIT_REQUESTS,
    ),
    "scores of an incoming pod are blind to the pod's own requests": Case(
        pod(container(), pod_level=cpu(4)), {"cpu": "100m", "memory": "200Mi"}, SCORE_REQUESTS
    ),
    "a request of zero is kept": Case(pod(container(cpu(0))), {"cpu": "0"}),
    "claims on the node itself count when asked for": Case(
        pod(
            container(cpu(1)),
            node_allocatable_resource_claim_statuses=(
                NodeAllocatableResourceClaimStatus(resources=cpu(2)),
            ),
        ),
        {"cpu": "3"},
        PodRequestOptions(node_allocatable_claims=True),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_requests(case: Case) -> None:
    got = {name: str(amount) for name, amount in pod_requests(case.pod, case.options).items()}
    assert got == case.want
    want = Resources.from_resource_list(dict(case.want))
    assert pod_requested(case.pod, case.options) == want


NONZERO = {
    "each bare container counts": (pod(container(), container()), (200, 400 * MI)),
    "an explicit zero stays": (pod(container({"cpu": "0"})), (0, 200 * MI)),
    "bare init containers count as well": (
        pod(
            container({"cpu": "3m", "memory": "3"}),
            init=(container(), container({"cpu": "1m", "memory": "1"})),
        ),
        (100, 200 * MI),
    ),
    "only what the pod's own requests leave open is filled in": (
        pod(container(), pod_level={"memory": "1200M"}),
        (100, 1_200_000_000),
    ),
    "an unsupported pod-level request does not count as one": (
        pod(container(), pod_level={"ephemeral-storage": "1Gi"}),
        (100, 200 * MI),
    ),
    "no containers, no defaults": (
        pod(overhead={"cpu": "1", "memory": "1Mi"}),
        (1000, MI),
    ),
    "the short cut fills in what is missing": (pod(container(cpu("5m"))), (5, 200 * MI)),
}


@pytest.mark.parametrize(("subject", "want"), NONZERO.values(), ids=NONZERO)
def test_nonzero_requests(subject: Pod, want: tuple[int, int]) -> None:
    assert pod_nonzero_requested(subject) == want
    assert node_amounts(subject) == (pod_requested(subject), want)


def test_pods_with_equal_requests_share_their_amounts() -> None:
    first, second = pod(container(cpu("250m"))), pod(container(cpu("250m")))
    assert node_amounts(first)[0] is node_amounts(second)[0]
    assert node_amounts(pod(container(cpu("1"))))[0] == Resources(milli_cpu=1000)


def test_amounts_are_rounded_once_per_pod() -> None:
    three = pod(*(container({"memory": "400m"}) for _ in range(3)))
    assert pod_requested(three).memory == 2


def test_an_allocation_equal_to_the_request_changes_nothing() -> None:
    subject = pod(container(cpu(4)), container_statuses=(status(cpu(4), cpu(4)),))
    assert pod_requested(subject) == fit_requested(subject) == Resources(milli_cpu=4000)
