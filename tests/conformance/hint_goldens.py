"""Goldens of queueing hints: the events of a change, and the hints that plugins return."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kubesched.api import Node, Pod
from kubesched.api.codec import from_builtins
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import ActionType, ClusterEvent, EventResource, PodInfo
from kubesched.framework.object_changes import node_update_events, pod_update_events
from kubesched.scheduler.backend.queue import (
    RegisteredHint,
    ask_hint,
    matching_hints,
    register_hints,
)
from kubesched.scheduler.config.plugin_names import INTER_POD_AFFINITY
from kubesched.testing.objects.random_changes import KINDS
from tests.conformance.comparison import Step, compare
from tests.conformance.decision_harness import DecisionHarness
from tests.conformance.expectations import missing_plugins
from tests.conformance.goldens import read_lines

__all__ = ["run_hints"]

_ACTIONS: Final = {
    "add": ActionType.ADD,
    "update": ActionType.UPDATE,
    "delete": ActionType.DELETE,
}

_QUEUE: Final = "Queue"
_SKIP: Final = "QueueSkip"


def run_hints(path: Path) -> Iterator[Step]:
    family = path.name.removesuffix(".jsonl.gz")
    for golden in read_lines(path):
        yield from run(_scenario(family, golden))


async def _scenario(family: str, golden: Mapping[str, Any]) -> list[Step]:
    # The hints were recorded with the default profile, even if the scenario has a config.
    harness = DecisionHarness(None, golden["objects"], current_clock())
    harness.cache.update_snapshot()
    pending = [from_builtins(document, Pod) for document in golden["pending"]]
    for pod in pending:
        harness.objects.put(pod)
    (framework,) = harness.frameworks.values()
    registered = register_hints(framework.plugins.by_name.values())
    missing = missing_plugins()
    steps = []
    for number, change in enumerate(golden["events"]):
        pod = pending[change["pod"]]
        expected = {
            f"{place} {event['label']}": _with_listed_difference(
                pod, event["label"], _without(event["hints"], missing)
            )
            for place, event in enumerate(change["expected"])
        }
        needs = {name for event in change["expected"] for name in event["hints"]} & missing
        got = _answers(registered, pod, change)
        label = f"#{number} {change['resource']} {change['action']}"
        steps.append(
            Step(family, golden["name"], label, compare(expected, got), tuple(sorted(needs)))
        )
    return steps


def _without(hints: Mapping[str, str], missing: frozenset[str]) -> dict[str, str]:
    return {name: answer for name, answer in hints.items() if name not in missing}


def _with_listed_difference(pod: Pod, label: str, hints: dict[str, str]) -> dict[str, str]:
    """Return the recorded hints with the difference that docs/differences.md lists.

    A new node requeues a pod without affinity terms that the anti-affinity of others rejected.
    """
    info = PodInfo(pod)
    terms = (*info.required_affinity_terms, *info.required_anti_affinity_terms)
    if label != "NodeAdd" or terms or hints.get(INTER_POD_AFFINITY) != _SKIP:
        return hints
    return {**hints, INTER_POD_AFFINITY: _QUEUE}


def _answers(
    registered: tuple[RegisteredHint, ...], pod: Pod, change: Mapping[str, Any]
) -> dict[str, dict[str, str]]:
    kind = KINDS[change["resource"]]
    old, new = (
        from_builtins(change[side], kind) if change.get(side) is not None else None
        for side in ("old", "new")
    )
    if change.get("own"):
        assert isinstance(new, Pod)
        pod = new
    return {
        f"{place} {event.label}": {
            # The value of the metric, except for the recording's spelling of a failed hint.
            hint.plugin: ask_hint(hint, pod, old, new).value.replace("Error", "error")
            for hint in matching_hints(registered, event)
        }
        for place, event in enumerate(_events(change, old, new))
    }


def _events(change: Mapping[str, Any], old: Any, new: Any) -> list[ClusterEvent]:
    action = _ACTIONS[change["action"]]
    if change["resource"] == EventResource.POD:
        if action is ActionType.UPDATE:
            return pod_update_events(old, new)
        # A deletion is only announced for an assigned pod, or for a pod that releases a nomination.
        assigned = action is ActionType.DELETE or bool(new.spec.node_name)
        resource = EventResource.ASSIGNED_POD if assigned else EventResource.UNSCHEDULABLE_POD
        return [ClusterEvent(resource, action)]
    if change["resource"] == EventResource.NODE and action is ActionType.UPDATE:
        assert isinstance(old, Node)
        return node_update_events(old, new)
    return [ClusterEvent(change["resource"], action)]
