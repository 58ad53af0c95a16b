"""A plan as a timeline: the cluster before the first wave, and after each wave."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubesched.cli.main import cli
from kubesched.dashboard import wire_types
from kubesched.dashboard.page_queries import PageQueries
from kubesched.dashboard.plan_timeline import timeline_of_plan
from kubesched.dashboard.timeline import Timelines
from kubesched.errors import ConfigError, KubeschedError
from kubesched.testing import make_node, make_pod
from tests.dashboard.test_wire_types import check

TAKEN = 1_000_000
CLUSTER = (
    make_node("a", cpu="8"),
    make_node("b", cpu="8"),
    make_node("c", cpu="8"),
    make_node("d", cpu="8", unschedulable=True),
    make_pod("web-0", node_name="a", requests={"cpu": "1"}),
    make_pod("web-1", node_name="b", requests={"cpu": "2"}),
    make_pod("web-2", node_name="c", requests={"cpu": "3"}),
)
# All pods move to a: first that of c, then that of b. The node d does not change.
PLAN: dict[str, Any] = {
    "nodes": 4,
    "planned_nodes": 1,
    "lower_bound": 1,
    "verified": True,
    "emptied": ["b", "c", "d"],
    "moves": [
        {"pod": "default/web-2", "from": "c", "to": "a", "wave": 1, "uid": "u2"},
        {"pod": "default/web-1", "from": "b", "to": "a", "wave": 2, "uid": "u1"},
    ],
    "waves": [
        {
            "wave": 1,
            "cordon": ["a", "b", "c"],
            "steps": [{"node": "a", "evict": ["default/web-2"], "placed": 1}],
        },
        {"wave": 2, "steps": [{"node": "a", "evict": ["default/web-1"], "placed": 1}]},
    ],
}


def played(tmp_path: Path, plan: dict[str, Any] | None = None) -> Timelines:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan or PLAN))
    cluster = list(CLUSTER)
    for at, uid in ((5, "u1"), (6, "u2")):
        pod = cluster[at]
        cluster[at] = make_pod(
            pod.metadata.name, node_name=pod.spec.node_name, requests={"cpu": f"{at - 3}"}, uid=uid
        )
    return timeline_of_plan(path, cluster, TAKEN)


def nodes_at(timelines: Timelines, wave: int) -> dict[str, tuple[int, int, bool]]:
    """The cpu and the pods of each node after a wave, and whether it is cordoned."""
    frame = timelines.frame({"at": str(TAKEN + wave)})
    shapes = [json.loads(bytes(each)) for each in frame["shapes"]]
    return {
        name: (cpu, pods, shapes[shape].get("cordoned", False))
        for shape, name, cpu, _, pods, *_ in frame["nodes"]
    }


def test_each_wave_moves_its_pods_and_cordons_its_nodes(tmp_path: Path) -> None:
    timelines = played(tmp_path)
    before = {
        "a": (1000, 1, False),
        "b": (2000, 1, False),
        "c": (3000, 1, False),
        "d": (0, 0, True),
    }
    first = before | {"a": (4000, 2, False), "b": (2000, 1, True), "c": (0, 0, True)}
    second = first | {"a": (6000, 3, False), "b": (0, 0, True)}
    assert nodes_at(timelines, 0) == before
    assert nodes_at(timelines, 2) == second
    assert nodes_at(timelines, 1) == first
    assert nodes_at(timelines, 0) == before


def test_the_outline_has_the_numbers_and_the_emptied_nodes_by_wave(tmp_path: Path) -> None:
    outline = played(tmp_path).outline()
    check({"title": "", **outline}, wire_types.Outline)
    (run,) = outline["runs"]
    assert run["moments"] == [TAKEN, TAKEN + 1, TAKEN + 2]
    plan = outline["plan"]
    assert (plan["nodes"], plan["planned"], plan["bound"]) == (4, 1, 1)
    assert plan["emptied"] == [["d"], ["c"], ["b"]]
    assert [move["pod"] for move in plan["moves"]] == ["default/web-2", "default/web-1"]


def test_a_moved_pod_is_found_on_its_new_node(tmp_path: Path) -> None:
    queries = PageQueries(played(tmp_path), now_ns=lambda: 0)

    def place(wave: int) -> Any:
        moment = {"at": str(TAKEN + wave)}
        return asyncio.run(queries.get("pods/default/web-2", moment))["pod"]["node"]

    assert [place(wave) for wave in (0, 1, 2)] == ["c", "a", "a"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": ["a"]}, "not a plan of `kubesched plan consolidate`"),
        ({"emptied": ["gone"]}, "there is no node gone in this cluster"),
        (
            {"moves": [PLAN["moves"][0] | {"from": "b"}, PLAN["moves"][1]]},
            "pod default/web-2 is not on node b",
        ),
        (
            {"moves": [PLAN["moves"][0] | {"uid": "other"}, PLAN["moves"][1]]},
            "pod default/web-2 was created again since",
        ),
    ],
    ids=["drain", "node", "pod", "uid"],
)
def test_a_plan_of_another_cluster_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        played(tmp_path, PLAN | change)


def test_a_file_that_is_no_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KubeschedError, match="not a plan"):
        played(tmp_path, {"kind": "List"})


def test_a_plan_needs_its_cluster(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    done = CliRunner().invoke(cli, ["dashboard", "--plan", str(path)])
    assert done.exit_code == 2
    assert "one --capture, or -f" in done.output
