"""How long explaining takes: a large cluster from a capture, pods that wait, that run, that fit.

    python -m benchmarks.explain --nodes 5000 --pods 50000

Prints one JSON object: seconds to load the capture, to explain a pending pod with suggestions
that were tried out, to explain a placed one, to count how many copies fit, and memory.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import tempfile
import time
from pathlib import Path

from kubesched.api import Node, Pod
from kubesched.explain import Snapshot
from kubesched.explain.capture import Capture, write_capture
from kubesched.testing import make_node, make_pod

_ZONE, _HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
_MIB = 1024


def cluster(nodes: int, pods: int, seed: int = 0) -> list[Node | Pod]:
    """Nodes in three zones and two pools, pods of a hundred workloads on them."""
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
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "capture.gz"
        write_capture(Capture(tuple(cluster(options.nodes, options.pods))), path)
        print(json.dumps({"nodes": options.nodes, "pods": options.pods, **measure(path)}))


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


if __name__ == "__main__":
    main()
