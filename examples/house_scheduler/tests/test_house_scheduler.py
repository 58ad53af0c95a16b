"""Tests of the single rules, and of the program as a whole."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from house_scheduler.main import PLUGINS
from house_scheduler.rules import BY_DAY, HELD, NightShift, SpareNodes, SpareNodesArgs

from kubesched.api import Pod
from kubesched.foundation.util.clock import ManualClock
from kubesched.framework import SUCCESS, Status
from kubesched.scheduler.config import load_configuration_file
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry
from kubesched.testing import (
    Cluster,
    FakeHandle,
    check_plugin,
    make_node,
    make_pod,
    make_view,
    run_filter,
)

CONFIG = Path(__file__).parents[1] / "config.yaml"
SPARE = {"example.com/spare": "true"}
HOUR_NS = 3_600_000_000_000


def test_the_contract() -> None:
    check_plugin(SpareNodes)


def test_plain_pods_avoid_spare_nodes() -> None:
    nodes = make_view(make_node("a"), make_node("b", labels=SPARE))
    assert run_filter(SpareNodes(), make_pod("p"), nodes) == [SUCCESS, HELD]
    assert run_filter(SpareNodes(), make_pod("p", labels=SPARE), nodes) == [SUCCESS, SUCCESS]


def test_the_label_can_be_chosen() -> None:
    nodes = make_view(make_node("a", labels={"x": ""}), make_node("b", labels=SPARE))
    assert run_filter(SpareNodes(SpareNodesArgs("x")), make_pod("p"), nodes) == [HELD, SUCCESS]


@pytest.mark.parametrize(
    ("hour", "want"), [(0, SUCCESS), (5, SUCCESS), (6, BY_DAY), (19, BY_DAY), (20, SUCCESS)]
)
def test_batch_pods_wait_for_the_night(hour: int, want: Status) -> None:
    handle = FakeHandle(clock=ManualClock(hour * HOUR_NS))
    plugin = NightShift(None, handle, opens=20, closes=6)
    assert plugin.pre_enqueue(make_pod("batch", labels={"shift": "night"})) == want
    assert plugin.pre_enqueue(make_pod("web")) == SUCCESS


def test_in_a_cluster() -> None:
    known_args = PluginRegistry(PLUGINS).known_args()
    configuration = load_configuration_file(CONFIG, known_args=known_args)
    nodes = [make_node("spare", labels={"example.com/reserve": ""}), make_node("plain")]

    async def main() -> str:
        async with Cluster(
            nodes, serve=False, configuration=configuration, plugins=PLUGINS
        ) as cluster:
            await cluster.api.create(make_pod("p", scheduler_name="house-scheduler"))
            pod = await cluster.wait_for(Pod, "p", lambda pod: bool(pod.spec.node_name))
            return pod.spec.node_name

    assert asyncio.run(main()) == "plain"


def test_the_program_takes_the_flags_of_the_scheduler(tmp_path: Path) -> None:
    out = tmp_path / "out.yaml"
    argv = [f"--config={CONFIG}", "--master=m", "--secure-port=0", f"--write-config-to={out}"]
    done = subprocess.run(
        [sys.executable, "-m", "house_scheduler.main", *argv],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "labelKey: example.com/reserve" in out.read_text()
