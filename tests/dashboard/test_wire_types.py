"""The wire types: actual responses match them, and the page's TypeScript is generated from them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest

from kubesched.dashboard import wire_types
from kubesched.dashboard.page_queries import PageQueries
from kubesched.dashboard.simulation_timeline import timelines_of_report
from kubesched.explain.explanation import Explanation
from kubesched.explain.group_explanation import PodGroupExplanation
from kubesched.sim.export import write_results
from kubesched.sim.sweep import sweep
from kubesched.testing import make_node, make_pod
from tests.dashboard.page_harness import FixedPageState, PageHarness
from tests.dashboard.wire_typescript import WIRE, typescript
from tests.scheduler.pod_groups.group_harness import gang, member
from tests.scheduler.pod_groups.test_placements import ONE_RACK
from tests.sim.scenarios import scenario

CLUSTER = (
    make_node("a", cpu="4", memory="8Gi", labels={"zone": "z"}),
    make_node("b", cpu="4", unschedulable=True),
    make_pod("placed", node_name="a", requests={"cpu": "1"}),
    make_pod("big", requests={"cpu": "9", "example.com/gpu": "1"}),
    gang(2, "training", scheduling_constraints=ONE_RACK),
    member("worker-0", "1", "training"),
    member("lost", "1", "gone"),
)


def test_the_generated_types_are_up_to_date() -> None:
    assert WIRE.read_text() == typescript(), "run `python -m tests.dashboard.wire_typescript`"


def check(answer: Any, kind: Any) -> None:
    """Fail if a value, as JSON, has not exactly the keys and types of a wire type."""
    plain = json.loads(msgspec.json.encode(answer))
    assert json.loads(msgspec.json.encode(msgspec.convert(plain, kind))) == plain


def check_frame(frame: dict[str, Any]) -> None:
    """Check the parts of a frame; msgspec cannot convert to a union of tuples."""
    hints = get_type_hints(wire_types.Frame)
    assert frame.keys() <= hints.keys()
    for name, hint in hints.items():
        if name in ("nodes", "used"):
            assert all(len(row) in (4, 5, 6) for row in frame.get(name, ()))
        elif name in frame:
            check(frame[name], hint)


@pytest.mark.parametrize(
    ("path", "query", "kind"),
    [
        ("nodes/a", {}, wire_types.NodeDetail),
        ("pods/default/big", {}, wire_types.PodView),
        ("pods/default/placed", {}, wire_types.PodView),
        ("queue", {}, wire_types.QueueView),
        ("groups/default/training", {}, wire_types.GroupView),
        ("groups/default/gone", {}, wire_types.GroupView),
        ("group-explanations/default/training", {}, PodGroupExplanation),
        ("decisions", {}, wire_types.DecisionPage),
        ("search", {"text": "b"}, list[wire_types.SearchHit]),
        ("workloads", {}, list[wire_types.ScalableWorkload]),
        ("verdicts/default/big", {}, wire_types.PodVerdicts),
        ("explanations/default/big", {}, Explanation),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_answers_have_their_wire_types(path: str, query: dict[str, str], kind: Any) -> None:
    async def work() -> Any:
        queries = PageQueries(FixedPageState(*CLUSTER), now_ns=lambda: 0)
        return await queries.get(path, query)

    check(asyncio.run(work()), kind)


def test_frames_have_their_wire_type() -> None:
    async def work() -> None:
        hub = PageHarness(*CLUSTER).hub
        hub.join()
        _, event = await hub.next(0)
        check_frame(json.loads(event.removeprefix(b"data: ")))

    asyncio.run(work())


def test_outlines_have_their_wire_type(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    write_results(sweep(scenario(seeds=1)), [], file)
    title, timelines = timelines_of_report(file)
    check({"title": title, **timelines.outline()}, wire_types.Outline)
