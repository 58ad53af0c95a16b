"""The cost of the start of `kubesched run` in a cluster that exists.

    python -m benchmarks.start_up [--nodes 5000] [--running-pods 50000] [--repeat 3]

The embedded API server in a process of its own has nodes, pods on them as kubelets write them, and
one pod without a node. The scheduler is ready when it has bound that pod. Prints one JSON line per
run: CPU seconds of the scheduler process until then, imports included, and wall-clock seconds.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from benchmarks.drain import (
    Binds,
    Drain,
    Target,
    connected,
    default_command,
    peak_memory_mib,
    process,
    write_files,
)
from benchmarks.measuring import say, write_line

_TIMEOUT_S = 120


async def measure(target: Target) -> dict[str, Any]:
    """Start a scheduler, and wait until it has bound a pod."""
    with tempfile.TemporaryDirectory() as folder:
        names = write_files(target, Path(folder))
        command = [names.get(word, word) for word in default_command()]
        async with connected(target) as session:
            drain = Drain(session, _TIMEOUT_S)
            version = await drain.fill(0, 1, "basic")
            started_s = time.perf_counter()
            options: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            with process(command, **options) as runs:
                binds = Binds(runs)
                await drain.watch(version, 1, binds)
                if not binds.at_s:
                    raise click.ClickException("the scheduler bound no pod")
                memory_mib = peak_memory_mib(runs.pid)
            await drain.clean_up()
    return {
        "cpu_seconds": round(binds.cpu_at_first_s, 2),
        "seconds": round(binds.at_s[0] - started_s, 2),
        "peak_rss_mib": memory_mib,
    }


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--running-pods", default=50_000, show_default=True)
@click.option("--repeat", default=3, show_default=True)
def main(nodes: int, running_pods: int, repeat: int) -> None:
    sizes = ["--nodes", str(nodes), "--running-pods", str(running_pods)]
    own = [sys.executable, "-m", "benchmarks.api_server", *sizes]
    with process(own, stdout=subprocess.PIPE) as api_server:
        assert api_server.stdout is not None
        target = Target(api_server.stdout.readline().decode().strip())
        say(f"{nodes:,} nodes and {running_pods:,} pods are there")
        for _ in range(repeat):
            line = {"benchmark": "start_up", "nodes": nodes, "running_pods": running_pods}
            write_line(line | asyncio.run(measure(target)))


if __name__ == "__main__":
    main()
