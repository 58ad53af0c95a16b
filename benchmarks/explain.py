"""The time of explaining, in a large cluster from a capture, for pending, placed and further pods.

    python -m benchmarks.explain --nodes 5000 --pods 50000

Prints one JSON object: seconds to load the capture, to explain a pending pod with suggestions
that were tried out, to explain a placed one, to count how many copies fit, and memory. With
`--beside` also how long scheduling cycles are delayed while a running scheduler explains: the fork
(the least of five) and the longest cycle while the child works, in milliseconds of the loop's own
processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import tempfile
import time
from pathlib import Path

import msgspec

from kubesched.api import Node, Pod
from kubesched.explain import Snapshot
from kubesched.explain.clusters.capture import Capture, read_capture, write_capture
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.forked import in_child
from kubesched.testing import make_node, make_pod

_ZONE, _HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_MIB = 1024
_FORKS = 5


def cluster(nodes: int, pods: int, seed: int = 0) -> list[Node | Pod]:
    """Make nodes in three zones and two pools, and pods of a hundred workloads on them."""
    rng = random.Random(seed)
    made: list[Node | Pod] = []
    for number in range(nodes):
        name = f"node-{number}"
        is_spare = number % 10 == 0
        made.append(
            make_node(
                name,
                labels={
                    _ZONE: f"zone-{number % 3}",
                    _HOSTNAME: name,
                    "pool": "spare" if is_spare else "main",
                },
                allocatable={"cpu": "16", "memory": "64Gi", "pods": "110"},
                taints=["spare=true:NoSchedule"] if is_spare else [],
            )
        )
    per_node = max(1, pods // nodes)
    made.extend(
        make_pod(
            f"pod-{number}",
            labels={"app": f"app-{number % 100}"},
            requests={"cpu": f"{rng.choice((500, 1000, 1500))}m", "memory": "2Gi"},
            node_name=f"node-{(number // per_node) % nodes}",
            phase="Running",
        )
        for number in range(pods)
    )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50000)
    parser.add_argument("--beside", action="store_true", help="also measure delays of cycles")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capture.gz"
        write_capture(Capture(tuple(cluster(options.nodes, options.pods))), path)
        found: dict[str, float] = {"nodes": options.nodes, "pods": options.pods}
        if options.beside:  # first, in a process no larger than a scheduler's
            found |= asyncio.run(measure_beside(path))
        print(json.dumps(found | measure(path)))


def measure(path: Path) -> dict[str, float]:
    started = time.perf_counter()
    snapshot = Snapshot.from_capture(path)
    loaded = time.perf_counter()
    waiting = make_pod("waiting", requests={"cpu": "14", "memory": "20Gi"}, priority=0)
    snapshot.explain(waiting)
    pending = time.perf_counter()
    snapshot.explain("default/pod-7")
    placed = time.perf_counter()
    snapshot.fit(make_pod("copy", requests={"cpu": "2", "memory": "2Gi"}))
    fitted = time.perf_counter()
    return {
        "load_s": round(loaded - started, 3),
        "pending_s": round(pending - loaded, 3),
        "placed_s": round(placed - pending, 3),
        "fit_s": round(fitted - placed, 3),
        "rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // _MIB,
    }


async def measure_beside(path: Path) -> dict[str, float]:
    """Explain in a child process while nodes are searched for plain pods, one after another."""
    objects = read_capture(path).objects
    own = Snapshot(objects)
    settle_collector()
    waiting = make_pod("waiting", requests={"cpu": "14", "memory": "20Gi"}, priority=0)
    plain = make_pod("plain", requests={"cpu": "1"})
    for _ in range(1000):
        own.model.search(plain)

    def work() -> bytes:
        return msgspec.json.encode(Snapshot([*objects, waiting]).explain(waiting).to_dict())

    forks = []
    for _ in range(_FORKS):
        began = time.thread_time()
        asked = asyncio.create_task(in_child(work, 120))
        await asyncio.sleep(0)  # it forks
        forks.append(time.thread_time() - began)
        if len(forks) < _FORKS:
            asked.cancel()
            await asyncio.wait([asked])
    cycles: list[float] = []
    while not asked.done():
        before = time.thread_time()
        own.model.search(plain)
        cycles.append(time.thread_time() - before)
        await asyncio.sleep(0)
    await asked
    cycles.sort()
    return {
        "fork_ms": round(min(forks) * 1000, 2),
        "cycle_p50_ms": round(cycles[len(cycles) // 2] * 1000, 3),
        "cycle_longest_ms": round(cycles[-1] * 1000, 2),
    }


if __name__ == "__main__":
    main()
