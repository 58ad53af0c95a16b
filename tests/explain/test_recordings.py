"""On every recorded cluster an explanation says what the reference said, and then more.

The first pending pod of a scenario is explained on the recorded objects: the first rule that
rejects a node, the scores and the choice must be the recording's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kubesched.api.codec import from_builtins
from kubesched.api.kinds import by_api_version_kind
from kubesched.config.load import configuration_from_builtins
from kubesched.explain import Explanation, Snapshot
from kubesched.util.clock import ManualClock
from kubesched.util.virtual_loop import DEFAULT_START_NS
from tests.conformance.goldens import GOLDENS, read_lines

FAMILIES = (
    "defaultspread",
    "images",
    "mixed",
    "nodeaffinity",
    "podaffinity",
    "ports",
    "resources",
    "strategies",
    "taints",
    "topology",
)


def scenarios(family: str) -> Iterator[dict[str, Any]]:
    yield from read_lines(GOLDENS / "decisions" / f"{family}.jsonl.gz")


def parsed(document: Mapping[str, Any]) -> Any:
    kind = by_api_version_kind(document["apiVersion"], document["kind"])
    assert kind is not None
    return from_builtins(document, kind.type)


def explained(scenario: Mapping[str, Any]) -> Explanation:
    config = scenario.get("config")
    snapshot = Snapshot(
        [parsed(each) for each in (*scenario["objects"], scenario["pending"][0])],
        configuration=None if config is None else configuration_from_builtins(config),
        clock=ManualClock(DEFAULT_START_NS),
    )
    pod = parsed(scenario["pending"][0])
    return snapshot.explain(f"{pod.metadata.namespace}/{pod.metadata.name}", suggest=False)


def first_rejections(answer: Explanation) -> dict[str, tuple[str, list[str]]]:
    """Per node the plugin that stands first in its group, and all of that plugin's reasons."""
    found = {}
    for group in answer.groups:
        if group.rejections:
            first = group.rejections[0].plugin
            reasons = sorted(each.reason for each in group.rejections if each.plugin == first)
            for node in group.nodes:
                found[node] = (first, reasons)
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_an_explanation_agrees_with_the_recording(family: str) -> None:
    for scenario in scenarios(family):
        expected = scenario["expected"][0]
        if expected.get("gated") or expected.get("error"):
            continue
        answer = explained(scenario)
        if "absentNodes" not in expected:
            assert first_rejections(answer) == {
                node: (verdict["plugin"], verdict["reasons"])
                for node, verdict in expected.get("rejected", {}).items()
            }, scenario["name"]
        if "chosen" not in expected:
            assert answer.verdict == "pending", scenario["name"]
            assert expected["message"].startswith(answer.message), scenario["name"]
            continue
        assert answer.node in expected["best"], scenario["name"]
        for score in answer.scores:
            if "total" in expected:
                assert score.total == expected["total"][score.node], scenario["name"]
                points = {each.plugin: each.points for each in score.plugins}
                recorded = {name: each[score.node] for name, each in expected["scores"].items()}
                assert points == recorded, scenario["name"]
