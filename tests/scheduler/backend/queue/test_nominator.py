"""Nominated pods (docs/reference/03 §13)."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.framework import Nominating, NominatingMode, PodInfo, QueuedPodInfo
from kubesched.scheduler.backend.queue import RegisteredHint
from kubesched.testing.objects.builders import make_pod
from tests.scheduler.backend.queue.queue_harness import NODE_ADD, QueueHarness

CLEAR = Nominating(NominatingMode.OVERRIDE, "")


def on(node: str) -> Nominating:
    return Nominating(NominatingMode.OVERRIDE, node)


def nominated(pod: Pod, node: str) -> Pod:
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def names(harness: QueueHarness, node: str) -> list[str]:
    return [info.pod.metadata.name for info in harness.queue.nominator.nominated_pods(node)]


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


def test_a_pod_that_arrives_with_a_nomination_is_listed(harness: QueueHarness) -> None:
    harness.add(make_pod("a", nominated_node_name="n1"), make_pod("b"))
    assert names(harness, "n1") == ["a"]
    assert set(harness.queue.nominator.nominated_nodes()) == {"n1"}


def test_an_override_wins_over_the_status(harness: QueueHarness) -> None:
    pod = make_pod("a", nominated_node_name="n1")
    harness.add(pod)
    harness.queue.nominator.add_nominated_pod(PodInfo(pod), on("n5"))
    assert (names(harness, "n1"), names(harness, "n5")) == ([], ["a"])
    harness.pop()
    assert names(harness, "n5") == ["a"]


def test_pods_are_listed_in_the_order_of_their_nominations(harness: QueueHarness) -> None:
    for name in ("c", "a", "b"):
        harness.add(make_pod(name, nominated_node_name="n"))
    harness.queue.nominator.add_nominated_pod(PodInfo(make_pod("c", nominated_node_name="n")), None)
    assert names(harness, "n") == ["a", "b", "c"]


def test_a_nomination_in_memory_survives_updates_without_one(harness: QueueHarness) -> None:
    pod = make_pod("a")
    harness.add(pod)
    harness.queue.nominator.add_nominated_pod(PodInfo(pod), on("n"))
    harness.update(pod, make_pod("a", labels={"x": "y"}))
    assert names(harness, "n") == ["a"]


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param("", "n2", ["n2"], id="added"),
        pytest.param("n1", "n2", ["n2"], id="changed"),
        pytest.param("n1", "", [], id="removed"),
        pytest.param("n1", "n1", ["n1"], id="kept"),
    ],
)
def test_a_nomination_follows_the_status(
    harness: QueueHarness, before: str, after: str, want: list[str]
) -> None:
    old = make_pod("a", nominated_node_name=before)
    harness.add(old)
    harness.update(old, nominated(old, after))
    assert list(harness.queue.nominator.nominated_nodes()) == want


def test_a_removed_status_also_ends_an_override(harness: QueueHarness) -> None:
    pod = make_pod("a", nominated_node_name="n1")
    harness.add(pod)
    harness.queue.nominator.add_nominated_pod(PodInfo(pod), on("n5"))
    harness.update(pod, nominated(pod, ""))
    assert not harness.queue.nominator.nominated_nodes()


@pytest.mark.parametrize("listed", [None, make_pod("a", node_name="n9")], ids=["missing", "bound"])
def test_a_deleted_or_bound_pod_loses_its_nomination(
    harness: QueueHarness, listed: Pod | None
) -> None:
    pod = make_pod("a", nominated_node_name="n1")
    harness.add(pod)
    if listed is None:
        del harness.lister.pods["default/a"]
    else:
        harness.lister.pods["default/a"] = listed
    harness.queue.nominator.add_nominated_pod(PodInfo(pod), on("n2"))
    assert not harness.queue.nominator.nominated_nodes()
    assert harness.queue.nominator.node_of(pod.metadata.uid) is None


def test_a_nominated_pod_in_flight_is_a_stub(harness: QueueHarness) -> None:
    pod = make_pod("a", nominated_node_name="n", requests={"cpu": "1"}, host_ports=[80])
    harness.add(pod)
    (waiting,) = harness.queue.nominator.nominated_pods("n")
    assert waiting.pod is pod
    harness.pop()
    (stub,) = harness.queue.nominator.nominated_pods("n")
    assert (stub.pod.metadata.name, stub.uid) == ("a", pod.metadata.uid)
    assert stub.requested.milli_cpu == 0
    assert not stub.host_ports


@pytest.mark.parametrize("place", ["active", "unschedulable", "backoff", "error backoff"])
def test_a_nominated_pod_is_resolved_wherever_it_waits(place: str) -> None:
    harness = QueueHarness([RegisteredHint(NODE_ADD, "A")])
    pod = make_pod("a", nominated_node_name="n")
    harness.add(pod)
    if place != "active":
        harness.fail(harness.pop(), *([] if place == "error backoff" else ["A"]))
    if place == "backoff":
        harness.move(NODE_ADD)
    assert harness.place("a") == place
    (waiting,) = harness.queue.nominator.nominated_pods("n")
    assert waiting.pod is pod


def test_clearing_leaves_the_pod_under_the_empty_name_only(harness: QueueHarness) -> None:
    pod = make_pod("a", nominated_node_name="n")
    harness.add(pod)
    harness.queue.nominator.add_nominated_pod(PodInfo(pod), CLEAR)
    assert not harness.queue.nominator.nominated_nodes()
    assert names(harness, "") == ["a"]
    harness.queue.nominator.check_invariants()
    harness.queue.delete(pod)
    assert names(harness, "") == []


def test_deleting_a_pod_ends_its_nomination(harness: QueueHarness) -> None:
    pod = make_pod("a", nominated_node_name="n")
    harness.add(pod)
    harness.queue.delete(pod)
    assert not harness.queue.nominator.nominated_nodes()
    harness.queue.nominator.check_invariants()


def test_a_recreated_pod_takes_over_from_the_old_one(harness: QueueHarness) -> None:
    old = make_pod("a", uid="1", nominated_node_name="n1")
    harness.add(old)
    harness.update(old, make_pod("a", uid="2", nominated_node_name="n2"))
    assert list(harness.queue.nominator.nominated_nodes()) == ["n2"]
    assert harness.queue.nominator.node_of("1") is None


def test_an_update_of_a_pod_in_flight_leaves_its_nomination_alone(harness: QueueHarness) -> None:
    pod = make_pod("a", nominated_node_name="n1")
    harness.add(pod)
    harness.pop()
    harness.update(pod, nominated(pod, "n2"))
    assert list(harness.queue.nominator.nominated_nodes()) == ["n1"]


# -- what changed ----------------------------------------------------------------------

NODES = ("n1", "n2", "n3")


class History:
    """Random operations on a queue whose pods are nominated here and there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.harness = QueueHarness([RegisteredHint(NODE_ADD, "A")])
        self.known: dict[str, Pod] = {}
        self.popped: list[QueuedPodInfo] = []

    def step(self) -> None:
        rng, queue = self.rng, self.harness.queue
        name = f"p{rng.randrange(6)}"
        pod = self.known.get(name)
        choice = rng.randrange(7)
        if pod is None:
            pod = self.known[name] = make_pod(
                name, nominated_node_name=rng.choice(("", *NODES)), priority=rng.randrange(3)
            )
            self.harness.add(pod)
        elif choice == 0:
            queue.nominator.add_nominated_pod(PodInfo(pod), on(rng.choice(("", *NODES))))
        elif choice == 1:
            status = replace(pod.status, nominated_node_name=rng.choice(("", *NODES)))
            labels = {"version": str(rng.random())}
            metadata = replace(pod.metadata, labels=labels)
            new = self.known[name] = replace(pod, metadata=metadata, status=status)
            self.harness.update(pod, new)
        elif choice == 2:
            queue.delete(pod)
            queue.done(pod.metadata.uid)
            self.popped = [each for each in self.popped if each.pod.metadata.name != name]
            del self.known[name], self.harness.lister.pods[f"default/{name}"]
        elif choice == 3 and (queued := queue.pop(self.harness.now_ns)) is not None:
            self.popped.append(queued)
        elif choice == 4 and self.popped:
            self.harness.fail(self.popped.pop(), "A")
        elif choice == 5 and self.popped:
            queue.done(self.popped.pop().pod.metadata.uid)
        else:
            self.harness.wait(5)
            self.harness.move(NODE_ADD)

    def seen(self) -> dict[str, list[Pod]]:
        nominator = self.harness.queue.nominator
        return {node: [each.pod for each in nominator.nominated_pods(node)] for node in NODES}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_a_reader_of_the_change_log_gets_all_changes(seed: int) -> None:
    history = History(seed)
    nominator = history.harness.queue.nominator
    for _ in range(60):
        before, position = history.seen(), nominator.position
        history.step()
        changed = nominator.changes_since(position)
        assert changed is not None
        after = history.seen()
        assert {node for node in NODES if before[node] != after[node]} <= set(changed)


def test_old_changes_are_dropped(harness: QueueHarness) -> None:
    pod = make_pod("a")
    harness.add(pod)
    nominator = harness.queue.nominator
    start = nominator.position
    for _ in range(20_000):
        nominator.add_nominated_pod(PodInfo(pod), on("n"))
    assert nominator.changes_since(start) is None
    position = nominator.position
    assert nominator.changes_since(position) == set()
    nominator.delete_nominated_pod(pod)
    assert nominator.changes_since(position) == {"n"}
