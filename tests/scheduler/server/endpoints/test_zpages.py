"""`/statusz`, `/flagz` and `/configz` (docs/reference/02 §6.3, §6.4, cases 41 to 44)."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from kubesched.foundation.http.http_messages import Handler
from kubesched.foundation.util.clock import SECOND, ManualClock
from kubesched.scheduler.config import DEFAULT_FEATURE_GATES
from kubesched.scheduler.config.configuration_completion import as_written
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.config.write import versioned
from kubesched.scheduler.server.endpoints.configz import configz_handler
from kubesched.scheduler.server.endpoints.zpages import Versions, flagz_handler, statusz_handler
from tests.scheduler.server.serving_harness import ADMIN, ServingHarness, request

PATHS = ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"]
STARTED_NS = 1_794_726_633 * SECOND  # Sun Nov 15 07:10:33 UTC 2026, as recorded


class RecordedDelimiter(random.Random):
    """Draws the delimiter that the recording happened to have."""

    def choice(self, seq):  # type: ignore[no-untyped-def]
        assert ": " in seq
        return ": "


def statusz(clock: ManualClock) -> Handler:
    return statusz_handler(
        clock, Versions("1.36", "1.36", "go1.27.3"), lambda: PATHS, RecordedDelimiter()
    )


def ask(handler: Handler, accept: str = "") -> tuple[int, bytes, str, dict[str, str]]:
    headers = [("Accept", accept)] if accept else []
    answer = asyncio.run(handler(request("/statusz", headers)))
    return answer.status, answer.body, answer.content_type, dict(answer.headers)


def test_the_text_equals_the_recorded_one(goldens: Path) -> None:
    clock = ManualClock(STARTED_NS)
    handler = statusz(clock)
    clock.advance(32 * SECOND + 1)
    assert ask(handler)[1] == (goldens / "api/statusz.txt").read_bytes()


def test_flags_are_listed_as_recorded(goldens: Path) -> None:
    recorded = (goldens / "api/flagz.txt").read_bytes()
    lines = recorded.decode().split("\n")[3:-1]
    flags = dict(line.split(": ", 1) for line in lines)
    assert ask(flagz_handler(flags, RecordedDelimiter()))[1] == recorded


def test_the_configuration_equals_the_recorded_one(goldens: Path) -> None:
    configuration = default_configuration(DEFAULT_FEATURE_GATES)
    connection = replace(
        configuration.client_connection, kubeconfig="/etc/kubernetes/scheduler.conf"
    )
    page = versioned(as_written(replace(configuration, client_connection=connection)))
    answer = asyncio.run(configz_handler(lambda: page)(request("/configz")))
    assert answer.body == (goldens / "api/configz.json").read_bytes()
    assert answer.content_type == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


TEXT = ["", "*/*", "text/plain", "application/json;g=wrong, */*", "text/plain;q=0.5"]


@pytest.mark.parametrize("accept", TEXT)
def test_text_is_sent_to_clients_that_accept_it(accept: str) -> None:
    status, body, content_type, _ = ask(statusz(ManualClock()), accept)
    assert (status, content_type) == (200, "text/plain; charset=utf-8")
    assert body.startswith(b"\nkube-scheduler statusz\nWarning: ")


OBJECT = "g=config.k8s.io;v=v1beta1;as=Statusz"
REFUSED = [
    "application/json",
    "application/json;g=config.k8s.io;v=v1beta1",
    "application/json;g=config.k8s.io;v=v1;as=Statusz",
    "application/json;g=config.k8s.io;v=v1beta1;as=Flagz",
    "application/xml",
    "application/vnd.kubernetes.protobuf;" + OBJECT,
    "text/plain;" + OBJECT,
]


@pytest.mark.parametrize("accept", REFUSED)
def test_unsupported_media_types_are_refused(accept: str) -> None:
    status, body, _, _ = ask(statusz(ManualClock()), accept)
    refusal = json.loads(body)
    assert (status, refusal["reason"]) == (406, "NotAcceptable")
    assert refusal["message"] == (
        "only the following media types are accepted: "
        "application/json, application/yaml, text/plain"
    )


def test_objects_for_programs() -> None:
    clock = ManualClock(STARTED_NS)
    handler = statusz(clock)
    clock.advance(90 * SECOND)
    expected = {
        "kind": "Statusz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-scheduler"},
        "startTime": "2026-11-15T07:10:33Z",
        "uptimeSeconds": 90,
        "goVersion": "go1.27.3",
        "binaryVersion": "1.36",
        "emulationVersion": "1.36",
        "paths": PATHS,
    }
    _, body, content_type, headers = ask(handler, f"application/json;{OBJECT}")
    assert json.loads(body) == expected
    assert content_type == f"application/json;{OBJECT}"
    assert "Warning" not in headers
    _, body, content_type, _ = ask(handler, f"application/yaml;{OBJECT}")
    assert yaml.safe_load(body) == expected
    assert content_type == f"application/yaml;{OBJECT}"


def test_the_first_requested_version_is_served_and_a_deprecated_one_has_a_warning() -> None:
    old = "application/json;g=config.k8s.io;v=v1alpha1;as=Flagz"
    new = "application/json;g=config.k8s.io;v=v1beta1;as=Flagz"
    handler = flagz_handler({"v": "4"}, random.Random(1))
    _, body, _, headers = ask(handler, f"{old}, {new}")
    assert json.loads(body)["apiVersion"] == "config.k8s.io/v1alpha1"
    assert headers["Warning"] == (
        '299 - "This version of the flagz endpoint is deprecated. Please use a newer version."'
    )
    _, body, _, headers = ask(handler, f"{new}, {old}")
    assert json.loads(body)["flags"] == {"v": "4"}
    assert "Warning" not in headers


def test_statusz_has_a_new_random_delimiter_per_response() -> None:
    rng = random.Random(1)
    clock = ManualClock()
    pages = statusz_handler(clock, Versions("1", "1", "x"), lambda: PATHS, rng)
    assert len({ask(pages)[1] for _ in range(50)}) == 4
    flags = flagz_handler({"v": "4"}, rng)
    assert len({ask(flags)[1] for _ in range(50)}) == 1


def test_the_paths_shown_are_those_served() -> None:
    answer = asyncio.run(ServingHarness(ManualClock()).ask("/statusz", token=ADMIN))
    assert answer.body.decode().rstrip().endswith(" ".join(PATHS))
