"""Endpoints and EndpointSlices: ports by pod, labels, mirroring, and what stays with others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kubesched.api import Pod, Service
from kubesched.api.discovery import EndpointSlice
from kubesched.cluster.controllers.endpoint_slices import ENDPOINTS
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workloads

Json = dict[str, Any]


def run_on_cluster(test: Callable[[Workloads], Awaitable[None]], nodes: int = 1) -> None:
    async def main() -> None:
        async with workloads(nodes) as harness:
            await test(harness)

    run(main)


async def pod(harness: Workloads, name: str, port: int | None = None, **spec: Any) -> str:
    """Create a pod that the Services of these tests select, and return its address."""
    container: Json = {"name": "c", "image": "nginx"}
    if port is not None:
        container["ports"] = [{"name": "web", "containerPort": port}]
    document = {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [container], **spec},
    }
    await harness.create(Pod, document)
    await harness.settle(5)
    return (await harness.get(Pod, name)).status.pod_ip


async def service(harness: Workloads, labels: Json | None = None, **spec: Any) -> None:
    filled = {"selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
    body = {"metadata": {"name": "web", "labels": labels or {}}, "spec": filled}
    await harness.create(Service, {**body, "spec": {k: v for k, v in filled.items() if v}})
    await harness.settle(5)


async def slices(harness: Workloads) -> list[Json]:
    found = [each.metadata.name for each in await harness.all(EndpointSlice)]
    return [harness.document(EndpointSlice, name) for name in found]


def contents(documents: list[Json]) -> list[tuple[list[int], list[str]]]:
    """Return the port numbers and the addresses of slices, by port."""
    return sorted(
        (
            [port["port"] for port in each.get("ports") or ()],
            [endpoint["addresses"][0] for endpoint in each.get("endpoints") or ()],
        )
        for each in documents
    )


NAMED = [{"name": "http", "port": 80, "targetPort": "web"}]


def test_a_target_port_with_a_name_is_looked_up_in_each_pod() -> None:
    async def test(harness: Workloads) -> None:
        first, second = await pod(harness, "a", 3000), await pod(harness, "b", 3001)
        await pod(harness, "c")  # has no port of this name
        await service(harness, ports=NAMED)
        assert [each for each in contents(await slices(harness)) if each[0]] == [
            ([3000], [first]),
            ([3001], [second]),
        ]
        subsets = harness.document(ENDPOINTS, "web")["subsets"]
        assert [
            ([each["ip"] for each in subset["addresses"]], subset["ports"]) for subset in subsets
        ] == [
            ([first], [{"name": "http", "port": 3000, "protocol": "TCP"}]),
            ([second], [{"name": "http", "port": 3001, "protocol": "TCP"}]),
        ]

    run_on_cluster(test)


def test_a_port_of_another_protocol_does_not_match() -> None:
    async def test(harness: Workloads) -> None:
        address = await pod(harness, "a", 3000)
        await service(harness, ports=[{**NAMED[0], "protocol": "UDP"}])
        assert contents(await slices(harness)) == [([], [address])]
        assert harness.document(ENDPOINTS, "web").get("subsets", []) == []

    run_on_cluster(test)


def test_a_service_without_pods_has_a_slice_without_ports() -> None:
    async def test(harness: Workloads) -> None:
        await service(harness)
        assert contents(await slices(harness)) == [([], [])]
        name = (await slices(harness))[0]["metadata"]["name"]
        address = await pod(harness, "a")
        assert contents(await slices(harness)) == [([80], [address])]
        assert (await slices(harness))[0]["metadata"]["name"] == name
        await harness.api.delete(Pod, "a", "default")
        await harness.settle(40)
        assert contents(await slices(harness)) == [([], [])]

    run_on_cluster(test)


def test_endpoints_stay_in_their_slice_when_others_come_and_go() -> None:
    async def test(harness: Workloads) -> None:
        pods = [f"p{number:03}" for number in range(120)]
        for name in pods:
            await harness.create(
                Pod,
                {
                    "metadata": {"name": name, "labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
            )
        await harness.settle(30)
        await service(harness)

        async def places() -> dict[str, str]:
            return {
                endpoint["targetRef"]["name"]: each["metadata"]["name"]
                for each in await slices(harness)
                for endpoint in each["endpoints"]
            }

        before = await places()
        assert len(set(before.values())) == 2
        await harness.api.delete(Pod, "p000", "default")
        await harness.settle(40)
        assert await places() == {name: before[name] for name in pods[1:]}

    run_on_cluster(test, nodes=2)


def test_labels_follow_the_service_and_a_headless_one_is_marked() -> None:
    async def test(harness: Workloads) -> None:
        await service(harness, {"team": "a"}, clusterIP="None")
        headless = {"service.kubernetes.io/headless": ""}
        manager = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
        own = {"kubernetes.io/service-name": "web", **manager, **headless}
        by_endpoints = {"endpoints.kubernetes.io/managed-by": "endpoint-controller", **headless}
        (each,) = await slices(harness)
        assert each["metadata"]["labels"] == {"team": "a", **own}
        document = harness.document(ENDPOINTS, "web")
        assert document["metadata"]["labels"] == {"team": "a", **by_endpoints}
        assert "ownerReferences" not in document["metadata"]
        await harness.patch(Service, "web", {"metadata": {"labels": {"team": None, "x": "y"}}})
        await harness.settle(5)
        (each,) = await slices(harness)
        assert each["metadata"]["labels"] == {"x": "y", **own}
        labels = harness.document(ENDPOINTS, "web")["metadata"]["labels"]
        assert labels == {"x": "y", **by_endpoints}

    run_on_cluster(test)


def test_a_host_name_needs_the_service_as_its_subdomain() -> None:
    async def test(harness: Workloads) -> None:
        await pod(harness, "a", hostname="one", subdomain="web")
        await pod(harness, "b", hostname="two", subdomain="elsewhere")
        await service(harness)
        (each,) = await slices(harness)
        assert [endpoint.get("hostname") for endpoint in each["endpoints"]] == ["one", None]

    run_on_cluster(test)


def test_endpoints_of_a_service_are_deleted_with_it() -> None:
    async def test(harness: Workloads) -> None:
        await service(harness)
        await harness.create(ENDPOINTS, {"metadata": {"name": "of-nobody"}})
        await harness.api.delete(Service, "web", "default")
        await harness.settle(5)
        left = [each.metadata.name for each in await harness.all(ENDPOINTS)]
        assert left == ["of-nobody"]
        assert await slices(harness) == []

    run_on_cluster(test)


OWN: Json = {
    "metadata": {"name": "web", "labels": {"team": "a"}, "annotations": {"note": "n"}},
    "subsets": [
        {
            "addresses": [{"ip": "10.1.2.3"}, {"ip": "2001:db8::1"}],
            "notReadyAddresses": [{"ip": "10.1.2.4", "hostname": "h"}, {"ip": "10.1.2.3"}],
            "ports": [{"name": "http", "port": 80}],
        }
    ],
}


def test_endpoints_that_a_client_writes_are_mirrored() -> None:
    async def test(harness: Workloads) -> None:
        await service(harness, selector=None)
        await harness.create(ENDPOINTS, OWN)
        await harness.settle(5)
        found = sorted(await slices(harness), key=lambda each: each["addressType"])
        assert [each["addressType"] for each in found] == ["IPv4", "IPv6"]
        first = found[0]
        assert first["metadata"]["labels"] == {
            "team": "a",
            "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
        }
        assert first["metadata"]["annotations"] == {"note": "n"}
        (owner,) = first["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Endpoints", "web", True)
        assert first["ports"] == [{"name": "http", "port": 80, "protocol": "TCP"}]
        assert first["endpoints"] == [
            {"addresses": ["10.1.2.3"], "conditions": {"ready": True}},
            {"addresses": ["10.1.2.4"], "conditions": {"ready": False}, "hostname": "h"},
        ]
        new = {"subsets": [{"addresses": [{"ip": "10.1.2.9"}], "ports": [{"port": 8080}]}]}
        await harness.patch(ENDPOINTS, "web", new)
        await harness.settle(5)
        assert contents(await slices(harness)) == [([8080], ["10.1.2.9"])]
        await harness.api.delete(Service, "web", "default")
        await harness.settle(5)
        assert await harness.all(ENDPOINTS) == []
        assert await slices(harness) == []

    run_on_cluster(test)


def test_endpoints_that_are_not_to_be_mirrored_are_not() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(ENDPOINTS, OWN)
        await harness.settle(5)
        assert await slices(harness) == []  # there is no Service
        await service(harness, selector=None)
        assert len(await slices(harness)) == 2
        skip = {"endpointslice.kubernetes.io/skip-mirror": "true"}
        await harness.patch(ENDPOINTS, "web", {"metadata": {"labels": skip}})
        await harness.settle(5)
        assert await slices(harness) == []
        assert harness.document(ENDPOINTS, "web")["subsets"] == [
            {**OWN["subsets"][0], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}
        ]

    run_on_cluster(test)
