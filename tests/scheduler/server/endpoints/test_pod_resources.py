"""`/metrics/resources` (docs/reference/02 §11.3, cases 39, 79 and 80)."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from kubesched.api import Pod, from_builtins
from kubesched.foundation.util.clock import ManualClock
from kubesched.scheduler.server.endpoints.pod_resources import pod_series
from tests.scheduler.server.serving_harness import ADMIN, ServingHarness

Json = dict[str, Any]


def resources(requests: Json | None = None, limits: Json | None = None) -> Json:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}}


def pod(spec: Json, phase: str = "Pending") -> Pod:
    document = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"schedulerName": "default-scheduler", **spec},
        "status": {"phase": phase},
    }
    return from_builtins(document, Pod)


def values(found: Pod) -> dict[tuple[str, str], str]:
    """(metric without prefix, resource) to the number written."""
    return {
        (metric.removeprefix("kube_pod_resource_"), labels[4]): line.split()[-1]
        for metric, (labels, line) in pod_series(found)
    }


def page(pods: list[Pod], *, is_leading: bool = True) -> bytes:
    harness = ServingHarness(ManualClock(), pods=pods, is_leading=is_leading)
    return asyncio.run(harness.ask("/metrics/resources", token=ADMIN)).body


def test_the_page_equals_the_recorded_one(goldens: Path) -> None:
    recorded = json.loads((goldens / "api/pods.json").read_text())
    items = recorded["items"] if isinstance(recorded, dict) else recorded
    pods = [from_builtins(item, Pod) for item in items]
    expected = (goldens / "api/metrics-resources.txt").read_bytes()
    # Of the help text, the recording has the level of stability only.
    for got in (page(pods), page(list(reversed(pods)))):
        assert re.sub(rb"(# HELP \S+ \[\w+\]).*", rb"\1", got) == expected


def test_a_standby_has_no_resource_metrics() -> None:
    assert page([pod({"containers": [resources({"cpu": "1"})]})], is_leading=False) == b""


CASES: dict[str, tuple[Json, dict[tuple[str, str], str]]] = {
    "the largest init step counts, overhead comes on top": (
        {
            "initContainers": [resources({"cpu": "2"})],
            "containers": [resources({"cpu": "1"})],
            "overhead": {"cpu": "250m"},
        },
        {("request", "cpu"): "2.25"},
    ),
    "overhead adds to limits that exist": (
        {
            "containers": [resources({"cpu": "1"}, {"cpu": "2"})],
            "overhead": {"cpu": "250m", "memory": "1Mi"},
        },
        {
            ("request", "cpu"): "1.25",
            ("request", "memory"): "1.048576e+06",
            ("limit", "cpu"): "2.25",
        },
    ),
    "a sidecar runs beside the containers": (
        {
            "initContainers": [{**resources({"cpu": "1"}), "restartPolicy": "Always"}],
            "containers": [resources({"cpu": "1"})],
        },
        {("request", "cpu"): "2"},
    ),
    "amounts of the pod as a whole replace the sum": (
        {
            "containers": [resources({"cpu": "1"}, {"cpu": "3"})],
            "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "4"}},
        },
        {("request", "cpu"): "0.5", ("limit", "cpu"): "4"},
    ),
    "zero amounts are left out": (
        {"containers": [resources({"cpu": "0", "memory": "1"})]},
        {("request", "memory"): "1"},
    ),
}


@pytest.mark.parametrize(("spec", "expected"), CASES.values(), ids=CASES)
def test_amounts(spec: Json, expected: dict[tuple[str, str], str]) -> None:
    assert values(pod(spec)) == expected


def test_completed_pods_are_skipped_only_if_they_have_a_node() -> None:
    spec: Json = {"containers": [resources({"cpu": "1"})]}
    assert values(pod({**spec, "nodeName": "n"}, "Succeeded")) == {}
    assert values(pod(spec, "Succeeded")) == {("request", "cpu"): "1"}


@pytest.mark.parametrize(
    ("resource", "unit"),
    {
        "cpu": "cores",
        "memory": "bytes",
        "ephemeral-storage": "bytes",
        "hugepages-2Mi": "bytes",
        "attachable-volumes-csi-x": "integer",
        "example.com/gpu": "",
    }.items(),
)
def test_units(resource: str, unit: str) -> None:
    found = pod({"containers": [resources({resource: "1"})], "priority": 7, "nodeName": "n-1"})
    [(_, (_, line))] = pod_series(found)
    assert line == (
        f'kube_pod_resource_request{{namespace="ns",node="n-1",pod="p",priority="7",'
        f'resource="{resource}",scheduler="default-scheduler",unit="{unit}"}} 1\n'
    )
