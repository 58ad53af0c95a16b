"""Explanations of every recorded decision contain the message of the reference.

Each pending pod of each scenario is explained right before it is scheduled: the first rule that
rejects a node, the scores and the choice must be the recording's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.explain import Explanation, Snapshot
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.config.load import configuration_from_builtins
from tests.conformance.decision_goldens import RECORDED_NS, Scenario
from tests.conformance.decision_harness import DecisionHarness, parse_object
from tests.conformance.goldens import GOLDENS, read_lines

FAMILIES = sorted(
    path.name.removesuffix(".jsonl.gz") for path in (GOLDENS / "decisions").glob("*.jsonl.gz")
)


class ExplainedScenario(Scenario):
    """A scenario whose pods are explained before each is tried."""

    def __init__(self, family: str, golden: Mapping[str, Any]) -> None:
        super().__init__(family, golden)
        config = golden.get("config")
        self._snapshot = Snapshot(
            [parse_object(each) for each in golden["objects"]],
            configuration=None if config is None else configuration_from_builtins(config),
            clock=current_clock(),
        )
        self._changed: dict[tuple[type[Any], str, str], None] | None = None
        self.checked = 0

    def before_step(self, harness: DecisionHarness, pod: Pod, recorded: Mapping[str, Any]) -> None:
        if self._changed is None:
            self._changed = {}
            harness.objects.listeners.append(self._note)
            self._note(None, pod)
        self._catch_up(harness, self._changed)
        self._nominate(harness)
        nominated = pod.status.nominated_node_name
        compare(self._snapshot.explain(pod, suggest=False), recorded, nominated)
        self.checked += 1

    def _note(self, old: Any, new: Any) -> None:
        metadata = (old or new).metadata
        assert self._changed is not None
        self._changed[type(old or new), metadata.name, metadata.namespace] = None

    def _catch_up(
        self, harness: DecisionHarness, changed: dict[tuple[type[Any], str, str], None]
    ) -> None:
        for kind, name, namespace in changed:
            now = harness.objects.get(kind, name, namespace)
            if now is None:
                self._snapshot.model.objects.remove(kind, name, namespace)
            else:
                self._snapshot.model.objects.put(now)
        changed.clear()

    def _nominate(self, harness: DecisionHarness) -> None:
        """Write to the pods what only the harness's scheduler has in memory so far."""
        nominations = harness.nominations()
        for pod in harness.waiting_pods():
            node = nominations.get(f"{pod.metadata.namespace}/{pod.metadata.name}", "")
            known = self._snapshot.model.objects.get(Pod, pod.metadata.name, pod.metadata.namespace)
            if known is not None and known.status.nominated_node_name != node:
                status = replace(known.status, nominated_node_name=node)
                self._snapshot.model.objects.put(replace(known, status=status))


def compare(answer: Explanation, expected: Mapping[str, Any], nominated: str) -> None:
    if "gated" in expected:
        assert answer.verdict == "pending"
        assert answer.message == ", ".join(expected["gated"]["reasons"])
        return
    if "error" in expected:
        assert answer.verdict == "pending"
        assert "CEL compile error" in answer.message or answer.message == expected["error"]
        return
    first = first_rejections(answer)
    rejected = {
        node: (verdict["plugin"], verdict["reasons"])
        for node, verdict in expected.get("rejected", {}).items()
    }
    if "absentNodes" in expected:
        compare_left_out(first, rejected, expected["absentNodes"])
    elif nominated and nominated in expected.get("feasible", ()):
        assert not rejected  # a scheduler looks no further than there
    elif answer.nodes > len(rejected) + len(expected.get("feasible", ())):
        # The profile samples nodes; an explanation considers all of them.
        assert first.items() >= rejected.items()
        assert answer.verdict == "fits"
        return
    else:
        assert first == rejected
    if "chosen" not in expected:
        assert answer.verdict == "pending"
        assert expected["message"].startswith(answer.message)
        return
    assert answer.node in expected["best"]
    assert answer.feasible == len(expected["feasible"])
    if "total" in expected:
        compare_scores(answer, expected)


def compare_left_out(
    first: Mapping[str, tuple[str, list[str]]],
    rejected: Mapping[str, tuple[str, list[str]]],
    status: Mapping[str, Any],
) -> None:
    """PreFilter rejected the pod, or excluded nodes; then the message may be that of its plugin."""
    for node, verdict in rejected.items():
        assert first[node] == verdict
    for node in first.keys() - rejected.keys():
        plugin, reasons = first[node]
        if status["plugin"]:
            assert (plugin, reasons) == (status["plugin"], status["reasons"])
        else:
            assert status["reasons"] == [f"node(s) didn't satisfy plugin(s) [{plugin}]"]


def compare_scores(answer: Explanation, expected: Mapping[str, Any]) -> None:
    best = sorted(expected["total"].values(), reverse=True)
    assert [score.total for score in answer.scores] == best[: len(answer.scores)]
    for score in answer.scores:
        assert score.total == expected["total"][score.node]
        points = {each.plugin: each.points for each in score.plugins}
        assert points == {name: each[score.node] for name, each in expected["scores"].items()}


def first_rejections(answer: Explanation) -> dict[str, tuple[str, list[str]]]:
    """Return per node the first plugin of its group, and all reasons of that plugin."""
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
    checked = 0
    for golden in read_lines(GOLDENS / "decisions" / f"{family}.jsonl.gz"):
        checked += run(lambda golden=golden: explained(family, golden), start_ns=RECORDED_NS)
    assert checked > 0


async def explained(family: str, golden: Mapping[str, Any]) -> int:
    scenario = ExplainedScenario(family, golden)
    try:
        await scenario.run()
    except AssertionError as error:
        error.add_note(f"in {golden['name']} after {scenario.checked} pods")
        raise
    return scenario.checked
