"""Scenarios that several tests use. This module does not need pytest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubesched.sim import Scenario, parse_scenario
from kubesched.sim.simulation import simulate

__all__ = ["PACKED", "digest", "document", "scenario"]

PACKED = {
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ],
        }
    ]
}


EVERYTHING = {
    "duration": "2h",
    "workloads": [
        {
            "name": "tasks",
            "arrivals": {"diurnal": {"mean": "30/h", "peak": "1h", "swing": 0.5}},
            "cpu": {"choice": ["500m", 1]},
            "memory": {"lognormal": {"median": "512Mi", "sigma": 0.5}},
            "duration": {"exponential": {"mean": "10m"}},
        },
        {"name": "web", "kind": "Deployment", "replicas": 4, "cpu": "250m", "memory": "256Mi"},
        {
            "name": "jobs",
            "kind": "Job",
            "arrivals": {"every": "30m"},
            "cpu": 2,
            "priority": 100,
            "duration": {"uniform": ["1m", "5m"]},
        },
    ],
    "events": [{"fail": {"zone": "b"}, "at": "1h", "for": "20m"}],
    "autoscaler": [{"group": "general", "min": 3, "max": 5, "delay": "1m"}],
    "configurations": [{"name": "packed", "config": PACKED}],
}


def document(**changes: Any) -> dict[str, Any]:
    """Return a small scenario; keyword arguments replace its fields."""
    nodes = {"name": "general", "count": 3, "cpu": 4, "memory": "8Gi", "zones": ["a", "b", "c"]}
    tasks = {
        "name": "tasks",
        "arrivals": {"poisson": "40/h"},
        "cpu": {"choice": ["500m", 1]},
        "memory": "1Gi",
        "duration": {"exponential": {"mean": "10m"}},
    }
    plain = {
        "name": "small",
        "duration": "1h",
        "step": "10m",
        "cluster": {"nodes": [nodes]},
        "workloads": [tasks],
    }
    return {**plain, **changes}


def scenario(folder: Path | None = None, **changes: Any) -> Scenario:
    return parse_scenario(document(**changes), folder or Path())


def digest() -> str:
    """Return the digest of a run that uses every feature."""
    planned = scenario(**EVERYTHING)
    return simulate(planned, planned.configurations[0], 7)[0].digest
