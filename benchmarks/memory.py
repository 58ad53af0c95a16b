"""The memory that a scheduler needs for a cluster, and the pauses of garbage collection.

    python -m benchmarks.memory [--nodes 5000] [--running-pods 50000] [--new-pods 5000]
                                [--workloads 200] [--at-once 500]

Starts the real scheduler on a cluster that comes as JSON through the client's decoders and
informers, as in `kubesched run`, waits until the informers have synced, configures the garbage
collector as that command does, and then lets it place new pods. Prints one JSON line: memory of
the process before (interpreter and modules), with the cluster, and at its peak, which includes
the new pods, and the longest pause of the collector while pods were placed.
"""

from __future__ import annotations

import asyncio
from typing import Any

import click

from benchmarks.measuring import GcPauses, Stopwatch, peak_rss_mib, rates, rss_mib, say, write_line
from benchmarks.wire_cluster import WireApi
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.collector import settle_collector
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["measure"]


async def measure(
    nodes: int, running_pods: int, new_pods: int, workloads: int = 200, at_once: int = 500
) -> dict[str, Any]:
    settle_collector()
    before_mib = rss_mib()
    api = WireApi(nodes, running_pods, workloads)
    scheduler = Scheduler(api, RealClock(), share_parts=True)
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    loading = Stopwatch()
    with GcPauses() as while_loading:
        await scheduler.synced.wait()
        settle_collector()
    loaded, loaded_mib = loading.spent(), rss_mib()
    say(f"{nodes:,} nodes, {running_pods:,} pods in {loaded.wall_s:.1f} s: {loaded_mib:,.0f} MiB")
    watch = Stopwatch()
    with GcPauses() as while_placing:
        created = 0
        while api.bound < new_pods:
            while created < new_pods and created - api.bound < at_once:
                api.create_pod()
                created += 1
            await asyncio.sleep(0)
    spent = watch.spent()
    scheduler.stop()
    await running
    line: dict[str, Any] = {"benchmark": "memory", "nodes": nodes, "running_pods": running_pods}
    line |= {
        "workloads": workloads,
        "rss_before_mib": before_mib,
        "rss_loaded_mib": loaded_mib,
        "peak_rss_mib": peak_rss_mib(),
        "loading_s": round(loaded.wall_s, 1),
        "longest_gc_pause_loading_ms": round(while_loading.longest_ms, 1),
        "longest_gc_pause_ms": round(while_placing.longest_ms, 1),
        "longest_gc_pause_cpu_ms": round(while_placing.longest_cpu_ms, 1),
        "gc_collections": while_placing.count,
        "pods": new_pods,
    }
    return line | rates(new_pods, spent)


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--running-pods", default=50_000, show_default=True)
@click.option("--new-pods", default=5000, show_default=True)
@click.option("--workloads", default=200, show_default=True, help="Different kinds of pods.")
@click.option("--at-once", default=500, show_default=True, help="New pods that wait together.")
def main(nodes: int, running_pods: int, new_pods: int, workloads: int, at_once: int) -> None:
    write_line(asyncio.run(measure(nodes, running_pods, new_pods, workloads, at_once)))


if __name__ == "__main__":
    main()
