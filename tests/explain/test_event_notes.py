"""The notes of events about pods that fit nowhere, and how rarely they are computed."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import Pod
from kubesched.explain import Snapshot
from kubesched.explain.event_notes import EventNoteWriter
from kubesched.foundation.util.clock import ManualClock
from kubesched.framework import PodInfo
from kubesched.testing import make_node, make_pod


class Notes:
    """Writes notes about pods of a cluster; `asked` counts lookups of objects."""

    def __init__(self, *objects: Any) -> None:
        self.clock = ManualClock()
        self.model = Snapshot(objects, clock=self.clock).model
        self.asked = 0
        self.took_ns = 0
        self._notes = EventNoteWriter(self._lister, self.model.cache.snapshot, self.clock)

    def _lister(self, kind: type[Any]) -> Any:
        self.asked += 1
        self.clock.advance(self.took_ns)
        return self.model.objects.lister(kind)

    def of(self, pod: Pod) -> str:
        diagnosis = self.model.search(pod).diagnosis
        assert diagnosis is not None
        return self._notes.note(self.model.framework_of(pod), PodInfo(pod), diagnosis)


@pytest.mark.parametrize(
    ("pod", "note"),
    [
        (
            make_pod("p", requests={"cpu": "6"}),
            "2 nodes: Insufficient cpu: asks 6, and even the largest node, a, has only 4 in all; "
            "1 node: untolerated taint gpu=yes:NoSchedule.",
        ),
        (
            make_pod("p", node_selector={"disk": "sdd"}),
            "2 nodes: no node has the label disk=sdd; did you mean disk=ssd? 3 nodes have it; "
            "1 node: untolerated taint gpu=yes:NoSchedule.",
        ),
        (make_pod("p", pvcs=["data"]), "claim data does not exist in namespace default."),
    ],
)
def test_a_note_has_amounts_and_names(pod: Pod, note: str) -> None:
    labels = {"disk": "ssd"}
    nodes = [
        make_node("a", labels=labels),
        make_node("b", labels=labels),
        make_node("c", labels=labels, taints=["gpu=yes:NoSchedule"]),
    ]
    assert Notes(*nodes).of(pod) == note


def test_a_note_is_made_once_for_a_pod_and_its_reasons() -> None:
    notes = Notes(make_node("a"))
    pod = make_pod("p", pvcs=["data"])
    first = notes.of(pod)
    asked = notes.asked
    assert notes.of(pod) == first
    assert notes.asked == asked


def test_other_reasons_get_a_separate_note() -> None:
    notes = Notes(make_node("a"))
    assert notes.of(make_pod("p", requests={"cpu": "6"})).startswith("Insufficient cpu")
    assert notes.of(make_pod("p", node_selector={"x": "y"})).startswith("no node has the label x=y")


def test_after_a_slow_note_the_next_events_have_no_note() -> None:
    notes = Notes(make_node("a"))
    notes.took_ns = 1_000_000
    assert notes.of(make_pod("p", pvcs=["data"]))
    took = notes.asked
    assert notes.of(make_pod("q", pvcs=["data"])) == ""
    notes.clock.advance(took * 20 * 1_000_000)
    assert notes.of(make_pod("q", pvcs=["data"]))
