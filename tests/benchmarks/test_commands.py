"""Each benchmark runs from its command line on a tiny cluster and prints the documented fields."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from benchmarks import cel, engine, loop, memory, million, volume_memory
from benchmarks.wire_cluster import WireApi
from kubesched.api import Node, Pod

KEYS = {"benchmark", "kind", "nodes", "pods", "seconds", "cpu_seconds", "pods_per_s"}


def run(command: click.Command, *options: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(command, options, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("path", ["engine", "loop"])
def test_engine_prints_a_line_per_combination_and_draws_them(path: str, tmp_path: Path) -> None:
    chart = tmp_path / "chart.svg"
    lines = run(
        engine.main,
        *("--nodes", "3,6", "--pods", "5", "--kind", "basic,spread"),
        *("--path", path, "--repeat", "2", "--plot", str(chart)),
    )
    assert [(line["kind"], line["nodes"]) for line in lines] == [
        ("basic", 3),
        ("basic", 6),
        ("spread", 3),
        ("spread", 6),
    ]
    assert all(line.keys() >= KEYS and line["benchmark"] == path for line in lines)
    assert chart.read_text().startswith("<svg")


def test_loop_runs_every_kind() -> None:
    lines = run(loop.main, "--nodes", "4", "--pods", "8", "--kind", "all")
    assert [line["kind"] for line in lines] == ["basic", "spread", "affinity", "hetero", "mixed"]


@pytest.mark.parametrize("kind", ["volumes", "local-pv", "dra"])
def test_engine_places_pods_with_claims(kind: str) -> None:
    (line,) = run(engine.main, "--nodes", "60", "--pods", "30", "--kind", kind)
    assert (line["kind"], line["pods"]) == (kind, 30)
    refused = CliRunner().invoke(engine.main, ["--kind", kind, "--path", "loop"])
    assert refused.exit_code != 0
    assert "for the engine alone" in refused.output


def test_memory_of_volumes_is_measured() -> None:
    (line,) = run(volume_memory.main, "--volumes", "40")
    assert (line["benchmark"], line["volumes"]) == ("volume_memory", 40)
    assert line["rss_after_mib"] >= line["rss_before_mib"] > 0


def test_pods_and_shapes_may_vary_too(tmp_path: Path) -> None:
    chart = tmp_path / "chart.svg"
    lines = run(
        engine.main,
        *("--nodes", "3", "--pods", "4,8", "--kind", "hetero", "--shapes", "2,5"),
        *("--plot", str(chart)),
    )
    assert [(line["shapes"], line["pods"]) for line in lines] == [(2, 4), (2, 8), (5, 4), (5, 8)]
    assert chart.read_text().startswith("<svg")


def test_an_unknown_kind_is_refused_by_name() -> None:
    result = CliRunner().invoke(engine.main, ["--kind", "basic,fancy"])
    assert result.exit_code == 2
    assert "fancy" in result.stderr


def test_million_reports_memory_and_draws_its_course(tmp_path: Path) -> None:
    chart = tmp_path / "chart.svg"
    (line,) = run(million.main, "--nodes", "12", "--pods", "60", "--plot", str(chart))
    assert line.keys() >= KEYS | {"peak_rss_mib", "total_s", "longest_gc_pause_ms"}
    assert chart.read_text().startswith("<svg")


def test_memory_reports_a_synced_scheduler_that_binds_new_pods() -> None:
    (line,) = run(memory.main, "--nodes", "20", "--running-pods", "60", "--new-pods", "30")
    assert line["nodes"] == 20
    assert line["running_pods"] == 60
    assert 0 < line["rss_before_mib"] <= line["peak_rss_mib"]
    assert line["pods_per_s"] > 0


def test_objects_from_the_wire_are_nodes_and_running_pods() -> None:
    api = WireApi(nodes=3, running_pods=7)

    async def listed() -> tuple[list[Node], list[Pod]]:
        nodes = await api.list(Node)
        first = await api.list(Pod, limit=5)
        rest = await api.list(Pod, limit=5, continue_token=first.continue_token)
        return list(nodes.items), [*first.items, *rest.items]

    nodes, pods = asyncio.run(listed())
    assert [node.metadata.name for node in nodes] == ["node-000000", "node-000001", "node-000002"]
    assert len({pod.metadata.uid for pod in pods}) == 7
    assert {pod.spec.node_name for pod in pods} == {node.metadata.name for node in nodes}
    assert {pod.status.phase for pod in pods} == {"Running"}


def test_cel_prints_a_line_for_preparing_and_one_per_selector() -> None:
    first, *others = run(cel.main, "--evaluations", "5", "--repeat", "1")
    assert first["prepare_us"] > 0
    assert [line["selector"] for line in others] == list(cel.SELECTORS)
    assert all(line["compile_us"] > 0 and line["evaluate_us"] >= 0 for line in others)
