"""The number of entries of each table of a scheduler, found by walking through its parts.

When a scheduler is idle, no table may have more entries than that of a fresh scheduler on the same
objects. A larger table is a leak. Tables that store history on purpose are listed here. Data
derived from other tables (columns, indices, cached answers, metrics) is counted elsewhere.
"""

from __future__ import annotations

import collections
from collections import Counter
from collections.abc import Iterator
from typing import Any

from kubesched.scheduler.scheduler import Scheduler

__all__ = ["count_table_entries", "find_table_leaks"]

_TABLES = (dict, list, set, frozenset, tuple, collections.deque)
_NOT_WALKED = (
    *("api", "errors", "foundation.cel", "foundation.metrics", "foundation.util"),
    *("framework.engine", "scheduler.config"),
    *("framework.pod_index", "framework.node_view", "framework.pod_info", "framework.node_info"),
    "scheduler.runtime.answer_cache",
    "scheduler.runtime.cached_answers",
    "scheduler.runtime.nominated_totals",
)
# Modules with derived data: the walk goes through them, and counts only the parts in `_STATE`.
_DERIVED = ("scheduler.plugins.", "scheduler.runtime.", "framework.")
# Modules below `_DERIVED` that hold state of their own.
_STATE = (
    "framework.claim_cache",
    "scheduler.plugins.default_preemption.eviction",
    "scheduler.plugins.dynamic_resources.allocated",
    "scheduler.plugins.dynamic_resources.device_state",
    "scheduler.plugins.volume_binding.assume_cache",
    "scheduler.runtime.services",
    "scheduler.runtime.waiting_pods",
)

_MEMORIES = {
    "Journal._transitions": "the last 8,192 transitions",
    "PodNominator._changes": "the last few thousand changes",
    "PodNominator._node_of": "pods that were tried and wait; other checks cover the rest",
    "PodNominator._nowhere": "the same",
    "HintTable._interests": "one for each kind of event",
    "HintTable._profiles": "what plugins registered, for good",
    "EventSeriesCache._single": "events of the last minutes, for series",
    "EventSeriesCache._series": "events of the last minutes, for series",
    "Evictions._failed_tries": "at most 1,024 preemptors",
    "DeviceState._requests": "one for each spec of a claim in use",
    "ActiveLines._lines": "one for each set of extenders",
    "ActiveQueue._heap": "up to 64 entries of pods that have left",
    "ActiveQueue._line": "up to 64 entries of pods that have left",
    "UnschedulablePods._by_rejector": "one for each plugin",
    "UnschedulablePods._by_gate": "one for each plugin",
    "ClusterSnapshot._order_names": "nodes, when their order was asked for",
    "ClusterSnapshot.infos": "a row for each node that was there at a time",
    "Cache._log": "changes that the next attempt takes in",
    "Cache._dirty": "changes that the next attempt takes in",
}
_WHAT_NEXT = "a leak, or a table to be listed in tests/fault_injection/table_sizes.py"
_EACH_COUNTS = ("UnschedulablePods._by_rejector*", "UnschedulablePods._by_gate*")


def find_table_leaks(sizes: Counter[str], fresh: Counter[str]) -> Iterator[str]:
    """Return the tables that have more entries than those of a fresh scheduler."""
    for name, size in sorted(sizes.items()):
        if size > fresh[name] and (
            name in _EACH_COUNTS or name.rstrip("*").rpartition(":")[2] not in _MEMORIES
        ):
            yield f"{name} has {size} entries, and {fresh[name]} when fresh ({_WHAT_NEXT})"


def count_table_entries(scheduler: Scheduler) -> Counter[str]:
    """Count the entries of all tables by class and attribute; `*` means a table in a table."""
    sizes: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[str, bool, Any]] = [("", False, scheduler)]
    while waiting:
        name, counts, found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        if isinstance(found, _TABLES):
            entries = found.values() if isinstance(found, dict) else found
            is_fixed = isinstance(found, tuple | frozenset)
            if counts and not is_fixed and not all(map(_is_metric, entries)):
                sizes[name] += len(found)
            waiting += [(f"{name}*", counts, entry) for entry in entries if _is_walked(entry)]
            continue
        module = type(found).__module__.removeprefix("kubesched.")
        counts = not module.startswith(_DERIVED) or module in _STATE
        owner = f"{module}:{type(found).__name__}"
        waiting += [
            (f"{owner}.{name}", counts, part) for name, part in _parts(found) if _is_walked(part)
        ]
    return sizes


def _is_metric(entry: Any) -> bool:
    """Whether an entry is a metric; there are as many as there are labels."""
    return type(entry).__module__.startswith("kubesched.foundation.metrics")


def _is_walked(part: Any) -> bool:
    if isinstance(part, _TABLES):
        return True
    package, _, module = type(part).__module__.partition(".")
    return package == "kubesched" and not module.startswith(_NOT_WALKED)


def _parts(whole: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(whole, "__dict__", {}).items()
    for name in getattr(whole, "__struct_fields__", ()):
        yield name, getattr(whole, name)
    for kind in type(whole).__mro__:
        for name in kind.__dict__.get("__slots__", ()):
            if hasattr(whole, name):
                yield name, getattr(whole, name)
