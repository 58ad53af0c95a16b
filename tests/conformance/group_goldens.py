"""Goldens of pod groups: the pods, conditions and events at the end of every scenario.

Of pods that are equal, any may be the one that fails; nodes of equal score are any of them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kubesched.api import EventsEvent, Namespace, ObjectMeta, Pod, PodGroup, PriorityClass
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.components import running
from kubesched.testing import make_node
from tests.conformance.comparison import Step, compare
from tests.conformance.goldens import read_lines
from tests.scheduler.pod_groups.group_harness import BASIC, GANGS, GroupHarness

__all__ = ["run_groups"]

Json = dict[str, Any]

ALL = {**GANGS, "TopologyAwareWorkloadScheduling": True, "WorkloadAwarePreemption": True}
# The gates of a scenario are the prefix of its name.
GATES = {
    "a": ALL,
    "b": GANGS,
    "c": BASIC,
    "d": ALL,
    "e": {**GANGS, "TopologyAwareWorkloadScheduling": True},
    "f": {**GANGS, "WorkloadAwarePreemption": True},
}
# Their condition depends on the placements, or on the order of two concurrent writes.
OTHER_CONDITION = {"a-gated-member", "b-extra-preempt-waiting"}
# The recording ends before the events of the last attempts are written.
ENDS_EARLY = {"a-group-deleted"}
NODE = re.compile(r"\bn[1-6]\b")
NAMES = re.compile(r'got: "(.*)" and "(.*)"')
UID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")


class Change(NamedTuple):
    """An object that a user created or, without one, the name of a PodGroup that a user deleted."""

    made: Json | None
    deleted: str
    is_later: bool  # whether decisions were made before it


class Recording(NamedTuple):
    changes: list[Change]
    pods: list[Json]
    groups: list[Json]
    events: list[Json]


def _recordings(folder: Path) -> dict[str, Recording]:
    """Return the recordings by scenario, in the order of the file."""

    def items(name: str) -> list[Json]:
        found: list[Json] = json.loads((folder / f"podgroups-{name}.json").read_text())["items"]
        return found

    pods, groups, events = items("pods"), items("objects"), items("events")
    changes = list(read_lines(folder / "podgroups-watch.jsonl"))

    def of(scenario: str, objects: list[Json]) -> list[Json]:
        return [each for each in objects if each["metadata"]["namespace"] == scenario]

    found = {}
    for scenario in dict.fromkeys(each["namespace"] for each in changes):
        by_name = {
            (each["kind"], each["metadata"]["name"]): each
            for each in [*of(scenario, pods), *of(scenario, groups)]
        }
        users = []
        before = "ADDED"
        for each in changes:
            if each["namespace"] != scenario:
                continue
            is_later = before != "ADDED"
            if each["type"] == "ADDED":
                stored = by_name.get((each["kind"], each["name"])) or _deleted_gang(each)
                made = _as_made(stored, each.get("nodeName", ""))
                users.append(Change(made, "", is_later))
            elif each["type"] == "DELETED" and each["kind"] == "PodGroup":
                users.append(Change(None, each["name"], is_later))
            before = each["type"]
        found[scenario] = Recording(
            users,
            of(scenario, pods),
            [each for each in of(scenario, groups) if each["kind"] == "PodGroup"],
            [each for each in of(scenario, events) if each["regarding"]["kind"] == "Pod"],
        )
    return found


def _deleted_gang(change: Json) -> Json:
    """A PodGroup of which only the name is recorded, because it was deleted: a gang of two."""
    metadata = {"name": change["name"], "namespace": change["namespace"]}
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    return {"kind": "PodGroup", "metadata": metadata, "spec": spec}


def _as_made(stored: Json, node_name: str) -> Json:
    """An object as its user wrote it, without the Workload that a scheduler does not read."""
    spec = dict(stored["spec"])
    for field in (
        *("nodeName", "tolerations", "priority", "preemptionPolicy"),
        "podGroupTemplateRef",
    ):
        spec.pop(field, None)
    if node_name:
        spec["nodeName"] = node_name
    names = ("name", "namespace", "labels")
    metadata = {key: stored["metadata"][key] for key in names if key in stored["metadata"]}
    return {**stored, "metadata": metadata, "spec": spec, "status": {}}


class Outcome(NamedTuple):
    """What can be compared of two runs."""

    pods: Counter[Any]
    groups: Any
    notes: set[Any]


def outcome(scenario: str, pods: list[Json], groups: list[Json], events: list[Json]) -> Outcome:
    def pod_state(pod: Json) -> Any:
        spec, status = pod["spec"], pod.get("status", {})
        conditions = tuple(
            sorted(
                (each["type"], each["status"], each.get("reason", ""), _told(each))
                for each in status.get("conditions", ())
            )
        )
        is_pinned = "nodeSelector" in spec or pod["metadata"]["name"].startswith("v")
        node = spec.get("nodeName", "")
        return (
            pod["metadata"]["name"][0],
            spec.get("schedulerName"),
            node if is_pinned else bool(node),
            status.get("nominatedNodeName", ""),
            conditions,
        )

    def note_of(event: Json) -> Any:
        note = UID.sub("UID", event["note"])
        return event["type"], event["reason"], event["action"], note

    def plain(note: Any) -> Any:
        *others, text = note
        text = re.sub(r"/p\d", "/p", text)
        text = _in_order(text)
        return (*others, NODE.sub("N", text) if text.startswith("Successfully") else text)

    conditions = [
        [
            (each["type"], each["status"], each["reason"], each["message"])
            for each in group.get("status", {}).get("conditions", ())
        ]
        for group in groups
    ]
    return Outcome(
        Counter(map(pod_state, pods)),
        None if scenario in OTHER_CONDITION else conditions,
        {plain(note_of(each)) for each in events},
    )


def _told(condition: Json) -> str:
    # The prefix depends on the moment of a cycle at which the group is deleted.
    text = (condition.get("message") or "").removeprefix("failed to get pod group object: ")
    return _in_order(text)


def _in_order(text: str) -> str:
    """Sort names whose order depends on which of two pods is rejected."""
    return NAMES.sub(lambda found: "got: {} and {}".format(*sorted(found.groups())), text)


def replay(scenario: str, recording: Recording) -> Outcome:
    async def play() -> Outcome:
        names = dict.fromkeys(each["spec"]["schedulerName"] for each in recording.pods)
        profiles = [{"schedulerName": name} for name in {"default-scheduler": None, **names}]
        harness = GroupHarness(GATES[scenario[0]], profiles=profiles)
        await _begin(harness, scenario, recording)
        async with running(harness.scheduler):
            await harness.settle()
            for change in recording.changes:
                if change.is_later:
                    await harness.settle()
                if change.made is None:
                    await _delete_group(harness, change.deleted, scenario)
                    continue
                kind = Pod if change.made["kind"] == "Pod" else PodGroup
                await harness.api.create(msgspec.convert(change.made, kind))
            await harness.settle(20)
            pods = [_document(harness, each) for each in recording.pods if _is_there(harness, each)]
            gone = [each for each in recording.pods if not _is_there(harness, each)]
            groups = [_document(harness, each) for each in recording.groups]
            listed = await harness.api.list(EventsEvent, scenario)
            events = [msgspec.to_builtins(each) for each in listed.items]
        # Deleted victims are recorded in their last state.
        return outcome(scenario, pods + gone, groups, events)

    return virtual_loop.run(play)


async def _delete_group(harness: GroupHarness, name: str, namespace: str) -> None:
    """Delete a PodGroup and remove its finalizer, as no controller does here."""
    await harness.api.delete(PodGroup, name, namespace)
    group = await harness.api.get(PodGroup, name, namespace)
    metadata = msgspec.structs.replace(group.metadata, finalizers=())
    await harness.api.update(msgspec.structs.replace(group, metadata=metadata))


async def _begin(harness: GroupHarness, namespace: str, recording: Recording) -> None:
    await harness.api.create(Namespace(metadata=ObjectMeta(name=namespace)))
    for each in _classes(recording):
        await harness.api.create(each)
    for number in range(1, 7):
        rack = f"r{(number + 1) // 2}"
        labels = {"kubernetes.io/hostname": f"n{number}", "example.com/rack": rack}
        await harness.add(make_node(f"n{number}", cpu="4", labels=labels))


def _classes(recording: Recording) -> list[PriorityClass]:
    """Return the PriorityClasses that pods and groups name, from what admission has resolved."""
    found: dict[str, PriorityClass] = {}
    for each in (*recording.pods, *recording.groups):
        spec = each["spec"]
        name = spec.get("priorityClassName", "")
        if name and not name.startswith("system-") and (name not in found or each["kind"] == "Pod"):
            policy = spec.get("preemptionPolicy")
            never = policy if policy == "Never" else None
            found[name] = PriorityClass(
                metadata=ObjectMeta(name=name), value=spec["priority"], preemption_policy=never
            )
    return list(found.values())


def _is_there(harness: GroupHarness, each: Json) -> bool:
    resource = harness.store.catalog.by_type(Pod)
    metadata = each["metadata"]
    return harness.store.find_record(resource, metadata["namespace"], metadata["name"]) is not None


def _document(harness: GroupHarness, each: Json) -> Json:
    kind = Pod if each["kind"] == "Pod" else PodGroup
    metadata = each["metadata"]
    document: Json = harness.api.document(kind, metadata["name"], metadata["namespace"])
    return document


def run_groups(path: Path) -> Iterator[Step]:
    """Replay the recorded scenarios of pod groups: one step each."""
    for scenario, recording in _recordings(path.parent).items():
        if scenario[0] not in GATES:
            yield Step("podgroups", scenario, "", needs=(f"the gates of {scenario[0]}-",))
            continue
        want = outcome(scenario, recording.pods, recording.groups, recording.events)
        got = replay(scenario, recording)
        if scenario in ENDS_EARLY:
            got = got._replace(notes=got.notes & want.notes)
        yield Step("podgroups", scenario, "", compare(_shown(want), _shown(got)))


def _shown(result: Outcome) -> Json:
    return {
        "pods": sorted(map(repr, result.pods.elements())),
        "groups": result.groups,
        "notes": sorted(map(repr, result.notes)),
    }
