"""Webhooks over TLS: a cluster with real sockets calls a real server in this process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kubesched.api import ApiError, Deployment, Pod, Service
from kubesched.api.core import ConfigMap
from kubesched.api.discovery import EndpointSlice
from kubesched.api.plain_kinds import plain_type
from kubesched.foundation.http.http_messages import JSON, Request, Response
from kubesched.foundation.http.http_server import HttpServer
from kubesched.foundation.http.self_signed import self_signed_certificate
from kubesched.testing import Cluster
from tests.cluster.controllers.workloads import workload

Json = dict[str, Any]

MUTATING = plain_type("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration")
ENDPOINTS = plain_type("v1", "Endpoints")
LABEL = [{"op": "add", "path": "/metadata/labels/injected", "value": "yes"}]


class Hook:
    """A webhook that labels objects; it counts the requests."""

    def __init__(self) -> None:
        pair = self_certificate()
        self.authority = base64.b64encode(pair.authority).decode()
        self._server, self._tls = HttpServer(self._answer), pair.server_context()
        self.requests: list[Request] = []
        self.port = 0

    async def start(self) -> None:
        await self._server.listen("127.0.0.1", 0, self._tls)
        self.port = self._server.address[1]

    async def stop(self) -> None:
        await self._server.close(0, abort=True)

    async def _answer(self, request: Request) -> Response:
        self.requests.append(request)
        review = json.loads(await request.read_body())
        patch = base64.b64encode(json.dumps(LABEL).encode()).decode()
        uid = review["request"]["uid"]
        response = {"uid": uid, "allowed": True, "patch": patch, "patchType": "JSONPatch"}
        body = {**review, "response": response}
        return Response(200, json.dumps(body).encode(), JSON)


def self_certificate() -> Any:
    names = ["web.default.svc", "127.0.0.1"]
    return self_signed_certificate(names, time.time_ns(), key_type="ec")


def configuration(client: Json, **fields: Any) -> Json:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods", "configmaps"],
    }
    hook = {
        "name": "label.example.com",
        "clientConfig": client,
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }
    return {"metadata": {"name": "label"}, "webhooks": [hook]}


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[tuple[Cluster, Hook]]:
    hook = Hook()
    await hook.start()
    try:
        async with Cluster(nodes=1) as cluster:
            yield cluster, hook
    finally:
        await hook.stop()


def steps(test: Callable[[Cluster, Hook], Awaitable[None]]) -> None:
    async def main() -> None:
        async with running() as (cluster, hook):
            await test(cluster, hook)

    asyncio.run(main())


async def config_map(cluster: Cluster, name: str = "one") -> ConfigMap:
    document = {"metadata": {"name": name, "labels": {"a": "b"}}}
    return await cluster.api.create_document(ConfigMap, "default", document)


async def service(cluster: Cluster, **metadata: Any) -> None:
    body = {"metadata": {"name": "web", **metadata}, "spec": {"ports": [{"port": 443}]}}
    await cluster.api.create_document(Service, "default", body)


SERVICE = {"service": {"name": "web", "namespace": "default", "path": "/hook"}}


def test_a_webhook_by_url_changes_the_pods_of_a_deployment() -> None:
    async def test(cluster: Cluster, hook: Hook) -> None:
        client = {"url": f"https://127.0.0.1:{hook.port}/", "caBundle": hook.authority}
        await cluster.api.create_document(MUTATING, None, configuration(client))
        await cluster.api.create_document(Deployment, "default", workload("web", {"replicas": 2}))

        def is_up(found: Deployment) -> bool:
            return found.status.ready_replicas == 2

        await cluster.wait_for(Deployment, "web", is_up)
        pods = (await cluster.api.list(Pod)).items
        assert [pod.metadata.labels.get("injected") for pod in pods] == ["yes", "yes"]

    steps(test)


def test_a_webhook_by_service_is_found_by_its_annotation() -> None:
    async def test(cluster: Cluster, hook: Hook) -> None:
        await service(cluster, annotations={"kubesched.io/endpoint": f"127.0.0.1:{hook.port}"})
        client = {**SERVICE, "caBundle": hook.authority}
        await cluster.api.create_document(MUTATING, None, configuration(client))
        assert (await config_map(cluster)).metadata.labels == {"a": "b", "injected": "yes"}
        (request,) = hook.requests
        assert (request.path, request.query.get("timeout")) == ("/hook", "10s")

    steps(test)


def test_a_webhook_by_service_is_found_by_endpoints_of_a_client() -> None:
    async def test(cluster: Cluster, hook: Hook) -> None:
        await service(cluster)
        subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": hook.port}]}
        body = {"metadata": {"name": "web"}, "subsets": [subset]}
        await cluster.api.create_document(ENDPOINTS, "default", body)

        def is_mirrored(found: EndpointSlice) -> bool:
            return found.metadata.labels.get("kubernetes.io/service-name") == "web"

        async for event in cluster.api.watch(EndpointSlice, resource_version="0"):
            if event.object is not None and is_mirrored(event.object):
                break
        client = {**SERVICE, "caBundle": hook.authority}
        await cluster.api.create_document(MUTATING, None, configuration(client))
        assert (await config_map(cluster)).metadata.labels["injected"] == "yes"

    steps(test)


ERROR = (
    'Internal error occurred: failed calling webhook "label.example.com": failed to call webhook: '
)


def test_failures_of_webhooks_have_a_reason() -> None:
    async def test(cluster: Cluster, hook: Hook) -> None:
        url = f"https://127.0.0.1:{hook.port}/"
        other = base64.b64encode(self_certificate().authority).decode()
        unused = f"https://127.0.0.1:{await unused_port()}/"
        cases = {
            "another authority": (
                {"url": url, "caBundle": other},
                f'Post "{url}?timeout=10s": tls: failed to verify certificate: x509: certificate '
                "signed by unknown authority",
            ),
            "no server": (
                {"url": unused, "caBundle": hook.authority},
                f'Post "{unused}?timeout=10s": dial tcp {unused[8:-1]}: connect: connection '
                "refused",
            ),
            "no service": (SERVICE, 'service "web" not found'),
            "another machine": (
                {"url": "https://192.0.2.1/"},
                "192.0.2.1:443 is not an address of this machine, and an embedded cluster calls "
                "no others",
            ),
        }
        for name, (client, text) in cases.items():
            created = await cluster.api.create_document(MUTATING, None, configuration(client))
            with pytest.raises(ApiError) as refused:
                await config_map(cluster)
            assert refused.value.status.message == ERROR + text, name
            await cluster.api.delete(MUTATING, created.metadata.name)

    steps(test)


async def unused_port() -> int:
    server = HttpServer(_nothing)
    await server.listen("127.0.0.1", 0)
    port = server.address[1]
    await server.close(0, abort=True)
    return port


async def _nothing(_request: Request) -> Response:
    return Response(200, b"", JSON)


def test_a_webhook_whose_pods_are_simulated_is_passed_over() -> None:
    async def test(cluster: Cluster, _hook: Hook) -> None:
        await service(cluster)
        await cluster.api.patch(
            Service, "web", "default", {"spec": {"selector": {"app": "web"}}}, patch_type="merge"
        )
        await cluster.api.create_document(Deployment, "default", workload("web", {}))
        await cluster.wait_for(
            ENDPOINTS,
            "web",
            lambda _: bool(cluster.api.document(ENDPOINTS, "web", "default").get("subsets")),
        )
        await cluster.api.create_document(MUTATING, None, configuration(SERVICE))
        assert (await config_map(cluster)).metadata.labels == {"a": "b"}

    steps(test)
