"""The HTTP client against the recorded responses of a real API server."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from prometheus_client.registry import CollectorRegistry

from kubesched.api import ApiError, Event, Lease, Node, Pod, codec
from kubesched.api.dynamic_resources import ResourceClaim
from kubesched.api.events import Event as EventsEvent
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.lease_fence import LeaseFence
from kubesched.foundation.client.transport import ServerResponse, TransportError
from kubesched.foundation.client.watch_stream import WatchDecoder
from kubesched.foundation.metrics.client_metrics import ClientMetrics
from kubesched.foundation.util.clock import SECOND, ManualClock
from tests.foundation.client.recordings import (
    FakeStream,
    RecordedTransport,
    answer,
    load,
    path,
    query,
    stream,
)

_FREE = {"qps": -1.0}

# docs/install.md says so.
_DEEP_OBJECTS = pytest.mark.skipif(
    (3, 12, 0) <= sys.version_info[:3] <= (3, 12, 1),
    reason="Python 3.12.0 and 3.12.1 cannot decode more than 1,500 levels of JSON",
)


@pytest.fixture(scope="module")
def wire(goldens: Path) -> dict[str, dict[str, Any]]:
    return load(goldens)


def api_over(
    transport: RecordedTransport, clock: ManualClock | None = None, **more: Any
) -> HttpApi:
    return HttpApi(transport, clock or ManualClock(), random.Random(1), **{**_FREE, **more})


async def collect(events: Any) -> list[Any]:
    return [event async for event in events]


class Call(NamedTuple):
    recorded: str
    call: Callable[[HttpApi, dict[str, Any]], Awaitable[Any]]


def _sent(exchange: dict[str, Any], kind: type[msgspec.Struct]) -> Any:
    """The object that was sent; the recordings have its namespace in the path alone."""
    request = exchange["request"]
    namespace = path(request["path"]).partition("/namespaces/")[2].partition("/")[0]
    sent: Any = codec.from_builtins(request["body"], kind)
    metadata = msgspec.structs.replace(sent.metadata, namespace=namespace)
    return msgspec.structs.replace(sent, metadata=metadata)


CALLS = {
    "an object without a namespace": Call("get node", lambda api, _: api.get(Node, "w1")),
    "an object in a namespace": Call("get pod", lambda api, _: api.get(Pod, "p1", "default")),
    "an object of a named group": Call(
        "create lease", lambda api, sent: api.create(_sent(sent, Lease))
    ),
    "a list of all namespaces in pages": Call("list limit", lambda api, _: api.list(Pod, limit=2)),
    "a list by fields": Call(
        "list field selector", lambda api, _: api.list(Pod, field_selector="spec.nodeName=")
    ),
    "a list by labels": Call(
        "list label selector", lambda api, _: api.list(Pod, label_selector="app in (x,y)")
    ),
    "a new pod": Call("create pod", lambda api, sent: api.create(_sent(sent, Pod))),
    "a merge patch": Call(
        "patch node merge",
        lambda api, sent: api.patch(Node, "w1", None, sent["request"]["body"], patch_type="merge"),
    ),
    "a json patch": Call(
        "patch node json",
        lambda api, sent: api.patch(Node, "w1", None, sent["request"]["body"], patch_type="json"),
    ),
    "a patch of a status": Call(
        "patch pod status condition",
        lambda api, sent: api.patch(
            Pod, "p1", "default", sent["request"]["body"], subresource="status"
        ),
    ),
    "a patch of a series": Call(
        "patch event series",
        lambda api, sent: api.patch(EventsEvent, "p1.1", "default", sent["request"]["body"]),
    ),
    "a new lease state": Call("update lease", lambda api, sent: api.update(_sent(sent, Lease))),
    "a binding": Call(
        "bind",
        lambda api, sent: api.bind(
            "default",
            "p1",
            sent["request"]["body"]["metadata"].get("uid", ""),
            sent["request"]["body"]["target"]["name"],
        ),
    ),
    "an older view of an event": Call(
        "get core event", lambda api, _: api.get(Event, "p1.1", "default")
    ),
}


@pytest.mark.parametrize("case", CALLS.values(), ids=CALLS)
def test_a_request_equals_the_recorded_one_of_a_real_server(
    case: Call, wire: dict[str, dict[str, Any]]
) -> None:
    exchange = wire[case.recorded]
    transport = RecordedTransport(answer(exchange))
    result = asyncio.run(_run(case.call(api_over(transport), exchange)))
    recorded, made = exchange["request"], transport.last
    assert made.method == recorded["method"]
    assert path(made.target) == path(recorded["path"])
    assert query(made.target) == query(recorded["path"])
    if recorded["body"] is not None:
        assert made.content_type == recorded["headers"]["Content-Type"]
        if not isinstance(recorded["body"], list):
            assert set(msgspec.json.decode(made.body)) >= set(recorded["body"]) - {"status"}
    if isinstance(result, msgspec.Struct) and hasattr(result, "metadata"):
        body = exchange["response"]["body"]
        assert result.metadata.name == body["metadata"]["name"]
        assert result.metadata.resource_version == body["metadata"]["resourceVersion"]


async def _run(call: Awaitable[Any]) -> Any:
    return await call


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b"", b'{"kind":"Sta'])
def test_a_binding_that_no_watch_event_confirms_is_undone(body: bytes) -> None:
    """A proxy may respond in place of the server. Found by tests.fault_injection, seed 35."""
    for call in (
        lambda api: api.bind("default", "p1", "u-1", "w1"),
        lambda api: api.delete(Pod, "p1", "default"),
    ):
        with pytest.raises(ApiError) as caught:
            asyncio.run(call(api_over(RecordedTransport(ServerResponse(200, body)))))
        assert caught.value.code == 0


def test_a_binding_names_the_pod_by_its_uid(wire: dict[str, dict[str, Any]]) -> None:
    transport = RecordedTransport(answer(wire["bind"]))
    asyncio.run(api_over(transport).bind("default", "p1", "u-1", "w1"))
    assert msgspec.json.decode(transport.last.body) == {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "p1", "namespace": "default", "uid": "u-1"},
        "target": {"kind": "Node", "name": "w1"},
    }


def test_a_deletion_may_have_a_uid_precondition_and_a_grace_period(
    wire: dict[str, dict[str, Any]],
) -> None:
    transport = RecordedTransport(answer(wire["delete pod now"]))
    deletion = api_over(transport).delete(Pod, "p1", "default", uid="u", grace_period_seconds=0)
    asyncio.run(deletion)
    assert transport.last.method == "DELETE"
    assert msgspec.json.decode(transport.last.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
    }


def test_pages_are_followed_by_their_token(wire: dict[str, dict[str, Any]]) -> None:
    transport = RecordedTransport(answer(wire["list limit"]), answer(wire["list continue"]))
    api = api_over(transport)

    async def both() -> None:
        first = await api.list(Pod, limit=2)
        rest = await api.list(Pod, limit=2, continue_token=first.continue_token)
        assert first.resource_version == rest.resource_version == "60"
        assert rest.continue_token == ""
        assert [pod.metadata.name for pod in (*first.items, *rest.items)][-1] == "py"

    asyncio.run(both())
    assert query(transport.last.target) == query(wire["list continue"]["request"]["path"])


REFUSALS = {
    "a missing object": ("get node missing", 404, "NotFound", 'nodes "none" not found'),
    "a name that is taken": (
        "create node again",
        409,
        "AlreadyExists",
        'nodes "w1" already exists',
    ),
    "a pod that is bound": ("bind again", 409, "Conflict", None),
    "an invalid object": ("create pod invalid", 422, "Invalid", None),
    "a stranger": ("anonymous", 401, "Unauthorized", "Unauthorized"),
    "an unknown path, whose answer is plain text": (
        "unknown path",
        404,
        "NotFound",
        "the server could not find the requested resource",
    ),
}


@pytest.mark.parametrize(("recorded", "code", "reason", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_the_servers_status(
    recorded: str, code: int, reason: str, message: str | None, wire: dict[str, dict[str, Any]]
) -> None:
    api = api_over(RecordedTransport(answer(wire[recorded])))
    with pytest.raises(ApiError) as refused:
        asyncio.run(api.get(Pod, "p", "default"))
    assert (refused.value.code, refused.value.reason) == (code, reason)
    assert str(refused.value) == (message or wire[recorded]["response"]["body"]["message"])


@pytest.mark.parametrize("pieces", [1, 2, 7, 1000])
def test_a_watch_decodes_events_independent_of_chunk_boundaries(
    pieces: int, wire: dict[str, dict[str, Any]]
) -> None:
    exchange = wire["watch add, modify, delete"]
    transport = RecordedTransport(stream(exchange, pieces))
    watch = api_over(transport).watch(Pod, "default", resource_version="85")
    events = asyncio.run(collect(watch))
    recorded = exchange["response"]["events"]
    assert [event.type for event in events] == [event["type"] for event in recorded]
    assert [event.resource_version for event in events] == [
        event["object"]["metadata"]["resourceVersion"] for event in recorded
    ]
    asked = query(transport.last.target)
    assert asked["watch"] == "true"
    assert asked["resourceVersion"] == "85"
    assert asked["allowWatchBookmarks"] == "true"
    assert 300 <= int(asked["timeoutSeconds"]) <= 600
    assert transport.open_streams == 0


def test_a_refused_initial_list_is_an_error(wire: dict[str, dict[str, Any]]) -> None:
    transport = RecordedTransport(stream(wire["watch with initial events"]))
    watch = api_over(transport).watch(Pod, "default", resource_version="", send_initial_events=True)
    with pytest.raises(ApiError, match="RequestWatchProgress is disabled") as refused:
        asyncio.run(collect(watch))
    assert refused.value.code == 500
    asked, recorded = query(transport.last.target), wire["watch with initial events"]["request"]
    for name in ("sendInitialEvents", "resourceVersionMatch", "allowWatchBookmarks"):
        assert asked[name] == query(recorded["path"])[name]
    assert "resourceVersion" not in asked


def test_an_expired_version_is_reported_after_the_events_before_it(
    wire: dict[str, dict[str, Any]],
) -> None:
    added = wire["watch add, modify, delete"]["response"]["events"][0]
    gone = {
        "type": "ERROR",
        "object": {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "too old resource version: 1 (90)",
            "reason": "Expired",
            "code": 410,
        },
    }
    together = FakeStream([b"".join(json.dumps(each).encode() + b"\n" for each in (added, gone))])
    watch = api_over(RecordedTransport(together)).watch(Pod, resource_version="1")

    async def follow() -> None:
        assert (await anext(watch)).type == "ADDED"
        with pytest.raises(ApiError, match="too old resource version") as expired:
            await anext(watch)
        assert (expired.value.code, expired.value.reason) == (410, "Expired")

    asyncio.run(follow())


def test_a_watch_may_be_refused_when_it_opens(wire: dict[str, dict[str, Any]]) -> None:
    transport = RecordedTransport(stream(wire["watch bad version"]))
    watch = api_over(transport).watch(Pod, "default", resource_version="abc")
    with pytest.raises(ApiError, match="invalid syntax") as refused:
        asyncio.run(collect(watch))
    assert refused.value.code == 500


def test_bookmarks_move_the_version_and_mark_the_end_of_the_initial_list() -> None:
    lines = (
        b'{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":'
        b'{"resourceVersion":"7","creationTimestamp":null,'
        b'"annotations":{"k8s.io/initial-events-end":"true"}},'
        b'"spec":{"containers":null},"status":{}}}\n'
        b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}\n'
    )
    watch = api_over(RecordedTransport(FakeStream([lines]))).watch(Pod, resource_version="")
    first, second = asyncio.run(collect(watch))
    assert (first.resource_version, first.is_initial_end, first.object) == ("7", True, None)
    assert (second.resource_version, second.is_initial_end) == ("9", False)


def test_a_watch_that_breaks_is_a_network_failure(wire: dict[str, dict[str, Any]]) -> None:
    broken = FakeStream([b'{"type":"ADDED"', TransportError("lost", "reset")])
    watch = api_over(RecordedTransport(broken)).watch(Pod, resource_version="1")
    with pytest.raises(ApiError) as lost:
        asyncio.run(collect(watch))
    assert lost.value.code == 0


def pod_body(name: str, version: int, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "d", "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"containers": [], **spec}}


NEW_TO_US = {
    "an unknown phase": {"status": {"phase": "Paused"}},
    "an unknown policy": {"spec": {"preemptionPolicy": "Sometimes"}},
    "an unknown field": {"spec": {"orbit": {"height": [1, "2", None]}}},
    "null in place of a list": {"spec": {"containers": None, "tolerations": None}},
    "no time of creation": {"metadata": {"name": "p", "creationTimestamp": None}},
}


@pytest.mark.parametrize("body", NEW_TO_US.values(), ids=NEW_TO_US)
def test_objects_with_unknown_values_are_listed(body: dict[str, Any]) -> None:
    page = ServerResponse(200, json.dumps({"metadata": {}, "items": [body]}).encode())
    assert len(asyncio.run(api_over(RecordedTransport(page)).list(Pod)).items) == 1


@_DEEP_OBJECTS
@pytest.mark.parametrize("levels", [900, 5_000, 9_900])
def test_an_object_may_be_as_deep_as_servers_allow(levels: int) -> None:
    parameters = b'{"a":' * levels + b"1" + b"}" * levels
    spec = b'{"devices":{"config":[{"opaque":{"driver":"d","parameters":%b}}]}}' % parameters
    claim = b'{"metadata":{"name":"c","resourceVersion":"5"},"spec":%b}' % spec
    page = ServerResponse(200, b'{"metadata":{},"items":[%b]}' % claim)
    assert len(asyncio.run(api_over(RecordedTransport(page)).list(ResourceClaim)).items) == 1
    stream = FakeStream([b'{"type":"ADDED","object":%b}\n' % claim])
    watch = api_over(RecordedTransport(stream)).watch(ResourceClaim, resource_version="1")
    assert [each.resource_version for each in asyncio.run(collect(watch))] == ["5"]


@_DEEP_OBJECTS
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 can change such an object")
def test_an_object_that_is_too_deep_to_be_changed_is_a_failure_of_the_request() -> None:
    body = b'{"metadata":{"name":"c","namespace":"d"},"x":%b}' % (b"[" * 5_000 + b"]" * 5_000)
    claim = codec.decode(body, ResourceClaim)
    transport = RecordedTransport(ServerResponse(200, body))
    with pytest.raises(ApiError, match="too deeply"):
        asyncio.run(api_over(transport).update(claim, subresource="status"))
    assert [request.method for request in transport.requests] == ["GET"]


@pytest.mark.parametrize(
    "part", [{"metadata": {"generation": 2**63}}, {"spec": {"priority": 2**31}}]
)
def test_a_number_beyond_its_type_is_left_out_by_name(
    part: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    odd = pod_body("odd", 5)
    odd = odd | {key: odd[key] | part[key] for key in part}
    page = ServerResponse(
        200, json.dumps({"metadata": {}, "items": [odd, pod_body("a", 4)]}).encode()
    )
    listed = asyncio.run(api_over(RecordedTransport(page)).list(Pod))
    assert [each.metadata.name for each in listed.items] == ["a"]
    assert "object=d/odd" in caplog.text


def test_an_object_with_invalid_text_is_skipped() -> None:
    sound, odd = b'{"metadata":{"name":"a"}}', b'{"metadata":{"name":"\xff"}}'
    page = ServerResponse(200, b'{"metadata":{},"items":[%b,%b]}' % (odd, sound))
    listed = asyncio.run(api_over(RecordedTransport(page)).list(Pod))
    assert [each.metadata.name for each in listed.items] == ["a"]
    stream = FakeStream([b'{"type":"ADDED","object":%b}\n' % each for each in (odd, sound)])
    watch = api_over(RecordedTransport(stream)).watch(Pod, resource_version="1")
    assert [each.type for each in asyncio.run(collect(watch))] == ["BOOKMARK", "ADDED"]


@pytest.mark.parametrize("body", [b'{"status":"\xff"}', b"[" * 100_000, b'{"a":' * 30_000])
def test_a_refusal_that_cannot_be_read_is_one_nevertheless(body: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        asyncio.run(api_over(RecordedTransport(ServerResponse(503, body))).get(Pod, "p", "d"))
    assert refused.value.code == 503


def test_an_object_of_another_shape_does_not_hide_its_list(
    caplog: pytest.LogCaptureFixture,
) -> None:
    items = [pod_body("a", 5), pod_body("odd", 6, priority="high"), pod_body("b", 7), "no object"]
    metadata = {"resourceVersion": "9", "continue": "more"}
    page = ServerResponse(200, json.dumps({"metadata": metadata, "items": items}).encode())
    listed = asyncio.run(api_over(RecordedTransport(page)).list(Pod))
    assert [each.metadata.name for each in listed.items] == ["a", "b"]
    assert (listed.resource_version, listed.continue_token) == ("9", "more")
    assert "object=d/odd" in caplog.text


@pytest.mark.parametrize("body", [b"<html>", b'{"items":7}', b"[]", b'{"items":[{]}'])
def test_a_response_that_is_no_list_is_an_error(body: bytes) -> None:
    with pytest.raises(ApiError, match="cannot be read") as error:
        asyncio.run(api_over(RecordedTransport(ServerResponse(200, body))).list(Pod))
    assert error.value.code == 0


def watched(*events: tuple[str, dict[str, Any]]) -> RecordedTransport:
    lines = (json.dumps({"type": kind, "object": each}).encode() + b"\n" for kind, each in events)
    return RecordedTransport(FakeStream([b"".join(lines)]))


def test_an_object_of_another_shape_does_not_end_its_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    transport = watched(
        ("ADDED", pod_body("a", 5)),
        ("MODIFIED", pod_body("odd", 6, priority="high")),
        ("ADDED", pod_body("b", 7)),
    )
    events = asyncio.run(collect(api_over(transport).watch(Pod, resource_version="1")))
    assert [(each.type, each.resource_version) for each in events] == [
        ("ADDED", "5"),
        ("BOOKMARK", "6"),
        ("ADDED", "7"),
    ]
    assert "object=d/odd" in caplog.text


def test_a_deletion_event_that_cannot_be_decoded_ends_the_watch() -> None:
    transport = watched(("DELETED", pod_body("odd", 6, priority="high")))
    with pytest.raises(ApiError, match="unable to decode an event"):
        asyncio.run(collect(api_over(transport).watch(Pod, resource_version="1")))


def test_data_that_cannot_be_decoded_ends_the_watch() -> None:
    watch = api_over(RecordedTransport(FakeStream([b"<html>\n"]))).watch(Pod, resource_version="1")
    with pytest.raises(ApiError, match="unable to decode an event"):
        asyncio.run(collect(watch))


BUSY = ServerResponse(429, b"", {"Retry-After": "3"})
BROKEN = ServerResponse(503, b"upstream", {"Retry-After": "1"})
LOST = TransportError("lost", "reset")
OK = ServerResponse(200, b"{}")

RETRIES = {
    "a busy server is asked again when it says": ("GET", [BUSY, BUSY, OK], 6, 0),
    "so are writes, which it has not done": ("POST", [BUSY, OK], 3, 0),
    "a failing server with a time is asked again": ("POST", [BROKEN, OK], 1, 0),
    "without a time the answer counts": ("GET", [ServerResponse(429, b"")], 0, 429),
    "ten times at most": ("GET", [BUSY] * 11, 30, 429),
    "a lost read is repeated after a second": ("GET", [LOST, LOST, OK], 2, 0),
    "a lost write is never repeated": ("POST", [LOST], 0, -1),
    "a read that was refused is not repeated": ("GET", [TransportError("no", "refused")], 0, -1),
}


@pytest.mark.parametrize(("method", "answers", "seconds", "code"), RETRIES.values(), ids=RETRIES)
def test_retries(method: str, answers: list[Any], seconds: int, code: int) -> None:
    clock = ManualClock()
    transport = RecordedTransport(*answers)
    api = api_over(transport, clock)
    call = api.get(Pod, "p", "d") if method == "GET" else api.bind("d", "p", "u", "n")
    if code:
        with pytest.raises(ApiError) as refused:
            asyncio.run(call)
        assert refused.value.code == max(0, code)
    else:
        asyncio.run(call)
    assert clock.monotonic_ns() == seconds * SECOND
    assert len(transport.requests) == len(answers)


def test_requests_wait_for_the_rate_limit_and_watches_do_not() -> None:
    clock = ManualClock()
    transport = RecordedTransport(OK, OK, OK, FakeStream([]))
    api = api_over(transport, clock, qps=2.0, burst=1)

    async def work() -> None:
        for _ in range(3):
            await api.bind("d", "p", "u", "n")
        assert clock.monotonic_ns() == SECOND
        await collect(api.watch(Pod, resource_version="1"))

    asyncio.run(work())
    assert clock.monotonic_ns() == SECOND


def test_a_write_that_is_forbidden_at_the_last_moment_is_not_sent() -> None:
    transport = RecordedTransport(OK)
    fence = LeaseFence(ManualClock(), 15 * SECOND, 10 * SECOND, 2 * SECOND)
    api = api_over(transport, fence=fence)
    with pytest.raises(ApiError, match="not sent: the lease may be in other hands"):
        asyncio.run(api.bind("d", "p", "u", "n"))
    assert not transport.requests
    asyncio.run(api.get(Pod, "p", "d"))


def test_a_leaders_write_has_a_timeout_for_the_server() -> None:
    clock = ManualClock()
    transport = RecordedTransport(OK, OK)
    fence = LeaseFence(clock, 15 * SECOND, 10 * SECOND, 2 * SECOND)
    api = api_over(transport, clock, fence=fence)
    fence.renewed(clock.monotonic_ns(), clock.now_ns())
    clock.advance(SECOND)
    asyncio.run(api.bind("d", "p", "u", "n"))
    assert query(transport.last.target) == {"timeout": "9000ms"}
    assert transport.last.timeout_ns == 9 * SECOND
    asyncio.run(api.get(Pod, "p", "d"))
    assert query(transport.last.target) == {}


def test_an_update_retains_fields_that_types_do_not_declare(
    wire: dict[str, dict[str, Any]],
) -> None:
    exchange = wire["get pod"]
    stored = exchange["response"]["body"]
    transport = RecordedTransport(answer(exchange), answer(exchange))
    pod = codec.from_builtins(stored, Pod)
    metadata = msgspec.structs.replace(pod.metadata, labels={"a": "b"})
    asyncio.run(api_over(transport).update(msgspec.structs.replace(pod, metadata=metadata)))
    sent = msgspec.json.decode(transport.last.body)
    assert transport.last.method == "PUT"
    assert sent["metadata"].pop("labels") == {"a": "b"}
    expected = {**stored, "metadata": {**stored["metadata"]}}
    expected["metadata"].pop("labels", None)
    assert sent == expected


def test_discovery_lists_the_served_groups(wire: dict[str, dict[str, Any]]) -> None:
    transport = RecordedTransport(
        answer(wire["discovery /apis/events.k8s.io/v1"]), answer(wire["unknown group"])
    )
    api = api_over(transport)

    async def ask() -> tuple[bool, bool]:
        return await api.serves("events.k8s.io/v1"), await api.serves("nope.io/v1")

    assert asyncio.run(ask()) == (True, False)
    assert transport.requests[0].target == "/apis/events.k8s.io/v1"


@pytest.mark.parametrize("failure", [TransportError("no", "refused"), ServerResponse(503, b"")])
def test_discovery_needs_an_answer(failure: TransportError | ServerResponse) -> None:
    api = api_over(RecordedTransport(failure))
    with pytest.raises(ApiError):
        asyncio.run(api.serves("events.k8s.io/v1"))


def test_requests_are_counted_as_the_reference_counts_them() -> None:
    registry = CollectorRegistry()
    transport = RecordedTransport(BUSY, OK, LOST)
    api = api_over(transport, metrics=ClientMetrics(registry))

    async def work() -> None:
        await api.get(Pod, "p", "d")
        with pytest.raises(ApiError):
            await api.bind("d", "p", "u", "n")

    asyncio.run(work())

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"host": "recorded:6443", **labels})

    assert value("rest_client_requests_total", code="429", method="GET") == 1
    assert value("rest_client_requests_total", code="200", method="GET") == 1
    assert value("rest_client_requests_total", code="<error>", method="POST") == 1
    assert value("rest_client_request_retries_total", code="200", verb="GET") == 1
    assert value("rest_client_request_duration_seconds_count", verb="GET") == 1
    assert value("rest_client_rate_limiter_duration_seconds_count", verb="GET") == 2
    assert registry.get_sample_value("rest_client_exec_plugin_ttl_seconds") == float("inf")


def test_a_warning_of_the_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    warned = ServerResponse(200, OK.body, {"Warning": '299 - "v1 Pod is deprecated"'})
    api = api_over(RecordedTransport(warned, warned, OK))

    async def work() -> None:
        for _ in range(3):
            await api.bind("d", "p", "u", "n")

    asyncio.run(work())
    (record,) = caplog.records
    assert "v1 Pod is deprecated" in record.getMessage()


def test_the_bookmark_after_the_initial_objects_does_not_count_as_regular() -> None:
    decoder = WatchDecoder(Pod)
    end = b'{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"5",'
    decoder.feed(end + b'"annotations":{"k8s.io/initial-events-end":"true"}}}}\n')
    assert not decoder.has_seen_bookmark
    decoder.feed(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"6"}}}\n')
    assert decoder.has_seen_bookmark
