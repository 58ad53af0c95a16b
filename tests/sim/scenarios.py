"""Scenarios that tests use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kubesched.sim import Scenario, parse_scenario

__all__ = ["PACKED", "document", "scenario"]

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


def document(**changes: Any) -> dict[str, Any]:
    """A small cluster with some work, and whatever is given in place of a part of it."""
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
