"""`kubesched plan`: options, outputs and errors."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from kubesched.api.kinds import kind_of
from kubesched.cli.main import cli
from kubesched.errors import KubeschedError
from tests.plan.clusters import node, pod_of, replica_set


def written(path: Path, *objects: Any) -> str:
    items = []
    for each in objects:
        kind = kind_of(type(each))
        document: dict[str, Any] = msgspec.to_builtins(each)
        items.append({"apiVersion": kind.api_version, "kind": kind.kind, **document})
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


@pytest.fixture
def dump(tmp_path: Path) -> str:
    """Two half-empty nodes, each with a pod of one ReplicaSet."""
    owner = replica_set("web", 2, cpu="3")
    objects = [node("a"), node("b"), owner, pod_of(owner, 0, "a"), pod_of(owner, 1, "b")]
    return written(tmp_path / "dump.json", *objects)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *arguments])


def test_consolidate_shows_three_numbers_and_the_moves(dump: str) -> None:
    done = run("consolidate", "-f", dump)
    first, second = done.stdout.splitlines()[:2]
    assert first == "2 nodes now, 1 in the plan, at least 1 are needed: the plan is optimal."
    assert second.startswith("1 move in 1 wave empties 1 node.")
    assert "default/web-" in done.stdout


def test_consolidate_prints_json(dump: str) -> None:
    plan = json.loads(run("consolidate", "-f", dump, "-o", "json").stdout)
    assert (plan["nodes"], plan["planned_nodes"], plan["lower_bound"]) == (2, 1, 1)
    assert plan["verified"] is True
    (move,) = plan["moves"]
    assert {move["from"], move["to"]} == {"a", "b"}


def test_prices_come_from_a_file(dump: str, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("a: 2\nb: 0.5\n")
    plan = json.loads(run("consolidate", "-f", dump, "--prices", str(prices), "-o", "json").stdout)
    assert (plan["cost"], plan["planned_cost"], plan["emptied"]) == (2.5, 0.5, ["a"])


def test_drain_shows_the_order(dump: str) -> None:
    done = run("drain", "a", "-f", dump)
    assert done.exit_code == 0
    assert done.stdout.startswith("1 node can be drained, in this order: a.")


def test_drain_names_what_is_in_the_way(dump: str) -> None:
    done = run("drain", "a", "b", "-f", dump)
    assert done.exit_code == 1
    assert "In the way" in done.stdout


def test_prices_that_are_not_yaml_name_the_line(dump: str, tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("b: 1\na: [1\n")
    done = run("consolidate", "-f", dump, "--prices", str(prices))
    assert done.exit_code == 2
    assert f"{prices}:3: not YAML: did not find expected" in done.stderr


WRONG = {
    "a time": (["--time", "soon"], "is not a duration"),
    "a share": (["--spare", "120%"], "is not 0% to 99%"),
    "a selector": (["--pin", "a in ("], "--pin"),
}


@pytest.mark.parametrize(("options", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_one_line(dump: str, options: list[str], text: str) -> None:
    done = run("consolidate", "-f", dump, *options)
    assert done.exit_code == 2
    assert text in done.stderr


def test_a_missing_package_names_the_extra(dump: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    with pytest.raises(KubeschedError, match="needs the package ortools") as caught:
        CliRunner().invoke(cli, ["plan", "consolidate", "-f", dump], catch_exceptions=False)
    assert caught.value.__notes__ == ["pip install 'kubesched[plan]'"]


def test_apply_plays_the_plan_on_a_copy(dump: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(run("consolidate", "-f", dump, "-o", "json").stdout)
    done = run("apply", str(plan), "-f", dump)
    assert done.exit_code == 0
    assert "would evict pod default/web-" in done.stdout
    assert "1 of 1 waves and 1 of 1 moves are done on a copy of the cluster" in done.stdout
    document = json.loads(run("apply", str(plan), "-f", dump, "-o", "json").stdout)
    assert (document["waves_done"], document["dry_run"]) == (1, True)
    assert not Path(f"{plan}.journal").exists()


def test_apply_changes_no_files(dump: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(run("consolidate", "-f", dump, "-o", "json").stdout)
    done = run("apply", str(plan), "-f", dump, "--no-dry-run")
    assert done.exit_code == 2
    assert "--no-dry-run changes a live cluster" in done.stderr


def test_apply_names_a_file_that_is_no_plan(dump: str) -> None:
    with pytest.raises(KubeschedError, match="not a plan"):
        CliRunner().invoke(cli, ["plan", "apply", dump], catch_exceptions=False)


def test_size_shows_types_and_prices(tmp_path: Path) -> None:
    workload = written(tmp_path / "workload.json", replica_set("web", 12))
    catalog = written(tmp_path / "nodes.json", node("small", 4), node("large", 16))
    prices = tmp_path / "prices.yaml"
    prices.write_text("small: 1\nlarge: 2.5\n")
    arguments = ["size", "-f", workload, "--catalog", catalog, "--prices", str(prices)]
    done = run(*arguments)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == (
        "1 node for 12 pods, for 2.5; at least 2.5 is needed: this is optimal."
    )
    assert "  small: 3 nodes for 3 (at least 3)" in done.stdout
    answer = json.loads(run(*arguments, "-o", "json").stdout)
    assert (answer["nodes"], answer["cost"], answer["lower_bound"]) == (1, 2.5, 2.5)


def test_size_names_pods_that_fit_nothing(tmp_path: Path) -> None:
    workload = written(tmp_path / "workload.json", replica_set("web", 1, cpu="40"))
    catalog = written(tmp_path / "nodes.json", node("small", 4))
    done = run("size", "-f", workload, "--catalog", catalog)
    assert done.exit_code == 1
    assert done.stdout.startswith("1 pod of 1 fits no node of the catalog.")


def test_upgrade_shows_rounds(tmp_path: Path) -> None:
    owner = replica_set("web", 1, cpu="3")
    pool = {"pool": "workers"}
    dump = written(tmp_path / "dump.json", node("a", labels=pool), owner, pod_of(owner, 0, "a"))
    done = run("upgrade", "--pool", "pool=workers", "-f", dump)
    assert done.exit_code == 0
    assert done.stdout.startswith("1 node can be replaced in 1 round.")
    assert "Round 1: add 1 node, then remove a" in done.stdout
    assert "  default/web-0: a -> a-new" in done.stdout


def test_a_page_shows_the_nodes_and_the_waves(dump: str, tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    assert run("consolidate", "-f", dump, "--html", str(page)).exit_code == 0
    text = page.read_text()
    start = text.index('id="plan">') + len('id="plan">')
    document = json.loads(text[start : text.index("</script>", start)])
    assert document["nodes"] == ["a", "b"]
    # 3 of 8 cpu on each node; after the wave 6 of 8 on one of them.
    assert document["waves"][0] == [[0.375, 1], [0.375, 1]]
    assert sorted(document["waves"][1]) == [[0.0, 0], [0.75, 2]]
    assert "http" not in text
