"""A cluster with every feature is captured and recorded, and both are simulated."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Namespace, Node, PersistentVolume, Pod, ResourceSlice
from kubesched.api.time import format_time
from kubesched.api.volume import PersistentVolumeStatus
from kubesched.cluster.apiserver.rules.strategies.server_features import ALL_FEATURES
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.manifests import load_manifests
from kubesched.explain.clusters.capture import Capture, write_capture
from kubesched.explain.clusters.sources import read_cluster
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.scheduler.config.feature_gates import parse_feature_gates
from kubesched.sim import parse_scenario
from kubesched.sim.recording import record
from kubesched.sim.results import RunResult
from kubesched.sim.simulation import simulate

MANIFESTS = Path(__file__).parent / "every_feature.yaml"
GATES = parse_feature_gates(["GenericWorkload=true,GangScheduling=true"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a capture and a recording of a cluster, and the capture's hardware."""
    found = tmp_path_factory.mktemp("cluster")
    virtual_loop.run(lambda: captured_and_recorded(found))
    return found


async def captured_and_recorded(folder: Path) -> None:
    clock = current_clock()
    features = frozenset(name for name in ALL_FEATURES if GATES.enabled(name))
    cluster = EmbeddedCluster(clock, random.Random(0), features=features)
    live = LiveCluster(cluster, feature_gates=GATES, seed=0)
    manifests = load_manifests([MANIFESTS])
    lines: list[bytes] = []
    await live.apply([each for each in manifests if not isinstance(each.object, Pod)])
    async with live.running():
        await clock.sleep(5 * SECOND)
        recording = asyncio.create_task(record(cluster.api, clock, lines.append, None))
        await clock.sleep(SECOND)
        await live.apply([each for each in manifests if isinstance(each.object, Pod)])
        await clock.sleep(300 * SECOND)
        loaded = await read_cluster(cluster.api)
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)
    waiting = [each for each in loaded.objects if isinstance(each, Pod) and not each.spec.node_name]
    assert [each.metadata.name for each in waiting] == ["gated"]
    hardware = [
        replace(each, spec=replace(each.spec, claim_ref=None), status=PersistentVolumeStatus())
        if isinstance(each, PersistentVolume)
        else each
        for each in loaded.objects
        if isinstance(each, Node | ResourceSlice | Namespace)
        or (isinstance(each, PersistentVolume) and each.spec.storage_class_name == "local")
    ]
    assert len(hardware) > 4
    taken = format_time(clock.now_ns())
    write_capture(Capture(tuple(loaded.objects), taken), folder / "all", anonymize=False)
    write_capture(Capture(tuple(hardware), taken), folder / "hardware", anonymize=False)
    (folder / "trace.jsonl").write_bytes(b"".join(lines))


def outcome(document: dict[str, Any], folder: Path) -> RunResult:
    scenario = parse_scenario(document, folder)
    return simulate(scenario, scenario.configurations[0], 0)[0]


@pytest.mark.parametrize(
    ("scenario", "pending"),
    {
        "what was captured": ({"cluster": {"capture": "all"}}, 1),
        "both, from one cluster": (
            {"cluster": {"capture": "all"}, "traces": [{"file": "trace.jsonl"}]},
            1,
        ),
    }.values(),
)
def test_a_recorded_cluster_is_simulated(
    folder: Path, scenario: Mapping[str, Any], pending: int
) -> None:
    document = {"name": "again", "duration": "10m", **scenario}
    result = outcome(document, folder)
    assert sum(result.pending.values()) == pending, result.pending


def test_recorded_pods_have_what_they_need(folder: Path) -> None:
    """On the same hardware all recorded pods are placed, except the gated one."""
    document = {
        "name": "trace",
        "duration": "10m",
        "cluster": {"capture": "hardware"},
        "traces": [{"file": "trace.jsonl"}],
    }
    result = outcome(document, folder)
    assert result.pending == {}
    assert result.counts["bound"] >= 16
