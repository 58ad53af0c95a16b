"""Recorded requests to a real API server, replayed against `ApiService`.

Values that this server omits on purpose are removed before the comparison: field ownership of
writes other than apply, resources that are not served, hashes of storage versions.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.http import ADMIN, Requester, Users
from tests.cluster.apiserver.http.client import Client
from tests.cluster.apiserver.test_recorded_requests import (
    Translation,
    comparable,
    recorded_time_ns,
)

TOKEN = "admintoken"
USERS = Users({TOKEN: Requester(ADMIN.name, ADMIN.uid, ADMIN.groups)})
BEARER = f"Bearer {TOKEN}"

ELSEWHERE = {
    # The response depends on the time of the recording.
    "discovery /healthz",
    "discovery /livez?verbose",
    "discovery /readyz",
    # Builds differ.
    "discovery /version",
    # A separate test below compares the common parts.
    "discovery /api",
    "discovery /apis",
    "discovery /api/v1",
    "discovery /apis/apps/v1",
    "discovery /apis/coordination.k8s.io/v1",
    "discovery /apis/events.k8s.io/v1",
    "discovery /apis/storage.k8s.io/v1",
    "discovery /apis/resource.k8s.io/v1",
    "discovery /apis/scheduling.k8s.io/v1",
    "discovery /apis/policy/v1",
    "discovery /openapi/v3",
    "aggregated discovery",
    "aggregated discovery core",
    # The recorded server's storage did not support this.
    "watch with initial events",
}


@pytest.fixture(scope="module")
def recordings(goldens: Path) -> dict[str, dict[str, Any]]:
    lines = (goldens / "wire.jsonl").read_text().splitlines()
    return {each["name"]: each for each in map(json.loads, lines)}


class Replay:
    """Send the recorded requests in order to a new server."""

    def __init__(self, recordings: dict[str, dict[str, Any]]) -> None:
        self.client = Client(USERS, parse_time("2026-11-15T07:43:48Z"))
        self.translation = Translation()
        self.outcomes: dict[str, tuple[Any, Any]] = {}
        self.types: dict[str, tuple[str, str]] = {}
        for name, recording in recordings.items():
            if name == "watch future version":
                self._watch([each for each in recordings.values() if "events" in each["response"]])
            if name not in ELSEWHERE and "events" not in recording["response"]:
                self._request(recording)

    def _request(self, recording: dict[str, Any]) -> None:
        name, wanted = recording["name"], recording["response"]
        if (moment := recorded_time_ns(wanted["body"])) is not None:
            clock = self.client.clock
            clock.advance(max(0, moment - clock.now_ns()))
        request = self.translation.apply(recording["request"])
        headers = {key.lower().replace("-", "_"): v for key, v in request["headers"].items()}
        content_type = headers.pop("content_type", "")
        if not request.get("anonymous"):
            headers["authorization"] = BEARER
        elif name == "bad token":
            headers["authorization"] = "Bearer nonsense"
        body = request["body"]
        body = body.encode() if isinstance(body, str) else body
        answer = self.client.send(
            request["method"], request["path"], body, content_type=content_type, **headers
        )
        expected = _as_answered(name, wanted["body"])
        if isinstance(expected, dict) and "columnDefinitions" in expected:
            expected = _without_column_texts(expected)
        self.translation.learn(expected, answer[1])
        self.outcomes[name] = answer, (wanted["status"], self.translation.apply(expected))

    def _watch(self, recordings: list[dict[str, Any]]) -> None:
        # Recorded watches overlap with other requests. Here the log is read afterwards.
        for recording in recordings:
            name, wanted = recording["name"], recording["response"]
            if name in ELSEWHERE:
                continue
            version = f"resourceVersion={self.translation.texts['85']}"
            path = recording["request"]["path"].replace("resourceVersion=85", version)
            if wanted["status"] == 200:
                code: int = 200
                events = self.client.watch(path, authorization=BEARER)[: len(wanted["events"])]
            else:
                code, events = self.client.send("GET", path, authorization=BEARER)
            expected = self.translation.apply(wanted["events"])
            self.outcomes[name] = (code, events), (wanted["status"], expected)


def _as_answered(name: str, body: Any) -> Any:
    # The recorder changed this body in place before it wrote it.
    if name == "create lease":
        return {**body, "spec": {**body["spec"], "holderIdentity": "me"}}
    return body


def _without_column_texts(table: dict[str, Any]) -> dict[str, Any]:
    """Remove the descriptions of columns, which kubectl does not show."""
    columns = [{**column, "description": ""} for column in table["columnDefinitions"]]
    return {**table, "columnDefinitions": columns}


@pytest.fixture(scope="module")
def replay(recordings: dict[str, dict[str, Any]]) -> Replay:
    return Replay(recordings)


def test_every_recorded_request_is_answered_as_recorded(replay: Replay) -> None:
    differing = {
        name: (answered, wanted)
        for name, (answered, wanted) in replay.outcomes.items()
        if answered[0] != wanted[0] or comparable(answered[1]) != comparable(wanted[1])
    }
    assert not differing


def test_refusals_are_the_same_to_the_letter(replay: Replay) -> None:
    for name, (answered, wanted) in replay.outcomes.items():
        if wanted[0] >= 400:
            assert answered == wanted, name


def test_only_listed_requests_of_the_recording_are_skipped(
    replay: Replay, recordings: dict[str, dict[str, Any]]
) -> None:
    assert replay.outcomes.keys() | ELSEWHERE == recordings.keys()


def entries_by_name(resources: list[dict[str, Any]], key: str) -> dict[str, Any]:
    entries = {}
    for each in resources:
        entry = {field: value for field, value in each.items() if field != "subresources"}
        entries[entry[key]] = entry
    return entries


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1",
        "/apis/apps/v1",
        "/apis/coordination.k8s.io/v1",
        "/apis/events.k8s.io/v1",
        "/apis/storage.k8s.io/v1",
        "/apis/resource.k8s.io/v1",
        "/apis/scheduling.k8s.io/v1",
        "/apis/policy/v1",
    ],
)
def test_resources_are_discovered_as_recorded(
    path: str, recordings: dict[str, dict[str, Any]]
) -> None:
    wanted = recordings[f"discovery {path}"]["response"]["body"]
    found = Client().get(path)
    known = entries_by_name(wanted["resources"], "name")
    ours = entries_by_name(found["resources"], "name")
    assert ours == {name: known[name] for name in ours}
    assert list(ours) == [name for name in known if name in ours]
    assert {k: v for k, v in found.items() if k != "resources"} == {
        k: v for k, v in wanted.items() if k != "resources"
    }


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize(
    ("path", "name"), [("/apis", "aggregated discovery"), ("/api", "aggregated discovery core")]
)
def test_aggregated_discovery_is_as_recorded(
    path: str, name: str, recordings: dict[str, dict[str, Any]]
) -> None:
    recording = recordings[name]
    client = Client()
    answer: Any = client.ask("GET", path, accept=recording["request"]["headers"]["Accept"])
    assert answer.content_type == recording["response"]["contentType"]
    found, wanted = json.loads(answer.body), recording["response"]["body"]
    known = {each["metadata"].get("name", ""): each for each in wanted["items"]}
    for group in found["items"]:
        recorded = known.get(group["metadata"].get("name", ""))
        if recorded is None:
            continue  # beta versions, which the recorded server had disabled
        versions = {each["version"]: each for each in recorded["versions"]}
        for version in group["versions"]:
            if version["version"] not in versions:
                continue
            entries = entries_by_name(versions[version["version"]]["resources"], "resource")
            ours = entries_by_name(version["resources"], "resource")
            assert ours == {each: entries[each] for each in ours if each in entries}


def test_a_watch_can_begin_with_the_initial_objects_and_a_bookmark(
    recordings: dict[str, dict[str, Any]],
) -> None:
    client = Client()
    client.create("/api/v1/nodes", {"metadata": {"name": "n1"}})
    path = recordings["watch with initial events"]["request"]["path"]
    events = client.watch(path.replace("namespaces/default/pods", "nodes"))
    assert [(each["type"], each["object"]["metadata"].get("name")) for each in events] == [
        ("ADDED", "n1"),
        ("BOOKMARK", None),
    ]
    assert events[-1]["object"] == {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": str(client.store.revision),
            "creationTimestamp": None,
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    }
