"""Recorded requests to a real API server, replayed against the store.

Status codes and error texts must be equal. Objects must be equal except for values that differ
between any two servers: uids, times, generated names, and versions, whose order is compared.
Field ownership, discovery, tables, apply and reviews are tested with the HTTP server.
"""

from __future__ import annotations

import base64
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.store.object_store import Store
from tests.cluster.apiserver.wire_adapter import WireAdapter

NOT_OF_THE_STORE = (
    "access review",
    "aggregated discovery",
    "anonymous",
    "bad token",
    "create pod bad json",
    "create pod unknown field strict",
    "discovery",
    "not acceptable",
    "partial metadata",
    "server-side apply",
    "table",
    "token review",
    "unknown group",
    "unknown path",
    "unsupported media",
    "watch with initial events",
)
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Translation:
    """Maps the recording's uids, names and versions to those of the store under test."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def learn(self, recorded: Any, answered: Any) -> None:
        if isinstance(recorded, dict) and isinstance(answered, dict):
            for key, value in recorded.items():
                other = answered.get(key)
                if key in ("uid", "name", "resourceVersion", "continue") and isinstance(other, str):
                    self.texts[value] = other
                else:
                    self.learn(value, other)
        elif isinstance(recorded, list) and isinstance(answered, list):
            for value, other in zip(recorded, answered, strict=False):
                self.learn(value, other)

    def apply(self, recorded: Any) -> Any:
        if isinstance(recorded, dict):
            return {key: self.apply(value) for key, value in recorded.items()}
        if isinstance(recorded, list):
            return [self.apply(value) for value in recorded]
        if isinstance(recorded, str):
            if recorded in self.texts:
                return self.texts[recorded]
            return UID.sub(lambda found: self.texts.get(found[0], found[0]), recorded)
        return recorded


VOLATILE = ("uid", "resourceVersion", "continue", "creationTimestamp")


def comparable(body: Any) -> Any:
    """Remove the parts of a body that may differ."""
    if isinstance(body, dict):
        return {
            key: "<any>" if key in VOLATILE else comparable(value)
            for key, value in body.items()
            if key not in ("managedFields", "description")  # descriptions are our own texts
        }
    if isinstance(body, list):
        return [comparable(value) for value in body]
    return body


@pytest.fixture(scope="module")
def recordings(goldens: Path) -> list[dict[str, Any]]:
    lines = (goldens / "wire.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def recorded_time_ns(body: Any) -> int | None:
    """Return the latest time in a response."""
    if isinstance(body, dict):
        entries = body.get("metadata", {}).get("managedFields", [])
        if body.get("metadata", {}).get("deletionTimestamp"):
            return None
        return max((parse_time(entry["time"]) for entry in entries), default=None)
    return None


class Replay:
    """Send the recorded requests in order to a new store."""

    def __init__(self, recordings: list[dict[str, Any]]) -> None:
        start_ns = parse_time("2026-11-15T07:43:48Z")
        self.adapter = WireAdapter(Store(random.Random(7), now_ns=start_ns), start_ns)
        self.translation = Translation()
        self.outcomes: dict[str, tuple[Any, Any]] = {}
        for recording in recordings:
            if recording["name"] == "watch future version":
                self._watch([each for each in recordings if "events" in each["response"]])
            self._request(recording)

    def _request(self, recording: dict[str, Any]) -> None:
        name, wanted = recording["name"], recording["response"]
        if name.startswith(NOT_OF_THE_STORE) or "events" in wanted:
            return
        if (moment := recorded_time_ns(wanted["body"])) is not None:
            self.adapter.now_ns = max(self.adapter.now_ns, moment)
        code, body = self.adapter.answer(self.translation.apply(recording["request"]))
        expected = _as_answered(name, wanted["body"])
        self.translation.learn(expected, body)
        self.outcomes[name] = (code, body), (wanted["status"], self.translation.apply(expected))

    def _watch(self, recordings: list[dict[str, Any]]) -> None:
        # Recorded watches overlap with other requests. Here the log is read afterwards.
        for recording in recordings:
            name, wanted = recording["name"], recording["response"]
            if name.startswith(NOT_OF_THE_STORE):
                continue
            path = recording["request"]["path"].replace(
                "resourceVersion=85", f"resourceVersion={self.translation.texts['85']}"
            )
            code, events = self.adapter.watch(path)
            if isinstance(wanted["events"], list):
                events = events[: len(wanted["events"])]
            expected = self.translation.apply(wanted["events"])
            self.outcomes[name] = (code, events), (wanted["status"], expected)


@pytest.fixture(scope="module")
def replay(recordings: list[dict[str, Any]]) -> Replay:
    return Replay(recordings)


def test_every_recorded_request_is_answered_as_recorded(replay: Replay) -> None:
    differing = {
        name: (answered, wanted)
        for name, (answered, wanted) in replay.outcomes.items()
        if answered[0] != wanted[0] or comparable(answered[1]) != comparable(wanted[1])
    }
    assert not differing


def test_refusals_are_the_same_to_the_letter(replay: Replay) -> None:
    refusals = {
        name: (answered, wanted)
        for name, (answered, wanted) in replay.outcomes.items()
        if wanted[0] >= 400
    }
    assert len(refusals) == 22
    for name, (answered, wanted) in refusals.items():
        assert answered == wanted, name


def test_all_of_the_recording_but_the_http_server_part_is_replayed(replay: Replay) -> None:
    assert len(replay.outcomes) == 72


def test_versions_grow_as_recorded(replay: Replay) -> None:
    # Up to 50, and at 63 and 64, the recorded server was still creating its initial objects.
    numbers = [
        (int(recorded), int(answered))
        for recorded, answered in replay.translation.texts.items()
        if recorded.isdecimal() and int(recorded) > 50 and recorded not in ("63", "64")
    ]
    assert [answered for _, answered in sorted(numbers)] == sorted(
        answered for _, answered in numbers
    )


def test_continue_tokens_hold_the_version_and_the_next_key(replay: Replay) -> None:
    (_, body), _ = replay.outcomes["list limit"]
    token = body["metadata"]["continue"]
    document = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert document == {
        "v": "meta.k8s.io/v1",
        "rv": int(body["metadata"]["resourceVersion"]),
        "start": "default/p1\0",
    }


def test_the_invariants_of_the_store_hold(replay: Replay) -> None:
    replay.adapter.store.check_invariants()


def _as_answered(name: str, body: Any) -> Any:
    # The recorder changed this body in place before it wrote it.
    if name == "create lease":
        return {**body, "spec": {**body["spec"], "holderIdentity": "me"}}
    return body
