"""The cost of custom resources as large as a real API server stores them, in function calls."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from kubesched.api.custom_kinds import CustomObject
from kubesched.contrib.capacity_scheduling.elastic_quotas import ELASTIC_QUOTA_KIND, ElasticQuotas
from kubesched.contrib.coscheduling.group_spec import POD_GROUP_KIND, read_spec
from kubesched.contrib.network_aware.app_groups import APP_GROUP_KIND, read_app_group
from kubesched.contrib.node_resource_topology.zones import (
    MOST_COLUMNS,
    NODE_TOPOLOGY_KIND,
    ZoneColumns,
    read_topology,
)
from tests.contrib.harness import Json
from tests.counted_calls import count_calls, peak_bytes

MOST_CALLS = 250_000


def workload(name: str, *dependencies: str) -> Json:
    return {
        "workload": {"selector": name},
        "dependencies": [{"workload": {"selector": each}} for each in dependencies],
    }


GROUPS: dict[str, list[Json]] = {
    "one workload, many times": [workload("a", "b")] * 20_000,
    "circles of two": [workload(f"{n}", f"{n ^ 1}") for n in range(20_000)],
    "dependencies": [workload("a", *map(str, range(40_000)))],
}


@pytest.mark.parametrize("workloads", GROUPS.values(), ids=GROUPS)
def test_a_large_app_group_is_read_in_one_turn(workloads: list[Json]) -> None:
    document = {"metadata": {"name": "g"}, "spec": {"workloads": workloads}}
    assert len(msgspec.json.encode(document)) > 1_000_000
    stored = msgspec.convert(document, APP_GROUP_KIND.type)
    assert count_calls(lambda: read_app_group(stored)) < MOST_CALLS
    found = read_app_group(stored)
    # An attempt of a pod counts the pods of each of these.
    assert max(map(len, found.dependencies.values())) <= 100
    assert len(found.dependencies) <= 1_000


RESOURCES = {f"example.com/r{number}": f"{number}" for number in range(25_000)}


def quota(name: str) -> CustomObject:
    document = {
        "metadata": {"name": name, "namespace": name},
        "spec": {"min": RESOURCES, "max": RESOURCES},
    }
    return msgspec.convert(document, ELASTIC_QUOTA_KIND.type)


def test_large_elastic_quotas_are_read_in_one_turn() -> None:
    quotas = ElasticQuotas()
    for number in range(5):
        quotas.quota_changed(None, quota(f"team{number}"))
    assert count_calls(lambda: quotas.quota_changed(quota("team0"), quota("team0"))) < MOST_CALLS
    found = quotas.of("team0")
    assert found is not None
    assert found.min["example.com/r3"] == found.max["example.com/r3"] == 3


def test_a_large_pod_group_is_read_in_one_turn() -> None:
    document = {"metadata": {"name": "g"}, "spec": {"minMember": 2, "minResources": RESOURCES}}
    stored = msgspec.convert(document, POD_GROUP_KIND.type)
    assert count_calls(lambda: read_spec(stored)) < 10_000
    least = read_spec(stored).min_resources
    # While pods of the group are pending, each is added up over all nodes.
    assert least is not None
    assert len(least.scalar) == 128
    assert least.amount("example.com/r3") == 3


def topology(resources: int) -> Json:
    return {
        "metadata": {"name": "n"},
        "zones": [
            {
                "name": f"node-{zone}",
                "type": "Node",
                "resources": [
                    {"name": f"r/{zone}-{n}", "allocatable": f"{n}", "available": f"{n}"}
                    for n in range(resources // 8)
                ],
            }
            for zone in range(8)
        ],
    }


def test_a_topology_with_many_resources_takes_no_columns_for_them() -> None:
    document = topology(21_000)
    assert len(msgspec.json.encode(document)) > 1_000_000
    stored = msgspec.convert(document, NODE_TOPOLOGY_KIND.type)
    assert count_calls(lambda: read_topology(stored)) < 2 * MOST_CALLS
    found, columns = read_topology(stored), ZoneColumns(5_000)
    calls = count_calls(lambda: columns.put(7, found, {"r/1-5": 2}))
    assert calls < 1_000
    assert peak_bytes(lambda: columns.put(8, found, {})) < 1_000_000
    assert columns.available("r/1-5")[1, [6, 7, 8]].tolist() == [-1, 3, 5]
    assert columns.available("r/1-5")[0, 7] == -1
    assert columns.allocatable("r/1-5")[1, 7] == 5


def test_columns_of_many_requested_resources_are_not_stored_for_ever() -> None:
    stored = msgspec.convert(topology(8_000), NODE_TOPOLOGY_KIND.type)
    columns = ZoneColumns(1_000)
    columns.put(0, read_topology(stored), {})

    def read_all() -> None:
        for number in range(1_000):
            assert columns.available(f"r/0-{number}")[0, 0] == number

    assert peak_bytes(read_all) < (MOST_COLUMNS + 10) * 8 * 1_000 * 8
    # A copy has the resources that one pod requests, however many these are.
    names = [f"r/0-{number}" for number in range(2 * MOST_COLUMNS)]
    part = columns.at(np.array([0]), names)
    assert [part.available(name)[0, 0] for name in names] == list(range(2 * MOST_COLUMNS))
