"""Recorded requests of the reference to two extenders, and the effects of their responses.

The cluster, the pods and the extenders' responses are those of the recording. The requests must be
equal, except for identities and times, and so must the pods and events at the end.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubesched.api import EventsEvent, Node, Pod, PriorityClass
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MILLISECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.types import ExtenderConfig, ExtenderManagedResource
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing.fakes.fake_extender import FakeExtender

Json = dict[str, Any]

# What differs between any two clusters.
IDENTITIES = frozenset(["uid", "resourceVersion", "creationTimestamp", "managedFields"])
TIMES = frozenset(["lastTransitionTime", "deletionTimestamp"])
# The server of the recording had no priority admission; the embedded one has.
PRIORITY = frozenset(["priority", "priorityClassName", "preemptionPolicy"])
LEFT_OUT = IDENTITIES | TIMES | PRIORITY
FOO = "example.com/foo"


@pytest.fixture(scope="module")
def calls(goldens: Path) -> list[Json]:
    lines = (goldens / "api/extender-calls.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def recorded_list(goldens: Path, name: str) -> list[Json]:
    listed = json.loads((goldens / "api" / name).read_text())
    items: list[Json] = listed["items"]
    return items


def pod_of(call: Json) -> str:
    request = call["request"]
    name: str = request["PodName"] if "PodName" in request else request["Pod"]["metadata"]["name"]
    return name


class RecordedExtenders:
    """Both extenders of the recording; equal requests about a pod get the same response."""

    def __init__(self, calls: list[Json]) -> None:
        self._answers: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for call in calls:
            self._answers[call["path"], pod_of(call)].append(call["response"])
        self.calls: list[Json] = []
        self.plain = FakeExtender(
            filter=self._answer("/plain/filter"),
            prioritize=self._answer("/plain/prioritize"),
            preempt=self._answer("/plain/preempt"),
        )
        self.cache = FakeExtender(
            filter=self._answer("/cache/filter"),
            prioritize=self._answer("/cache/prioritize"),
            bind=self._answer("/cache/bind"),
        )

    def settings(self) -> list[ExtenderConfig]:
        managed = ExtenderManagedResource(name=FOO, ignored_by_scheduler=True)
        return [
            self.plain.settings("/plain"),
            self.cache.settings("/cache", node_cache_capable=True, managed_resources=(managed,)),
        ]

    def transport(self, settings: ExtenderConfig) -> Any:
        fake = self.plain if settings.url_prefix.endswith("/plain") else self.cache
        return fake.transport(settings)

    def _answer(self, path: str) -> Any:
        def answer(request: Json) -> Any:
            call = {"path": path, "request": request}
            self.calls.append(call)
            waiting = self._answers[path, pod_of(call)]
            recorded = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            return self._about_this_cluster(recorded, request)

        return answer

    def _about_this_cluster(self, recorded: Any, request: Json) -> Any:
        """Return the recorded response with the current objects in place of the recorded ones."""
        if not isinstance(recorded, dict):
            return recorded
        if recorded.get("Nodes"):
            names = [node["metadata"]["name"] for node in recorded["Nodes"]["items"]]
            sent = {node["metadata"]["name"]: node for node in request["Nodes"]["items"]}
            return {**recorded, "Nodes": {"items": [sent[name] for name in names]}}
        if "NodeNameToMetaVictims" in recorded:
            sent = request["NodeNameToVictims"]
            return {
                "NodeNameToMetaVictims": {
                    node: {
                        "Pods": [{"UID": pod["metadata"]["uid"]} for pod in sent[node]["Pods"]],
                        "NumPDBViolations": sent[node]["NumPDBViolations"],
                    }
                    for node in recorded["NodeNameToMetaVictims"]
                }
            }
        return recorded


def without(value: Any, keys: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {key: without(each, keys) for key, each in value.items() if key not in keys}
    if isinstance(value, list):
        return [without(each, keys) for each in value]
    return value


def in_order(calls: list[Json]) -> dict[str, list[tuple[str, Any]]]:
    """Sort calls by pod, and values that have no order in the reference either."""
    by_pod: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for call in calls:
        request = without(call["request"], LEFT_OUT | {"PodUID"})
        if request.get("Nodes"):
            request["Nodes"]["items"].sort(key=lambda node: node["metadata"]["name"])
        if request.get("NodeNames"):
            request["NodeNames"].sort()
        by_pod[pod_of(call)].append((call["path"], request))
    for entries in by_pod.values():
        for position in range(1, len(entries)):
            before, now = entries[position - 1 : position + 1]
            both = {before[0], now[0]}
            if both == {"/plain/prioritize", "/cache/prioritize"} and now[0] == "/cache/prioritize":
                entries[position - 1 : position + 1] = [now, before]
    return by_pod


def unborn(recorded: Json) -> Json:
    """An object of a request as a client would have created it."""
    metadata = without(recorded["metadata"], IDENTITIES | {"generation"})
    spec = {key: value for key, value in recorded["spec"].items() if key != "priority"}
    if recorded["spec"].get("priority"):
        spec["priorityClassName"] = "urgent"
    return {**recorded, "metadata": metadata, "spec": spec}


def objects(calls: list[Json]) -> Iterator[tuple[type, Json]]:
    """Return the nodes and pods of the recording in their initial state."""
    seen = set()
    for call in calls:
        request = call["request"]
        listed = (request.get("Nodes") or {}).get("items", ())
        for kind, found in [(Node, node) for node in listed] + [(Pod, request.get("Pod"))]:
            if found and (key := (kind, found["metadata"]["name"])) not in seen:
                seen.add(key)
                yield kind, unborn(found)


def takes_a_moment(verb: str, _kind: str, _namespace: str | None, _name: str) -> Fault | None:
    """A write takes longer than its watch event, as over a network."""
    return Fault(delay_ns=5 * MILLISECOND) if verb in ("patch", "delete", "bind") else None


async def replay(calls: list[Json]) -> tuple[RecordedExtenders, LocalApi]:
    clock = current_clock()
    api = LocalApi(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
    extenders = RecordedExtenders(calls)
    urgent = {"metadata": {"name": "urgent"}, "value": 1000}
    await api.create_document(PriorityClass, None, urgent)
    late = []
    for kind, document in objects(calls):
        if document["metadata"]["name"] == "urgent":
            late.append(document)
        else:
            namespace = document["metadata"].get("namespace")
            await api.create_document(kind, namespace, document)
    scheduler = Scheduler(
        LocalApi(api.store, clock, faults=takes_a_moment),
        clock,
        extenders=extenders.settings(),
        extender_transport=extenders.transport,
        hostname="vm",
    )
    async with running(scheduler):
        await asyncio.sleep(6)
        for document in late:
            await api.create_document(Pod, "default", document)
        await asyncio.sleep(1)
    return extenders, api


def test_the_same_calls_are_made(calls: list[Json]) -> None:
    async def scenario() -> list[Json]:
        extenders, _ = await replay(calls)
        return extenders.calls

    made, recorded = in_order(virtual_loop.run(scenario)), in_order(calls)
    assert made.keys() == recorded.keys()
    for pod, expected in recorded.items():
        assert [path for path, _ in made[pod]] == [path for path, _ in expected], pod
        for (path, got), (_, want) in zip(made[pod], expected, strict=True):
            assert got == want, f"{path} for {pod}"


def test_the_pods_end_as_they_did(calls: list[Json], goldens: Path) -> None:
    async def scenario() -> list[Json]:
        _, api = await replay(calls)
        listed = await api.list(Pod, "default")
        names = [pod.metadata.name for pod in listed.items]
        return [msgspec.to_builtins(api.document(Pod, name, "default")) for name in names]

    ignored = LEFT_OUT | {"kind", "apiVersion", "lastProbeTime"}
    got = {pod["metadata"]["name"]: without(pod, ignored) for pod in virtual_loop.run(scenario)}
    want = {
        pod["metadata"]["name"]: without(pod, ignored)
        for pod in recorded_list(goldens, "extender-pods.json")
    }
    assert got == want


def test_the_same_events_are_recorded(calls: list[Json], goldens: Path) -> None:
    async def scenario() -> list[tuple[Any, ...]]:
        _, api = await replay(calls)
        listed = await api.list(EventsEvent, "default")
        return sorted(
            (
                each.regarding.name,
                each.type,
                each.reason,
                each.action,
                without_uid(each.note),
                0 if each.series is None else each.series.count,
                each.reporting_controller,
                each.reporting_instance,
            )
            for each in listed.items
        )

    want = sorted(
        (
            each["regarding"]["name"],
            each["type"],
            each["reason"],
            each["action"],
            without_uid(each["note"]),
            each.get("series", {}).get("count", 0),
            each["reportingController"],
            each["reportingInstance"],
        )
        for each in recorded_list(goldens, "extender-events.json")
    )
    assert virtual_loop.run(scenario) == want


def without_uid(note: str) -> str:
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", note)
