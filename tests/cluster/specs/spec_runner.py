"""A cluster on virtual time, used through its HTTP API as the official suite does.

The tables of the test files in this folder contain the steps of the suite's specs. The specs of a
table share one cluster, each in its own namespace and all at the same virtual time, so that a table
takes little time.

New and replaced objects are sent in the form of the suite's typed clients: in binary form, with the
zeros that Go writes for absent fields.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.http import ApiService, ServedWatch
from kubesched.cluster.apiserver.http.protobuf import PROTOBUF
from kubesched.cluster.apiserver.http.request_paths import parse_path
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.http.http_messages import Request, Response
from kubesched.foundation.util.clock import SECOND, Clock, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.scheduler import Scheduler
from tests.cluster.apiserver.http.go_form import as_in_go, options_as_in_go

Json = Any
Failed = pytest.fail.Exception

GROUPS = {
    "apps": (
        "daemonsets",
        "deployments",
        "replicasets",
        "statefulsets",
        "controllerrevisions",
    ),
    "batch": ("jobs", "cronjobs"),
    "policy": ("poddisruptionbudgets",),
    "coordination.k8s.io": ("leases",),
    "discovery.k8s.io": ("endpointslices",),
    "node.k8s.io": ("runtimeclasses",),
    "scheduling.k8s.io": ("priorityclasses",),
    "storage.k8s.io": (
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "storageclasses",
        "volumeattachments",
        "volumeattributesclasses",
    ),
    "certificates.k8s.io": ("certificatesigningrequests",),
    "authentication.k8s.io": ("selfsubjectreviews", "tokenreviews"),
    "authorization.k8s.io": (
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "subjectaccessreviews",
    ),
    "resource.k8s.io": (
        "deviceclasses",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
    ),
}
GLOBAL = {
    "nodes",
    "namespaces",
    "persistentvolumes",
    "runtimeclasses",
    "priorityclasses",
    "csidrivers",
    "csinodes",
    "storageclasses",
    "volumeattachments",
    "volumeattributesclasses",
    "certificatesigningrequests",
    "selfsubjectreviews",
    "tokenreviews",
    "selfsubjectaccessreviews",
    "subjectaccessreviews",
    "deviceclasses",
    "resourceslices",
}
PARTS = {
    "binding": ("v1", "Binding"),
    "eviction": ("policy/v1", "Eviction"),
    "scale": ("autoscaling/v1", "Scale"),
    "token": ("authentication.k8s.io/v1", "TokenRequest"),
}
"""Parts of objects that are sent as kinds of their own."""
JSON = "application/json"
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


class RefusedError(Exception):
    """The server refused a request."""

    def __init__(self, code: int, body: Json) -> None:
        super().__init__(f"{code}: {body.get('message') if isinstance(body, dict) else body}")
        self.code, self.body = code, body


class Watching:
    """A watch that a spec has begun and reads later."""

    def __init__(self, stream: ServedWatch) -> None:
        self._stream = stream
        self.seen: list[Json] = []

    def read(self) -> list[Json]:
        """Return all events since the watch began."""
        while not self._stream.watcher.idle:
            batch = [each for each in self._stream.watcher.read() if each.record is not None]
            if batch:
                lines = self._stream.encode(batch).splitlines()
                self.seen += [json.loads(line) for line in lines]
        return self.seen


class Spec:
    """One spec: requests to a cluster, most of them in a namespace of its own."""

    def __init__(self, service: ApiService, clock: Clock, namespace: str) -> None:
        self.service, self.clock, self.namespace = service, clock, namespace

    def path(
        self, plural: str, name: str = "", subresource: str = "", *, everywhere: bool = False
    ) -> str:
        group = next((group for group, kinds in GROUPS.items() if plural in kinds), "")
        home = f"/apis/{group}/v1" if group else "/api/v1"
        if plural not in GLOBAL and not everywhere:
            home += f"/namespaces/{self.namespace}"
        return "/".join(part for part in (home, plural, name, subresource) if part)

    def send(self, method: str, path: str, body: Json = None, content: str = JSON) -> Json:
        answer = self.ask(method, path, body, content)
        assert isinstance(answer, Response), answer
        decoded = json.loads(answer.body)
        if answer.status >= 300:
            raise RefusedError(answer.status, decoded)
        return decoded

    def ask(
        self, method: str, path: str, body: Json = None, content: str = JSON
    ) -> Response | ServedWatch:
        headers = {"accept": f"{PROTOBUF}, */*"}
        data = b"" if body is None else json.dumps(body).encode()
        if (
            body is not None
            and content == JSON
            and (typed := self._typed(method, urlsplit(path).path, body))
        ):
            content, data = PROTOBUF, typed
        if body is not None:
            headers["content-type"] = content
        return self.service.answer(Request.of(method, path, headers, data))

    def _typed(self, method: str, path: str, body: Json) -> bytes:
        """A body as a typed client writes it; empty if there are no types for it."""
        if method == "DELETE":
            return options_as_in_go(body)
        target = parse_path(path)
        assert target is not None, path
        if target.subresource in PARTS:
            return as_in_go(body, *PARTS[target.subresource])
        try:
            catalog = self.service.store.catalog
            resource = catalog.by_url(target.group, target.version, target.plural)
        except ApiError:
            return b""  # a review, which is no resource
        if resource.type is None:
            return b""
        return as_in_go(body, resource.api_version, resource.kind)

    def create(self, plural: str, body: Json) -> Json:
        return self.send("POST", self.path(plural), body)

    def get(self, plural: str, name: str, subresource: str = "") -> Json:
        return self.send("GET", self.path(plural, name, subresource))

    def list(self, plural: str, labels: str = "", *, everywhere: bool = False) -> list[Json]:
        path = self.path(plural, everywhere=everywhere) + (
            f"?labelSelector={labels}" if labels else ""
        )
        items: list[Json] = self.send("GET", path)["items"]
        return items

    def update(self, plural: str, body: Json, subresource: str = "") -> Json:
        return self.send("PUT", self.path(plural, body["metadata"]["name"], subresource), body)

    def change(
        self, plural: str, name: str, change: Callable[[Json], object], subresource: str = ""
    ) -> Json:
        """Get, change, put."""
        found = self.get(plural, name)
        change(found)
        return self.update(plural, found, subresource)

    def patch(
        self, plural: str, name: str, body: Json, subresource: str = "", kind: str = "strategic"
    ) -> Json:
        return self.send("PATCH", self.path(plural, name, subresource), body, PATCHES[kind])

    def delete(self, plural: str, name: str, **options: Any) -> Json:
        return self.send("DELETE", self.path(plural, name), options or None)

    def delete_all(self, plural: str, labels: str, **options: Any) -> Json:
        path = f"{self.path(plural)}?labelSelector={labels}"
        return self.send("DELETE", path, options or None)

    def exists(self, plural: str, name: str) -> bool:
        try:
            self.get(plural, name)
        except RefusedError as refusal:
            if refusal.code != 404:
                raise
            return False
        return True

    def watch(self, plural: str, version: str = "", labels: str = "") -> Watching:
        path = f"{self.path(plural)}?watch=true&resourceVersion={version}&labelSelector={labels}"
        answer = self.ask("GET", path)
        assert isinstance(answer, ServedWatch), answer
        return Watching(answer)

    def refused(self, plural: str, body: Json, code: int = 422) -> str:
        """Create an object that must be refused; return the refusal."""
        with pytest.raises(RefusedError) as refusal:
            self.create(plural, body)
        assert refusal.value.code == code, refusal.value
        return str(refusal.value)

    async def sleep(self, seconds: float) -> None:
        await self.clock.sleep(round(seconds * SECOND))

    async def until(
        self, condition: Callable[[], Any], seconds: float = 60, every: float = 0.5
    ) -> Any:
        """Poll until a condition holds, as the suite does."""
        for _ in range(round(seconds / every)):
            if held := condition():
                return held
            await self.sleep(every)
        held = condition()
        assert held, "it never happened"
        return held

    async def always(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        for _ in range(round(seconds)):
            assert condition()
            await self.sleep(1)

    def pods(self, labels: str = "") -> list[Json]:
        return self.list("pods", labels)

    def running(self, labels: str = "") -> list[Json]:
        return [pod for pod in self.pods(labels) if is_ready(pod)]

    def events(self, about: str) -> list[str]:
        """Reasons of the events about an object."""
        found = self.list("events")
        return [each["reason"] for each in found if each["involvedObject"]["name"] == about]


def is_ready(pod: Json) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and condition_of(pod, "Ready") == "True"


def condition_of(held: Json, kind: str) -> str | None:
    for each in held.get("status", {}).get("conditions", ()):
        if each["type"] == kind:
            status: str = each["status"]
            return status
    return None


def pod(name: str, *, labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    metadata: Json = {"name": name, **({"labels": labels} if labels else {})}
    containers = spec.pop("containers", [{"name": "c", "image": "registry.k8s.io/pause:3.10"}])
    return {"metadata": metadata, "spec": {"containers": containers, **spec}}


SpecSteps = Callable[[Spec], Awaitable[None]]


def play(scenarios: Mapping[str, SpecSteps], nodes: int = 2) -> dict[str, BaseException | None]:
    """Run specs concurrently in one cluster; return the outcome of each."""
    ended: dict[str, BaseException | None] = {}

    async def one(service: ApiService, clock: Clock, name: str, number: int) -> None:
        spec = Spec(service, clock, f"spec-{number}")
        spec.create("namespaces", {"metadata": {"name": spec.namespace}})
        await spec.until(lambda: spec.list("serviceaccounts"), 5)
        try:
            await scenarios[name](spec)
            ended[name] = None
        except (AssertionError, RefusedError, LookupError, TypeError, ValueError, Failed) as error:
            ended[name] = error

    async def main() -> None:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, random.Random(0))
        service = ApiService(cluster.store, clock)
        scheduler = Scheduler(cluster.api, clock)
        setting = Spec(service, clock, "default")
        for number in range(nodes):
            setting.create("nodes", _node(f"node-{number}"))
        async with cluster, running(*cluster.parts, scheduler):
            await setting.sleep(2)
            await asyncio.gather(
                *(one(service, clock, name, number) for number, name in enumerate(scenarios))
            )

    run(main)
    return ended


def _node(name: str) -> Json:
    resources = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": resources, "allocatable": resources},
    }
