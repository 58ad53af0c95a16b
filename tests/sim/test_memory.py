"""The memory of a run grows with the cluster, not with the duration of the run."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kubesched.sim.simulation import Simulation, simulate
from tests.sim.scenarios import document, scenario

# What may grow: a row for each sample, and the log of changes, which is bounded, but not reached by
# runs as short as these.
MAY_GROW = {"Series.columns", "Series.digests", "Collection._log", "LogSamples._sizes"}
MAY_GROW |= {"GarbageCollector._deleted"}  # also bounded, by thousands
ENOUGH = 250


def sizes(simulation: Simulation) -> Counter[str]:
    """Count the entries of all containers, by the class and attribute that hold them."""
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", simulation)]
    while waiting:
        name, each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict | list | set | deque):
            if name in MAY_GROW or (isinstance(each, deque) and each.maxlen is not None):
                continue
            found[name] += len(each)
            inside = list(each.values()) if isinstance(each, dict) else list(each)
            waiting += ((f"{name}[]", one) for one in inside)
        elif type(each).__module__.startswith("kubesched") and not isinstance(
            each, msgspec.Struct | type
        ):
            waiting += ((f"{type(each).__name__}.{key}", value) for key, value in attributes(each))
    return found


def attributes(each: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(each, "__dict__", {}).items()
    for kind in type(each).__mro__:
        for name in getattr(kind, "__slots__", ()):
            if hasattr(each, name):
                yield name, getattr(each, name)


@pytest.mark.slow
def test_memory_does_not_grow_with_simulated_time() -> None:
    more = [
        {
            "name": "jobs",
            "kind": "Job",
            "arrivals": {"poisson": "30/h"},
            "cpu": "500m",
            "duration": "5m",
        },
    ]
    tasks = {**document()["workloads"][0], "arrivals": {"poisson": "10/h"}}
    workloads = [tasks, *more]
    events = [{"fail": {"group": "general"}, "rate": "1/h", "for": "10m"}]
    held = []
    for hours in (12, 36):  # long enough to fill caches that have a bound
        planned = scenario(duration=f"{hours}h", workloads=workloads, events=events)
        result, simulation = simulate(planned, planned.configurations[0], 1)
        held.append((sizes(simulation), result.counts["created"]))
    (short, few), (long, many) = held
    assert many > 2.5 * few
    assert long["Observer.pods"] < ENOUGH
    grown = {
        name: (short[name], count)
        for name, count in long.items()
        if count > 2 * short[name] + ENOUGH
    }
    assert not grown, grown
