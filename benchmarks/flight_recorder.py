"""The cost of the flight recorder: CPU time of equal churn with and without it, alternating.

python -m benchmarks.flight_recorder [--pods 4000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.cluster.embedded_cluster import ClusterPart, EmbeddedCluster
from kubesched.explain.recordings.flight_recorder import FlightRecorder
from kubesched.explain.recordings.segment_files import segments_of
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod

_NODES = 500
_SIZE = 1 << 30


async def run(pods: int, folder: Path | None) -> float:
    """Place pods in waves and delete them; return the CPU seconds."""
    clock = current_clock()
    cluster = EmbeddedCluster(clock, derive(0, "store"), heartbeats=False, parts=ClusterPart.NODES)
    for number in range(_NODES):
        node = make_node(f"n{number}", cpu="32", memory="128Gi", zone=f"z{number % 3}")
        await cluster.api.create(_fresh(node))
    scheduler = Scheduler(cluster.api, clock, share_parts=True)
    parts = [*cluster.parts, scheduler]
    if folder is not None:
        parts.append(FlightRecorder(folder, _SIZE, scheduler, clock))
    async with running(*parts):
        await scheduler.synced.wait()
        started = time.process_time()
        wave = max(1, pods // 20)
        for begin in range(0, pods, wave):
            for number in range(begin, begin + wave):
                requests = {"cpu": "500m", "memory": "512Mi"}
                labels = {"app": f"a{number % 40}"}
                pod = make_pod(f"p{number}", requests=requests, images=["x"], labels=labels)
                await cluster.api.create(_fresh(pod))
            await asyncio.sleep(5)
            for number in range(max(0, begin - wave), begin):
                await cluster.api.delete(Pod, f"p{number}", "default")
            await asyncio.sleep(5)
        return time.process_time() - started


def _fresh(made: Pod) -> Pod:
    return replace(made, metadata=replace(made.metadata, uid="", resource_version=""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    without: list[float] = []
    recorded: list[float] = []
    size = 0
    for _ in range(options.rounds):
        without.append(virtual_loop.run(lambda: run(options.pods, None)))
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            recorded.append(virtual_loop.run(lambda found=folder: run(options.pods, found)))
            size = sum(path.stat().st_size for path in segments_of(folder))
    plain, more = min(without), min(recorded)
    print(
        json.dumps(
            {
                "pods": options.pods,
                "cpu_s_without": round(plain, 3),
                "cpu_s_recorded": round(more, 3),
                "us_per_pod": round((more - plain) / options.pods * 1e6, 1),
                "percent": round(100 * (more / plain - 1), 2),
                "bytes_per_pod": size // options.pods,
            }
        )
    )


if __name__ == "__main__":
    main()
