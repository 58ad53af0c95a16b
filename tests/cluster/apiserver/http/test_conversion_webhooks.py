"""Conversion of custom resources by webhooks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kubesched.cluster.apiserver.http import ServedWatch
from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.http.served_watch import WatchStream
from kubesched.cluster.apiserver.rules.admission.webhook_reviews import WebhookError
from kubesched.cluster.apiserver.store.needed_calls import WebhookCall
from kubesched.foundation.http.http_messages import Request, Response
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1, V2 = (f"/apis/example.com/{each}/namespaces/default/boxes" for each in ("v1", "v2"))
MERGE = "application/merge-patch+json"


def version(name: str, fields: Json, **more: Any) -> Json:
    spec = {"type": "object", "properties": fields}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": name == "v1", "schema": schema, **more}


TEXT = {"type": "string"}
# Version 1 has one field `address`, version 2 has `host` and `port` with a default.
ONE = version("v1", {"address": TEXT})
TWO = version("v2", {"host": {**TEXT, "maxLength": 20}, "port": {**TEXT, "default": "80"}})


def definition(*versions: Json, **conversion: Any) -> Json:
    webhook = {
        "clientConfig": {"service": {"namespace": "default", "name": "converter", "path": "/c"}},
        "conversionReviewVersions": ["v1"],
    }
    names = {"plural": "boxes", "kind": "Box"}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": names,
        "versions": list(versions or (ONE, TWO)),
        "conversion": {"strategy": "Webhook", "webhook": webhook, **conversion},
    }
    return {"metadata": {"name": "boxes.example.com"}, "spec": spec}


class Converter:
    """A client of a server whose conversion webhook is a function of the test."""

    def __init__(self) -> None:
        self.client = Client()
        self.client.service.call_webhooks_with(self)
        self.reviews: list[Json] = []
        self.failure: WebhookError | None = None

    async def call(self, call: WebhookCall) -> bytes:
        if self.failure is not None:
            raise self.failure
        review = json.loads(call.body)
        self.reviews.append(review)
        request = review["request"]
        objects = [convert(each, request["desiredAPIVersion"]) for each in request["objects"]]
        response = {
            "uid": request["uid"],
            "convertedObjects": objects,
            "result": {"status": "Success"},
        }
        return json.dumps({**review, "request": None, "response": response}).encode()

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Json]:
        answer = asyncio.run(self.client.service.complete(request_of(method, path, body, headers)))
        assert isinstance(answer, Response)
        return answer.status, json.loads(answer.body)

    def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Json:
        code, answer = self.send(method, path, body, **headers)
        assert code in (200, 201), answer["message"]
        return answer


def request_of(method: str, path: str, body: Any, headers: dict[str, str]) -> Request:
    fields = {"content-type": headers.get("content_type", "application/json")}
    return Request.of(method, path, fields, b"" if body is None else json.dumps(body).encode())


def convert(document: Json, wanted: str) -> Json:
    spec = document.get("spec", {})
    if wanted.endswith("v2"):
        host, _, port = spec["address"].partition(":")
        spec = {"host": host, "port": port}
    else:
        spec = {"address": f"{spec['host']}:{spec['port']}"}
    metadata = {
        **document["metadata"],
        "labels": {**document["metadata"].get("labels", {}), "converted": "yes"},
        "uid": "changed by the webhook",
    }
    return {**document, "apiVersion": wanted, "metadata": metadata, "spec": spec}


def box(name: str, **spec: str) -> Json:
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture
def boxes() -> Converter:
    converter = Converter()
    converter.ok("POST", DEFINITIONS, definition())
    return converter


def test_each_api_version_shows_an_object_in_its_form(boxes: Converter) -> None:
    first = boxes.ok("POST", V1, box("one", address="a:1"))
    assert (first["spec"], boxes.reviews) == ({"address": "a:1"}, [])
    shown = boxes.ok("GET", f"{V2}/one")
    assert (shown["apiVersion"], shown["spec"]) == ("example.com/v2", {"host": "a", "port": "1"})
    # Labels are taken from the webhook's response, other metadata are not.
    assert shown["metadata"] == {**first["metadata"], "labels": {"converted": "yes"}}
    # The default of version 2 is set before the conversion, unknown fields are dropped.
    second = boxes.ok("POST", V2, box("two", host="b", wrong="x"))
    assert second["spec"] == {"host": "b", "port": "80"}
    assert boxes.ok("GET", f"{V1}/two")["spec"] == {"address": "b:80"}
    items = boxes.ok("GET", V2)["items"]
    assert [each["spec"]["host"] for each in items] == ["a", "b"]


def test_a_list_needs_one_call_and_is_cached(boxes: Converter) -> None:
    for number in range(3):
        boxes.ok("POST", V1, box(f"b{number}", address=f"a:{number}"))
    boxes.ok("GET", V2)
    assert [len(each["request"]["objects"]) for each in boxes.reviews] == [3]
    boxes.ok("GET", V2)
    boxes.ok("GET", f"{V2}/b1")
    assert len(boxes.reviews) == 1
    boxes.ok("PATCH", f"{V1}/b1", {"spec": {"address": "c:9"}}, content_type=MERGE)
    assert boxes.ok("GET", f"{V2}/b1")["spec"]["host"] == "c"


def test_writes_in_another_version(boxes: Converter) -> None:
    boxes.ok("POST", V1, box("one", address="a:1"))
    boxes.ok("PATCH", f"{V2}/one", {"spec": {"port": "2"}}, content_type=MERGE)
    assert boxes.ok("GET", f"{V1}/one")["spec"] == {"address": "a:2"}
    shown = boxes.ok("GET", f"{V2}/one")
    boxes.ok("PUT", f"{V2}/one", {**shown, "spec": {"host": "z", "port": "3"}})
    assert boxes.ok("GET", f"{V1}/one")["spec"] == {"address": "z:3"}
    code, answer = boxes.send("POST", V2, box("long", host="x" * 30))
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "spec.host")
    boxes.ok("DELETE", f"{V2}/one")
    assert boxes.send("GET", f"{V1}/one")[0] == 404


def test_a_failing_webhook_fails_the_request(boxes: Converter) -> None:
    boxes.ok("POST", V1, box("one", address="a:1"))
    boxes.failure = WebhookError("failed to call webhook: refused")
    code, answer = boxes.send("GET", f"{V2}/one")
    expected = "conversion webhook for example.com/v2, Kind=Box failed: failed to call webhook"
    assert code == 500
    assert expected in answer["message"]
    assert boxes.send("GET", f"{V1}/one")[0] == 200
    boxes.failure = None
    assert boxes.send("GET", f"{V2}/one")[0] == 200


def test_with_simulated_pods_behind_the_service_versions_are_equal(boxes: Converter) -> None:
    boxes.ok("POST", V1, box("one", address="a:1"))
    boxes.failure = WebhookError("the pods are simulated", is_simulated=True)
    assert boxes.ok("GET", f"{V2}/one")["spec"] == {"address": "a:1"}


def test_a_watch_converts_its_events(boxes: Converter) -> None:
    boxes.ok("POST", V1, box("one", address="a:1"))

    async def watch() -> list[Json]:
        request = request_of("GET", f"{V2}?watch=1", None, {})
        answer = await boxes.client.service.complete(request)
        assert isinstance(answer, ServedWatch)
        stream = WatchStream(answer, ApiLimits())
        chunks = stream.chunks()
        lines = await anext(chunks)
        created = request_of("POST", V1, box("two", address="b:2"), {})
        await boxes.client.service.complete(created)
        lines += await anext(chunks)
        await chunks.aclose()
        return [json.loads(each) for each in lines.splitlines()]

    events = asyncio.run(watch())
    assert [(each["type"], each["object"]["spec"]["host"]) for each in events] == [
        ("ADDED", "a"),
        ("ADDED", "b"),
    ]


def test_a_new_storage_version_converts_the_stored_objects(boxes: Converter) -> None:
    boxes.ok("POST", V1, box("one", address="a:1"))
    shown = boxes.ok("GET", f"{DEFINITIONS}/boxes.example.com")
    versions = [{**ONE, "storage": False}, {**TWO, "storage": True}]
    shown["spec"]["versions"] = versions
    changed = boxes.ok("PUT", f"{DEFINITIONS}/boxes.example.com", shown)
    assert changed["status"]["storedVersions"] == ["v1", "v2"]
    boxes.ok("POST", V2, box("two", host="b"))
    assert [each["spec"] for each in boxes.ok("GET", V2)["items"]] == [
        {"host": "a", "port": "1"},
        {"host": "b", "port": "80"},
    ]
    addresses = [each["spec"]["address"] for each in boxes.ok("GET", V1)["items"]]
    assert addresses == ["a:1", "b:80"]


@pytest.mark.parametrize(
    ("conversion", "field"),
    [
        ({"strategy": "Magic"}, "spec.conversion.strategy"),
        ({"strategy": "None"}, "spec.conversion.webhook"),
        ({"webhook": None}, "spec.conversion.webhookClientConfig"),
        (
            {"webhook": {"clientConfig": {"url": "https://127.0.0.1"}}},
            "spec.conversion.conversionReviewVersions",
        ),
    ],
)
def test_the_configuration_is_validated(conversion: Json, field: str) -> None:
    code, answer = Converter().send("POST", DEFINITIONS, definition(**conversion))
    assert code == 422
    assert answer["details"]["causes"][0]["field"] == field
