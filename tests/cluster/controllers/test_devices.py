"""Devices of nodes are published, allocated to claims, and released."""

from __future__ import annotations

import json
from typing import Any

from kubesched.api import (
    DeviceClass,
    Node,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kubesched.cluster.controllers.device_driver import DEVICES
from tests.cluster.controllers.test_volumes import run_on_cluster
from tests.cluster.controllers.workloads import Workloads

Json = dict[str, Any]
DRIVER = "gpu.example.com"


async def equip(harness: Workloads, node: str, *groups: Json) -> None:
    annotations = {DEVICES: json.dumps(list(groups)) if groups else None}
    await harness.api.patch(
        Node, node, None, {"metadata": {"annotations": annotations}}, patch_type="merge"
    )
    await harness.settle(1)


async def template(
    harness: Workloads, name: str = "one", selector: str = "", count: int = 1
) -> None:
    exactly: Json = {"deviceClassName": DRIVER, "count": count}
    if selector:
        exactly["selectors"] = [{"cel": {"expression": selector}}]
    devices = {"requests": [{"name": "gpu", "exactly": exactly}]}
    body = {"metadata": {"name": name}, "spec": {"spec": {"devices": devices}}}
    await harness.create(ResourceClaimTemplate, body)


async def pod(
    harness: Workloads, name: str, template_name: str = "one", **annotations: str
) -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": template_name}]
    container = {"name": "c", "image": "pause", "resources": {"claims": [{"name": "gpu"}]}}
    notes = {f"kubesched.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": notes}
    body = {"metadata": metadata, "spec": {"containers": [container], "resourceClaims": claims}}
    await harness.create(Pod, body)
    await harness.settle(5)


async def nodes(harness: Workloads) -> dict[str, str]:
    return {each.metadata.name: each.spec.node_name for each in await harness.pods()}


def test_a_node_publishes_its_devices_and_takes_them_along() -> None:
    async def test(harness: Workloads) -> None:
        group = {"driver": DRIVER, "count": 100, "attributes": {"model": "a100", "cores": "8"}}
        await equip(harness, "n0", group)
        slices = await harness.all(ResourceSlice)
        assert sorted(len(each.spec.devices) for each in slices) == [36, 64]
        assert {each.spec.pool.resource_slice_count for each in slices} == {2}
        device = max(slices, key=lambda each: len(each.spec.devices)).spec.devices[0]
        assert device.name == "gpu-0"
        assert device.attributes["model"].string_value == "a100"
        assert device.attributes["cores"].int_value == 8
        assert [each.metadata.name for each in await harness.all(DeviceClass)] == [DRIVER]
        await equip(harness, "n0", {"driver": DRIVER, "count": 1})
        (left,) = await harness.all(ResourceSlice)
        assert (len(left.spec.devices), left.spec.pool.generation) == (1, 2)
        await harness.api.delete(Node, "n0")
        await harness.settle(1)
        assert await harness.all(ResourceSlice) == []

    run_on_cluster(test)


def test_devices_of_claim_templates_are_allocated_and_released() -> None:
    async def test(harness: Workloads) -> None:
        await equip(harness, "n0", {"driver": DRIVER, "count": 1, "attributes": {"model": "old"}})
        await equip(harness, "n1", {"driver": DRIVER, "count": 1, "attributes": {"model": "new"}})
        await template(harness, selector=f'device.attributes["{DRIVER}"].model == "new"')
        await pod(harness, "first", run_duration="30s")
        await pod(harness, "second")
        assert await nodes(harness) == {"first": "n1", "second": ""}
        await harness.settle(60)  # the first has ended
        assert await nodes(harness) == {"first": "n1", "second": "n1"}
        claims = await harness.all(ResourceClaim)
        assert [each.metadata.name.rsplit("-", 1)[0] for each in claims] == ["second-gpu"]
        await harness.api.delete(Pod, "second", "default")
        await harness.settle(10)
        assert await harness.all(ResourceClaim) == []

    run_on_cluster(test)


def test_a_device_is_allocated_whole_or_in_partitions() -> None:
    async def test(harness: Workloads) -> None:
        await equip(harness, "n0", {"driver": DRIVER, "count": 1, "partitions": 2})
        partition = f'device.attributes["{DRIVER}"].partition'
        await template(harness, "part", partition)
        await template(harness, "whole", f"!{partition}")
        await pod(harness, "a", "part")
        await pod(harness, "w", "whole")
        await pod(harness, "b", "part")
        await pod(harness, "c", "part")
        assert await nodes(harness) == {"a": "n0", "w": "", "b": "n0", "c": ""}
        for name in ("a", "b", "c"):
            await harness.api.delete(Pod, name, "default")
        await harness.settle(60)
        assert await nodes(harness) == {"w": "n0"}

    run_on_cluster(test)


def test_an_invalid_device_annotation_is_reported_and_publishes_no_slice() -> None:
    async def test(harness: Workloads) -> None:
        await equip(harness, "n0", {"driver": DRIVER, "cuont": 3})
        assert await harness.all(ResourceSlice) == []

    run_on_cluster(test)
