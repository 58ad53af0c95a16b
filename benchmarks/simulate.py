"""The speed of simulated scenarios compared with real time, on one core.

    python -m benchmarks.simulate [--scenario week] [--scale 0.1] [--twice]

`week` is a week of 1,000 nodes with 200,000 pods, `day` a quiet day of 100 nodes. `--scale` makes
the time (and with it the number of pods) shorter. Prints one JSON line for each scenario, with the
processor time in seconds, the largest memory of the process, and the digest: two runs of the same
version have the same.
"""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Any

import click
import msgspec

from kubesched.foundation.util.collector import settle_collector
from kubesched.sim import Scenario, parse_scenario
from kubesched.sim.simulation import simulate

_WEEK_S, _DAY_S = 7 * 86_400, 86_400


def week(scale: float) -> dict[str, Any]:
    """200,000 pods in a week: 95 % tasks that follow the day, the rest bursts of batch work."""
    nodes = {
        "name": "general",
        "count": 1000,
        "cpu": 16,
        "memory": "64Gi",
        "zones": ["a", "b", "c"],
    }
    return {
        "name": "week",
        "duration": _WEEK_S * scale,
        "step": "1h",
        "cluster": {"nodes": [nodes]},
        "workloads": [
            {
                "name": "tasks",
                "arrivals": {"diurnal": {"mean": "1130/h", "peak": "14h", "swing": 0.7}},
                "cpu": {"choice": ["500m", "1", "2", "4"], "weights": [5, 3, 2, 1]},
                "memory": {"choice": ["1Gi", "2Gi", "4Gi"]},
                "duration": {"lognormal": {"median": "40m", "sigma": 1}},
            },
            {
                "name": "batch",
                "arrivals": {"bursts": {"every": "4h", "size": 240, "within": "2m"}},
                "cpu": "2",
                "memory": "4Gi",
                "duration": {"exponential": {"mean": "1h"}},
            },
        ],
        "events": [{"fail": {"group": "general"}, "rate": "4/d", "for": "1h"}],
    }


def day(scale: float) -> dict[str, Any]:
    """A service of 300 pods that never changes, and a few tasks."""
    nodes = {"name": "general", "count": 100, "cpu": 16, "memory": "64Gi", "zones": ["a", "b", "c"]}
    return {
        "name": "day",
        "duration": _DAY_S * scale,
        "step": "1h",
        "cluster": {"nodes": [nodes]},
        "workloads": [
            {"name": "web", "kind": "Deployment", "replicas": 300, "cpu": "500m", "memory": "1Gi"},
            {
                "name": "tasks",
                "arrivals": {"poisson": "10/h"},
                "cpu": "1",
                "memory": "1Gi",
                "duration": {"exponential": {"mean": "20m"}},
            },
        ],
    }


SCENARIOS = {"week": week, "day": day}


def measure(scenario: Scenario) -> dict[str, Any]:
    result, _ = simulate(scenario, scenario.configurations[0], scenario.seeds[0])
    return {
        "scenario": scenario.name,
        "virtual_s": result.virtual_s,
        "seconds": result.seconds,
        "speedup": round(result.speedup),
        "digest": result.digest,
        "pods": result.counts.get("created", 0),
        "max_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


@click.command(help=__doc__)
@click.option("--scenario", "names", type=click.Choice(list(SCENARIOS)), multiple=True)
@click.option("--scale", default=1.0, show_default=True)
@click.option("--twice", is_flag=True, help="Run each again, and compare.")
def main(names: tuple[str, ...], scale: float, twice: bool) -> None:
    settle_collector()
    for name in names or SCENARIOS:
        for _ in range(2 if twice else 1):
            measured = measure(parse_scenario(SCENARIOS[name](scale), Path()))
            click.echo(msgspec.json.encode(measured).decode())


if __name__ == "__main__":
    main()
