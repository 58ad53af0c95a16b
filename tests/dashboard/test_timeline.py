"""Timelines of captures, of the changes within a capture, and of simulations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import Node, NodeCondition, PodCondition
from kubesched.api.time import format_time
from kubesched.dashboard.bad_request import BadRequestError
from kubesched.dashboard.capture_timeline import timeline_of_captures
from kubesched.dashboard.page_queries import PageQueries
from kubesched.dashboard.simulation_timeline import timelines_of_report
from kubesched.dashboard.timeline import Timelines
from kubesched.errors import ConfigError
from kubesched.explain.clusters.capture import Capture
from kubesched.framework.pod_info import assigned_to
from kubesched.sim.export import write_results
from kubesched.sim.history import write_history
from kubesched.sim.sweep import sweep
from kubesched.testing import make_node, make_pod
from tests.dashboard.page_harness import run
from tests.sim.scenarios import PACKED, scenario

START = 1_800_000_000_000  # milliseconds


def at(made: Any, second: int) -> Any:
    created = format_time((START + second * 1000) * 1_000_000)
    return replace(made, metadata=replace(made.metadata, creation_timestamp=created))


def capture(second: int, *objects: Any) -> Capture:
    return Capture(objects, format_time((START + second * 1000) * 1_000_000))


def counts(timelines: Timelines, second: int) -> tuple[int, int, int]:
    frame = timelines.frame({"at": str(START + second * 1000)})
    found = frame["counts"]
    return found["nodes"], found["placed"], found["waiting"]


def test_several_captures_are_moments_of_one_cluster() -> None:
    pod = make_pod("p", requests={"cpu": "1"})
    timelines = timeline_of_captures(
        [
            capture(60, make_node("a"), make_node("b"), assigned_to(pod, "a")),
            capture(0, make_node("a"), pod),
            capture(90, make_node("b")),
        ]
    )
    assert timelines.outline()["runs"][0]["moments"] == [START, START + 60_000, START + 90_000]
    for second, expected in ((0, (1, 0, 1)), (60, (2, 1, 0)), (90, (1, 0, 0)), (0, (1, 0, 1))):
        assert counts(timelines, second) == expected


def test_one_capture_contains_its_history() -> None:
    scheduled = PodCondition(
        type="PodScheduled",
        status="True",
        last_transition_time=format_time((START + 30_000) * 1_000_000),
    )
    placed = at(assigned_to(make_pod("p", requests={"cpu": "1"}), "a"), 20)
    placed = replace(placed, status=replace(placed.status, conditions=(scheduled,)))
    waits = at(make_pod("w"), 40)
    timelines = timeline_of_captures([capture(60, at(make_node("a"), 0), placed, waits)])
    moments = [counts(timelines, second) for second in (0, 20, 30, 40, 60, 25)]
    assert moments == [(1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1), (1, 1, 1), (1, 0, 1)]


def test_a_node_is_healthy_until_it_failed() -> None:
    ready = NodeCondition(
        type="Ready",
        status="False",
        last_transition_time=format_time((START + 30_000) * 1_000_000),
    )
    taints = ["node.kubernetes.io/not-ready:NoExecute", "pool=gpu:NoSchedule"]
    node = at(make_node("a", taints=taints), 10)
    node = replace(node, status=replace(node.status, conditions=(ready,)))
    timelines = timeline_of_captures([capture(60, node)])

    def found(second: int) -> tuple[list[str], list[str]]:
        (each,) = timelines.at({"at": str(START + second * 1000)}).of_kind(Node)
        return (
            [condition.status for condition in each.status.conditions],
            [taint.key for taint in each.spec.taints],
        )

    assert found(20) == (["True"], ["pool"])
    assert found(40) == (["False"], ["node.kubernetes.io/not-ready", "pool"])
    assert found(20) == (["True"], ["pool"])


def test_moving_the_cursor_back_and_forth_sends_only_differences() -> None:
    nodes = [at(make_node(f"n{number}"), 0) for number in range(5)]
    pods = [at(assigned_to(make_pod(f"p{n}", requests={"cpu": "1"}), f"n{n}"), n) for n in range(5)]
    timelines = timeline_of_captures([capture(60, *nodes, *pods)])
    whole = timelines.frame({"at": str(START + 3000)})
    assert whole["all"] is True
    there = timelines.frame({"at": str(START + 4000), "since": str(START + 3000)})
    back = timelines.frame({"at": str(START + 3000), "since": str(START + 4000)})
    names = [name for _, name, *_ in json.loads(msgspec.json.encode(there["nodes"]))]
    assert names == ["n4"]
    assert len(back["nodes"]) == 1
    again = timelines.frame({"at": str(START + 3000)})
    assert msgspec.json.encode(again) == msgspec.json.encode(whole)


def test_page_queries_are_about_the_displayed_moment() -> None:
    big = make_pod("big", requests={"cpu": "4"})
    timelines = timeline_of_captures(
        [
            capture(0, make_node("a", cpu="2"), big),
            capture(60, make_node("a", cpu="2"), make_node("b", cpu="8"), big),
        ]
    )
    answers = PageQueries(timelines, now_ns=lambda: 0)

    async def work() -> None:
        path = "explanations/default/big"
        verdicts = [
            msgspec.json.decode(await answers.get(path, {"at": str(START + ms)}))["verdict"]
            for ms in (0, 60_000)
        ]
        assert verdicts == ["pending", "fits"]
        with pytest.raises(BadRequestError, match="invalid time: 'soon'"):
            await answers.get("nodes/a", {"at": "soon"})
        with pytest.raises(BadRequestError, match="no run named 'other'"):
            await answers.get("nodes/a", {"run": "other"})

    run(work)


def test_a_simulation_can_be_stepped_through(tmp_path: Path) -> None:
    planned = scenario(configurations=[{"name": "default"}, {"name": "packed", "config": PACKED}])
    results = sweep(planned)
    path = tmp_path / "run.history"
    write_history(planned, results, path)
    title, timelines = timelines_of_report(path)
    outline = timelines.outline()
    assert title == planned.name
    assert [run["name"] for run in outline["runs"]] == ["default", "packed"]
    assert outline["comparisons"]
    for result, shown in zip(results, outline["runs"], strict=True):
        for second, nodes, pending in zip(
            result.series["time"], result.series["nodes"], result.series["pending"], strict=True
        ):
            moment = {"run": shown["name"], "at": str(shown["start"] + second * 1000)}
            found = timelines.frame(moment)["counts"]
            assert (found["nodes"], found["waiting"]) == (nodes, pending)
        end = timelines.frame({"run": shown["name"]})
        assert end["totals"]["placed"] == result.counts["bound"]


def test_results_without_pods_have_numbers_over_time(tmp_path: Path) -> None:
    results = sweep(scenario(seeds="1-2"))
    path = tmp_path / "results.json"
    write_results(results, [], path)
    _, timelines = timelines_of_report(path)
    outline = timelines.outline()
    assert [run["name"] for run in outline["runs"]] == ["default, seed 1", "default, seed 2"]
    assert outline["runs"][0]["series"]["bound"] == results[0].series["bound"]
    assert outline["hasObjects"] is False


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.history", b"no", "not a history of a simulation"),
        ("x.json", b"[{}]", "not results of a simulation"),
        ("x.json", b"", "not results of a simulation"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        timelines_of_report(path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="no finished run"):
        timelines_of_report(tmp_path / "empty")
