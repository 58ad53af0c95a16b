"""The aggregation layer: an APIService that leads to a server on this machine."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncGenerator
from typing import Any

from kubesched.foundation.http.http_messages import JSON, Request, Response
from kubesched.foundation.http.http_server import HttpServer
from kubesched.foundation.http.self_signed import CertificatePair, self_signed_certificate
from kubesched.testing import Cluster
from tests.integration.test_client_certificates import Sender

Json = Any
GROUP = "/apis/flowers.example.com/v1"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
FLOWERS = {"name": "flowers", "singularName": "flower", "namespaced": True, "kind": "Flower"}
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "flowers.example.com/v1",
    "resources": [
        {**FLOWERS, "verbs": ["get", "list"], "shortNames": ["fl"]},
        {**FLOWERS, "name": "flowers/status", "verbs": ["get"]},
    ],
}


class EchoServer:
    """An API server that responds with the request that it received."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def answer(self, request: Request) -> Response:
        self.requests.append(request)
        if request.raw_path == GROUP:
            return Response(200, json.dumps(RESOURCES).encode(), JSON)
        if request.query.flag("watch"):
            return Response(content_type=JSON, stream=self._events())
        body = (await request.read_body()).decode() if request.has_body else ""
        shown = {"kind": "Flower", "path": request.raw_path, "sent": body}
        return Response(418, json.dumps(shown).encode(), JSON, {"Warning": '299 - "w"'})

    async def _events(self) -> AsyncGenerator[bytes, None]:
        for number in range(2):
            yield b'{"type":"ADDED","object":{"n":%d}}\n' % number


def api_service(certificate: CertificatePair) -> Json:
    spec = {
        "group": "flowers.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 15,
        "caBundle": base64.b64encode(certificate.authority).decode(),
        "service": {"namespace": "default", "name": "flowers"},
    }
    return {"metadata": {"name": "v1.flowers.example.com"}, "spec": spec}


def service(port: int) -> Json:
    note = {"kubesched.io/endpoint": f"127.0.0.1:{port}"}
    spec = {"ports": [{"port": 443}]}
    return {"metadata": {"name": "flowers", "annotations": note}, "spec": spec}


async def availability(sender: Sender, wanted: str) -> Json:
    condition: Json = {}
    for _ in range(100):
        _, shown = await sender.send("GET", f"{SERVICES}/v1.flowers.example.com")
        conditions = shown.get("status", {}).get("conditions", [{}])
        condition = conditions[0]
        if condition.get("status") == wanted:
            break
        # Each request takes one loop iteration, and the server's check runs in between.
        await asyncio.sleep(0)
    return condition


def test_requests_for_a_group_go_to_its_server() -> None:
    asyncio.run(check_aggregation())


async def check_aggregation() -> None:
    flowers = EchoServer()
    certificate = self_signed_certificate(["flowers.default.svc"], time.time_ns(), key_type="ec")
    server = HttpServer(flowers.answer)
    async with Cluster(nodes=0, serve=True) as cluster:
        context = certificate.server_context()
        await server.listen("127.0.0.1", 0, context)
        try:
            await check_requests(cluster, flowers, server, certificate)
        finally:
            await server.close(0, abort=True)


async def check_requests(
    cluster: Cluster, flowers: EchoServer, server: HttpServer, certificate: CertificatePair
) -> None:
    sender = Sender(cluster)
    code, _ = await sender.send("POST", SERVICES, api_service(certificate))
    assert code == 201
    condition = await availability(sender, "False")
    assert condition["reason"] == "FailedDiscoveryCheck"
    assert 'service "flowers" not found' in condition["message"]
    code, answer = await sender.send("GET", f"{GROUP}/flowers")
    assert (code, answer["reason"]) == (503, "ServiceUnavailable")

    services = "/api/v1/namespaces/default/services"
    await sender.send("POST", services, service(server.address[1]))
    path = f"{GROUP}/namespaces/default/flowers"
    code, answer = await sender.send("POST", f"{path}?dryRun=All", {"a": 1})
    assert (code, answer["path"], json.loads(answer["sent"])) == (418, path, {"a": 1})
    (request,) = [each for each in flowers.requests if each.method == "POST"]
    assert request.headers.get("x-remote-user") == "admin"
    assert request.headers.all("x-remote-group") == ["system:masters", "system:authenticated"]
    assert request.headers.get("authorization") == ""
    assert request.query.get("dryRun") == "All"

    # An annotation makes the next check due.
    note = {**api_service(certificate), "kind": "APIService"}
    _, shown = await sender.send("GET", f"{SERVICES}/v1.flowers.example.com")
    note["metadata"] = {**shown["metadata"], "labels": {"checked": "again"}}
    await sender.send("PUT", f"{SERVICES}/v1.flowers.example.com", note)
    assert (await availability(sender, "True"))["reason"] == "Passed"
    _, groups = await sender.send("GET", "/apis")
    (group,) = [each for each in groups["groups"] if each["name"] == "flowers.example.com"]
    assert group["preferredVersion"]["version"] == "v1"
    assert (await sender.send("GET", GROUP))[1] == RESOURCES
    sender.headers["Accept"] = (
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    )
    _, found = await sender.send("GET", "/apis")
    (item,) = [
        each for each in found["items"] if each["metadata"].get("name") == "flowers.example.com"
    ]
    (resource,) = item["versions"][0]["resources"]
    assert (resource["resource"], resource["shortNames"]) == ("flowers", ["fl"])
    assert [each["subresource"] for each in resource["subresources"]] == ["status"]

    del sender.headers["Accept"]
    text = await sender.read(f"{path}?watch=1")
    assert [json.loads(line)["object"]["n"] for line in text.splitlines()] == [0, 1]
    _, published = await sender.send(
        "GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    )
    assert json.loads(published["data"]["requestheader-allowed-names"]) == ["front-proxy-client"]
    assert "BEGIN CERTIFICATE" in published["data"]["requestheader-client-ca-file"]
