"""The JSON of pods and nodes, cached in addition to the decoded objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod, codec
from kubesched.api.access import ApiError, ObjectList, WatchEvent
from kubesched.api.raw_objects import NodeDocument, PodDocument
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.client.document_cache import DocumentCache
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive

MANAGED = [{"manager": "someone", "operation": "Update"}]


def node_document(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "managedFields": MANAGED},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod_document(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default", "managedFields": MANAGED},
        "spec": {"containers": [{"name": "c", "image": "i", "stdin": True}], "hostname": "h"},
    }


class DocumentHarness:
    """A store, a cache in front of it, and an informer of each kind on the cache."""

    def __init__(self, keeps: dict[type, Callable[[Any], bool]]) -> None:
        clock = current_clock()
        self.api = LocalApi(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
        self.cache = DocumentCache(self.api, keeps)
        api: Any = self.cache
        self.nodes = SharedInformer(api, Node, clock, derive(0, "nodes"))
        self.pods = SharedInformer(api, Pod, clock, derive(0, "pods"))
        for informer in (self.nodes, self.pods):
            informer.add_handler(on_delete=lambda gone, _: self.cache.forget(gone))

    async def create(self, kind: type, document: dict[str, Any]) -> None:
        namespace = document["metadata"].get("namespace")
        await self.api.create_document(kind, namespace, document)

    def pod(self, name: str) -> Any:
        found = self.pods.store.get(name, "default")
        assert found is not None
        return msgspec.json.decode(self.cache.pod(found))

    def node(self, name: str) -> Any:
        found = self.nodes.store.get(name)
        assert found is not None
        return msgspec.json.decode(self.cache.node(found))


def everything(_: Any) -> bool:
    return True


def run(keeps: dict[type, Callable[[Any], bool]], work: Any) -> None:
    async def scenario() -> None:
        harness = DocumentHarness(keeps)
        async with running(harness.nodes, harness.pods):
            await harness.nodes.wait_for_sync()
            await harness.pods.wait_for_sync()
            await work(harness)

    virtual_loop.run(scenario)


async def turn() -> None:
    await current_clock().sleep(1_000_000)


def test_undeclared_fields_are_preserved_with_those_that_the_reference_always_writes() -> None:
    async def work(harness: DocumentHarness) -> None:
        await harness.create(Node, node_document("n"))
        await harness.create(Pod, pod_document("p"))
        await turn()
        node, pod = harness.node("n"), harness.pod("p")
        assert node["spec"]["podCIDR"] == "10.0.0.0/24"
        assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
        assert node["status"]["conditions"][0]["lastHeartbeatTime"] is None
        assert pod["spec"]["hostname"] == "h"
        assert pod["spec"]["containers"][0]["stdin"] is True
        assert "kind" not in pod
        assert "kind" not in node

    run({Pod: everything, Node: everything}, work)


def test_managed_fields_are_dropped_from_pods_alone() -> None:
    metadata = msgspec.Raw(b'{"name":"x","managedFields":[{"manager":"m"}]}')
    pod, node = PodDocument(metadata_part=metadata), NodeDocument(metadata_part=metadata)
    assert msgspec.json.decode(pod.body)["metadata"] == {"name": "x"}
    assert msgspec.json.decode(node.body)["metadata"]["managedFields"] == [{"manager": "m"}]
    assert pod.metadata.name == "x"


def test_the_cache_stores_the_version_that_arrived_last() -> None:
    async def work(harness: DocumentHarness) -> None:
        await harness.create(Node, node_document("n"))
        await turn()
        await harness.api.patch(Node, "n", None, {"metadata": {"labels": {"a": "b"}}})
        await turn()
        found = harness.nodes.store.get("n")
        assert found is not None
        assert harness.node("n")["metadata"]["labels"]["a"] == "b"
        assert harness.node("n")["metadata"]["resourceVersion"] == found.metadata.resource_version

    run({Node: everything}, work)


def test_unsendable_rows_are_not_stored_and_deleted_ones_are_dropped() -> None:
    async def work(harness: DocumentHarness) -> None:
        await harness.create(Pod, pod_document("wanted"))
        await harness.create(Pod, pod_document("other"))
        await harness.create(Node, node_document("n"))
        await turn()
        assert len(harness.cache) == 1
        await harness.api.delete(Pod, "wanted", "default", grace_period_seconds=0)
        await turn()
        assert len(harness.cache) == 0

    run({Pod: lambda pod: pod.metadata.name == "wanted"}, work)


class Plain(LocalApi):
    """Omits the values that the reference's server writes for unset fields."""

    node = NodeDocument(
        metadata_part=msgspec.Raw(b'{"name":"n"}'),
        status_part=msgspec.Raw(b'{"conditions":[{"type":"Ready","status":"True"}]}'),
    )
    pod = PodDocument(
        metadata_part=msgspec.Raw(b'{"name":"p","namespace":"default"}'),
        status_part=msgspec.Raw(b'{"conditions":[{"type":"Ready","status":"True"}]}'),
    )

    async def list(self, kind: Any, namespace: str | None = None, **_: Any) -> Any:
        return ObjectList([self.node if kind is NodeDocument else self.pod], "1")


def test_required_fields_omitted_by_a_server_are_added() -> None:
    async def scenario() -> None:
        clock = current_clock()
        api: Any = Plain(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
        cache = DocumentCache(api, {Pod: everything, Node: everything})
        [node], [pod] = (await cache.list(Node)).items, (await cache.list(Pod)).items
        shown = msgspec.json.decode(cache.node(node))
        assert shown["spec"] == {}
        assert shown["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
        assert shown["status"]["nodeInfo"]["kubeletVersion"] == ""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": None}
        assert shown["status"]["conditions"] == [{**ready, "lastHeartbeatTime": None}]
        shown = msgspec.json.decode(cache.pod(pod))
        assert shown["status"]["conditions"] == [{**ready, "lastProbeTime": None}]

    virtual_loop.run(scenario)


def test_the_end_of_an_object_does_not_touch_another_of_its_name() -> None:
    async def work(harness: DocumentHarness) -> None:
        await harness.create(Pod, pod_document("p"))
        await turn()
        before = harness.pods.store.get("p", "default")
        assert before is not None
        await harness.api.delete(Pod, "p", "default", grace_period_seconds=0)
        await harness.create(Pod, pod_document("p"))
        await turn()
        harness.cache.forget(before)
        assert harness.pod("p")["spec"]["hostname"] == "h"

    run({Pod: everything}, work)


def test_an_object_first_reported_by_its_deletion_is_not_cached() -> None:
    async def scenario() -> None:
        clock = current_clock()
        api = LocalApi(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
        cache: Any = DocumentCache(api, {Node: everything})
        await api.create_document(Node, None, node_document("n"))
        version = (await api.list(Node)).resource_version
        await api.delete(Node, "n")
        event = await anext(cache.watch(Node, resource_version=version))
        assert event.type == "DELETED"
        assert len(cache) == 0

    virtual_loop.run(scenario)


def test_a_bound_pod_is_shown_on_its_node() -> None:
    async def work(harness: DocumentHarness) -> None:
        await harness.create(Pod, pod_document("p"))
        await turn()
        pod = harness.pods.store.get("p", "default")
        assert pod is not None
        placed = replace(pod, spec=replace(pod.spec, node_name="n"))
        shown = msgspec.json.decode(harness.cache.pod(placed))
        assert shown["spec"]["nodeName"] == "n"
        assert shown["spec"]["hostname"] == "h"

    run({Pod: everything}, work)


def test_pods_without_cached_json_are_encoded_from_their_type() -> None:
    async def work(harness: DocumentHarness) -> None:
        await harness.create(Pod, pod_document("p"))
        await turn()
        shown = harness.pod("p")
        assert shown["metadata"]["name"] == "p"
        assert shown["spec"]["containers"][0]["image"] == "i"

    run({}, work)


class Odd(LocalApi):
    """Has one pod that cannot be decoded and one that can."""

    broken = PodDocument(
        metadata_part=msgspec.Raw(b'{"name":"odd","resourceVersion":"7"}'),
        spec_part=msgspec.Raw(b'{"containers":"none"}'),
    )
    sound = PodDocument(metadata_part=msgspec.Raw(b'{"name":"sound"}'))

    async def list(self, kind: Any, namespace: str | None = None, **_: Any) -> Any:
        return ObjectList([self.broken, self.sound], "1")

    async def watch(self, kind: Any, namespace: str | None = None, **_: Any) -> Any:
        yield WatchEvent("MODIFIED", self.broken, "7")
        yield WatchEvent("ADDED", self.sound, "8")
        yield WatchEvent("DELETED", self.broken, "9")


def test_objects_that_cannot_be_decoded_are_skipped(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        clock = current_clock()
        api: Any = Odd(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
        cache = DocumentCache(api, {Pod: everything})
        assert [each.metadata.name for each in (await cache.list(Pod)).items] == ["sound"]
        events = cache.watch(Pod, resource_version="1")
        seen = [await anext(events) for _ in range(2)]
        assert [each.type for each in seen] == ["BOOKMARK", "ADDED"]
        assert [each.resource_version for each in seen] == ["7", "8"]
        with pytest.raises(ApiError):  # so that a new list shows which objects were deleted
            await anext(events)

    virtual_loop.run(scenario)
    assert "object=odd" in caplog.text


@pytest.mark.parametrize(
    "options", [{"send_initial_events": True}, {"resource_version": "8"}], ids=["a list", "old"]
)
def test_undecodable_objects_are_skipped_in_lists_and_old_events(options: Any) -> None:
    """A follower of a watch must not receive an object that does not exist."""

    async def scenario() -> None:
        script = Script()
        broken, sound = Odd.broken, Odd.sound
        script.pages = [ObjectList([], "8")]
        script.events = [WatchEvent("ADDED", broken, "7"), WatchEvent("ADDED", sound, "6")]
        cache = DocumentCache(cast("Any", script), {Pod: everything})
        await cache.list(Pod)
        seen = [each async for each in cache.watch(Pod, **options)]
        assert [(each.type, each.object is None) for each in seen] == [
            ("BOOKMARK", True),
            ("ADDED", False),
        ]

    virtual_loop.run(scenario)


@pytest.mark.parametrize(
    ("metadata", "name"),
    [(b'{"name":"x","labels":null}', "x"), (b'"odd"', ""), (b'{"name":1}', "")],
    ids=["null counts as absent", "no metadata at all", "metadata of other types"],
)
def test_which_object_a_document_is(metadata: bytes, name: str) -> None:
    assert PodDocument(metadata_part=msgspec.Raw(metadata)).metadata.name == name


class Script:
    """An API whose watches and lists return scripted responses."""

    def __init__(self) -> None:
        self.events: list[WatchEvent[Any]] = []
        self.pages: list[ObjectList[Any]] = []

    async def watch(self, *_: Any, **__: Any) -> AsyncIterator[WatchEvent[Any]]:
        for event in self.events:
            yield event

    async def list(self, *_: Any, **__: Any) -> ObjectList[Any]:
        return self.pages.pop(0)


def event(happened: str, name: str, version: str) -> WatchEvent[Any]:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": version}
    body = msgspec.json.encode({"metadata": metadata, "spec": {"containers": []}})
    return WatchEvent(happened, msgspec.json.decode(body, type=PodDocument), version)


END = WatchEvent("BOOKMARK", None, "20", is_initial_end=True)


async def cache_after(script: Script, **options: Any) -> DocumentCache:
    cache = DocumentCache(cast("Any", script), {Pod: everything})
    async for _ in cache.watch(Pod, resource_version="", **options):
        pass
    return cache


def test_old_events_of_deleted_objects_are_not_cached() -> None:
    """Seed 275: a watch began too early, and the object was never removed again."""

    async def scenario() -> None:
        script = Script()
        script.events = [event("ADDED", "a", "12"), event("ADDED", "gone", "10")]
        assert len(await cache_after(script)) == 1

    virtual_loop.run(scenario)


def test_objects_missing_from_a_new_list_are_evicted() -> None:
    """A list that was sent as a watch may break off, and objects in it may be deleted meanwhile."""

    async def scenario() -> None:
        script = Script()
        script.events = [event("ADDED", "a", "12"), event("ADDED", "gone", "10")]
        cache = await cache_after(script, send_initial_events=True)
        assert len(cache) == 0  # no whole list has been read
        script.events = [event("ADDED", "a", "12"), END]
        async for _ in cache.watch(Pod, resource_version="", send_initial_events=True):
            pass
        assert len(cache) == 1
        one = event("ADDED", "b", "21").object
        script.pages = [ObjectList([one], "30", "more"), ObjectList([], "30", "")]
        await cache.list(Pod)
        assert len(cache) == 1
        await cache.list(Pod, continue_token="more")
        gone = codec.decode(event("ADDED", "a", "12").object.body, Pod)
        cache.forget(gone)
        assert len(cache) == 1

    virtual_loop.run(scenario)
