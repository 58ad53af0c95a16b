"""`kubesched run --record` as a process that is killed again and again, and the commands on it."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kubesched.api import Pod
from kubesched.cli.main import cli
from kubesched.explain.recordings.segment_files import RecordingError, SegmentReader, segments_of
from kubesched.testing import make_node, make_pod
from tests.integration.scheduler_cluster import Cluster

KILLS = 10
PACKING = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def kubesched(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


async def bound(cluster: Cluster, names: set[str]) -> None:
    async with asyncio.timeout(60):
        while True:
            pods = (await cluster.api.list(Pod)).items
            if names <= {pod.metadata.name for pod in pods if pod.spec.node_name}:
                return
            await asyncio.sleep(0.02)


async def decided(folder: Path) -> None:
    """Wait until the newest segment has a decision."""
    async with asyncio.timeout(60):
        while True:
            newest = SegmentReader(segments_of(folder)[-1])
            if any(record[0] == "d" for record in newest.records()):
                return
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording of a scheduler that was killed ten times while it placed pods."""
    tmp_path = tmp_path_factory.mktemp("recording")
    folder = tmp_path / "recorded"

    async def main() -> None:
        rng = random.Random(0)
        cluster = Cluster(tmp_path)
        await cluster.serve()
        for number in range(3):
            await cluster.create(make_node(f"n{number}", cpu="64", memory="64Gi", pods=500))
        flags = (f"--record={folder}", "--record-size=64MiB", "--leader-elect=false")
        for kill in range(KILLS):
            async with cluster.scheduler(*flags) as process:
                names = {f"p{kill}-{number}" for number in range(12)}
                for name in sorted(names):
                    await cluster.create(
                        make_pod(name, requests={"cpu": "100m", "memory": "64Mi"}, images=["i"])
                    )
                # Some are killed while they place pods, some after they have written a decision.
                await bound(cluster, set(sorted(names)[: rng.randrange(1, len(names))]))
                if kill % 2:
                    await decided(folder)
                process.kill()
                await process.wait()
        await cluster.server.stop()

    asyncio.run(main())
    return folder


def test_every_segment_reads_and_the_replay_is_identical(recording: Path) -> None:
    paths = segments_of(recording)
    assert len(paths) == KILLS
    for path in paths:
        assert any(record[0] == "h" for record in SegmentReader(path).records())
    done = kubesched("replay", recording, "-o", "json")
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert result["difference"] is None
    # The last half second before a kill may be missing.
    assert result["decisions"] >= KILLS // 2


def test_the_commands_read_it(recording: Path, tmp_path: Path) -> None:
    config = tmp_path / "packing.yaml"
    config.write_text(PACKING)
    report = kubesched("shadow", "report", "--from", recording, "--config", config, "-o", "json")
    assert report.exit_code == 0, report.stderr
    assert json.loads(report.stdout)["compared"] > 0
    explained = kubesched("explain", "pod", "p0-0", "--recorded", recording)
    assert explained.exit_code == 0, explained.stderr
    assert "p0-0" in explained.stdout
    simulated = kubesched(
        "simulate", "--from", recording, "--config", config, "-o", "json", "--processes", "1"
    )
    assert simulated.exit_code == 0, simulated.stderr
    assert {run["configuration"] for run in json.loads(simulated.stdout)} == {
        "recorded",
        "packing",
    }


@pytest.mark.parametrize(
    "command", [("replay",), ("shadow", "report", "--from"), ("simulate", "--from")]
)
def test_a_damaged_file_is_reported_in_one_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "00000001.segment").write_bytes(b"something else")
    error = kubesched(*command, tmp_path).exception
    assert isinstance(error, RecordingError)
    assert str(error) == f"{tmp_path}/00000001.segment: no segment of a recording"
