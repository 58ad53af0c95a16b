"""Jobs that create a Workload and a PodGroup, so that their pods are placed together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubesched.api import Job, Pod, PodGroup
from kubesched.api.scheduling import Workload
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run

FEATURES = frozenset({"GenericWorkload", "WorkloadWithJob"})
POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/train"}]}
GANG = {"parallelism": 3, "completions": 3, "completionMode": "Indexed"}


async def created_by(spec: dict[str, Any], features: frozenset[str] = FEATURES) -> Any:
    """What a cluster makes of a Job: its workloads, groups and pods."""
    cluster = EmbeddedCluster(
        current_clock(), derive(0, "store"), heartbeats=False, features=features
    )
    api = cluster.api
    job = {"metadata": {"name": "train"}, "spec": {"template": {"spec": POD}, **spec}}
    async with running(*cluster.parts):
        await api.create_document(Job, "default", job)
        await asyncio.sleep(5)
        pods = (await api.list(Pod)).items
        if "GenericWorkload" not in features:
            return [], [], pods
        return (await api.list(Workload)).items, (await api.list(PodGroup)).items, pods


def test_an_indexed_job_becomes_a_gang() -> None:
    async def scenario() -> None:
        workloads, groups, pods = await created_by(GANG)
        (workload,), (group,) = workloads, groups
        assert workload.metadata.name.startswith("train-")
        assert [each.kind for each in workload.metadata.owner_references] == ["Job"]
        (template,) = workload.spec.pod_group_templates
        assert template.name == "train-pgt-0"
        gang = group.spec.scheduling_policy.gang
        assert gang is not None
        assert gang.min_count == 3
        assert group.metadata.name.startswith(f"{workload.metadata.name}-train-pgt-0-")
        owners = [(each.kind, bool(each.controller)) for each in group.metadata.owner_references]
        assert owners == [("Job", True), ("Workload", False)]
        assert len(pods) == 3
        for pod in pods:
            assert pod.spec.scheduling_group is not None
            assert pod.spec.scheduling_group.pod_group_name == group.metadata.name

    run(scenario)


ORDINARY = {
    "no indexes": {**GANG, "completionMode": "NonIndexed"},
    "one pod": {**GANG, "parallelism": 1, "completions": 1},
    "more completions than pods at a time": {**GANG, "completions": 4},
    "a group of its own": {
        **GANG,
        "template": {"spec": {**POD, "schedulingGroup": {"podGroupName": "own"}}},
    },
}


@pytest.mark.parametrize("spec", ORDINARY.values(), ids=ORDINARY)
def test_other_jobs_create_no_group(spec: dict[str, Any]) -> None:
    async def scenario() -> None:
        workloads, groups, pods = await created_by(spec)
        assert (workloads, groups) == ([], [])
        assert pods

    run(scenario)


@pytest.mark.parametrize("features", [frozenset(), frozenset({"GenericWorkload"})], ids=str)
def test_without_the_gate_jobs_create_no_group(features: frozenset[str]) -> None:
    async def scenario() -> None:
        workloads, groups, pods = await created_by(GANG, features)
        assert (workloads, groups) == ([], [])
        assert [pod.spec.scheduling_group for pod in pods] == [None] * 3

    run(scenario)
