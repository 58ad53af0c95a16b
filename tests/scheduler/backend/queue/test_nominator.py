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
from tests.scheduler.backend.queue.queue_world import NODE_ADD, QueueWorld

CLEAR = Nominating(NominatingMode.OVERRIDE, "")


def on(node: str) -> Nominating:
    return Nominating(NominatingMode.OVERRIDE, node)


def nominated(pod: Pod, node: str) -> Pod:
    return replace(pod, status=replace(pod.status, nominated_node_name=node))


def names(world: QueueWorld, node: str) -> list[str]:
    return [info.pod.metadata.name for info in world.queue.nominator.nominated_pods(node)]


@pytest.fixture
def world() -> QueueWorld:
    return QueueWorld()


def test_a_pod_that_arrives_with_a_nomination_is_listed(world: QueueWorld) -> None:
    world.add(make_pod("a", nominated_node_name="n1"), make_pod("b"))
    assert names(world, "n1") == ["a"]
    assert set(world.queue.nominator.nominated_nodes()) == {"n1"}


def test_an_override_wins_over_the_status(world: QueueWorld) -> None:
    pod = make_pod("a", nominated_node_name="n1")
    world.add(pod)
    world.queue.nominator.add_nominated_pod(PodInfo(pod), on("n5"))
    assert (names(world, "n1"), names(world, "n5")) == ([], ["a"])
    world.pop()
    assert names(world, "n5") == ["a"]


def test_pods_are_listed_in_the_order_of_their_nominations(world: QueueWorld) -> None:
    for name in ("c", "a", "b"):
        world.add(make_pod(name, nominated_node_name="n"))
    world.queue.nominator.add_nominated_pod(PodInfo(make_pod("c", nominated_node_name="n")), None)
    assert names(world, "n") == ["a", "b", "c"]


def test_a_nomination_in_memory_survives_updates_that_know_of_none(world: QueueWorld) -> None:
    pod = make_pod("a")
    world.add(pod)
    world.queue.nominator.add_nominated_pod(PodInfo(pod), on("n"))
    world.update(pod, make_pod("a", labels={"x": "y"}))
    assert names(world, "n") == ["a"]


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
    world: QueueWorld, before: str, after: str, want: list[str]
) -> None:
    old = make_pod("a", nominated_node_name=before)
    world.add(old)
    world.update(old, nominated(old, after))
    assert list(world.queue.nominator.nominated_nodes()) == want


def test_a_removed_status_also_ends_an_override(world: QueueWorld) -> None:
    pod = make_pod("a", nominated_node_name="n1")
    world.add(pod)
    world.queue.nominator.add_nominated_pod(PodInfo(pod), on("n5"))
    world.update(pod, nominated(pod, ""))
    assert not world.queue.nominator.nominated_nodes()


@pytest.mark.parametrize("listed", [None, make_pod("a", node_name="n9")], ids=["missing", "bound"])
def test_a_pod_that_is_gone_or_bound_loses_its_nomination(
    world: QueueWorld, listed: Pod | None
) -> None:
    pod = make_pod("a", nominated_node_name="n1")
    world.add(pod)
    if listed is None:
        del world.lister.pods["default/a"]
    else:
        world.lister.pods["default/a"] = listed
    world.queue.nominator.add_nominated_pod(PodInfo(pod), on("n2"))
    assert not world.queue.nominator.nominated_nodes()
    assert world.queue.nominator.node_of(pod.metadata.uid) is None


def test_a_nominated_pod_in_flight_is_a_stub(world: QueueWorld) -> None:
    pod = make_pod("a", nominated_node_name="n", requests={"cpu": "1"}, host_ports=[80])
    world.add(pod)
    (waiting,) = world.queue.nominator.nominated_pods("n")
    assert waiting.pod is pod
    world.pop()
    (stub,) = world.queue.nominator.nominated_pods("n")
    assert (stub.pod.metadata.name, stub.uid) == ("a", pod.metadata.uid)
    assert stub.requested.milli_cpu == 0
    assert not stub.host_ports


@pytest.mark.parametrize("place", ["active", "unschedulable", "backoff", "error backoff"])
def test_a_nominated_pod_is_resolved_wherever_it_waits(place: str) -> None:
    world = QueueWorld([RegisteredHint(NODE_ADD, "A")])
    pod = make_pod("a", nominated_node_name="n")
    world.add(pod)
    if place != "active":
        world.fail(world.pop(), *([] if place == "error backoff" else ["A"]))
    if place == "backoff":
        world.move(NODE_ADD)
    assert world.place("a") == place
    (waiting,) = world.queue.nominator.nominated_pods("n")
    assert waiting.pod is pod


def test_clearing_leaves_the_pod_under_the_empty_name_only(world: QueueWorld) -> None:
    pod = make_pod("a", nominated_node_name="n")
    world.add(pod)
    world.queue.nominator.add_nominated_pod(PodInfo(pod), CLEAR)
    assert not world.queue.nominator.nominated_nodes()
    assert names(world, "") == ["a"]
    world.queue.nominator.check_invariants()
    world.queue.delete(pod)
    assert names(world, "") == []


def test_deleting_a_pod_ends_its_nomination(world: QueueWorld) -> None:
    pod = make_pod("a", nominated_node_name="n")
    world.add(pod)
    world.queue.delete(pod)
    assert not world.queue.nominator.nominated_nodes()
    world.queue.nominator.check_invariants()


def test_a_recreated_pod_takes_over_from_the_old_one(world: QueueWorld) -> None:
    old = make_pod("a", uid="1", nominated_node_name="n1")
    world.add(old)
    world.update(old, make_pod("a", uid="2", nominated_node_name="n2"))
    assert list(world.queue.nominator.nominated_nodes()) == ["n2"]
    assert world.queue.nominator.node_of("1") is None


def test_an_update_of_a_pod_in_flight_leaves_its_nomination_alone(world: QueueWorld) -> None:
    pod = make_pod("a", nominated_node_name="n1")
    world.add(pod)
    world.pop()
    world.update(pod, nominated(pod, "n2"))
    assert list(world.queue.nominator.nominated_nodes()) == ["n1"]


# -- what changed ----------------------------------------------------------------------

NODES = ("n1", "n2", "n3")


class History:
    """Random operations on a queue whose pods are nominated here and there."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = QueueWorld([RegisteredHint(NODE_ADD, "A")])
        self.known: dict[str, Pod] = {}
        self.popped: list[QueuedPodInfo] = []

    def step(self) -> None:
        rng, queue = self.rng, self.world.queue
        name = f"p{rng.randrange(6)}"
        pod = self.known.get(name)
        choice = rng.randrange(7)
        if pod is None:
            pod = self.known[name] = make_pod(
                name, nominated_node_name=rng.choice(("", *NODES)), priority=rng.randrange(3)
            )
            self.world.add(pod)
        elif choice == 0:
            queue.nominator.add_nominated_pod(PodInfo(pod), on(rng.choice(("", *NODES))))
        elif choice == 1:
            status = replace(pod.status, nominated_node_name=rng.choice(("", *NODES)))
            labels = {"version": str(rng.random())}
            metadata = replace(pod.metadata, labels=labels)
            new = self.known[name] = replace(pod, metadata=metadata, status=status)
            self.world.update(pod, new)
        elif choice == 2:
            queue.delete(pod)
            queue.done(pod.metadata.uid)
            self.popped = [each for each in self.popped if each.pod.metadata.name != name]
            del self.known[name], self.world.lister.pods[f"default/{name}"]
        elif choice == 3 and (queued := queue.pop(self.world.now_ns)) is not None:
            self.popped.append(queued)
        elif choice == 4 and self.popped:
            self.world.fail(self.popped.pop(), "A")
        elif choice == 5 and self.popped:
            queue.done(self.popped.pop().pod.metadata.uid)
        else:
            self.world.wait(5)
            self.world.move(NODE_ADD)

    def seen(self) -> dict[str, list[Pod]]:
        nominator = self.world.queue.nominator
        return {node: [each.pod for each in nominator.nominated_pods(node)] for node in NODES}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_whoever_follows_the_changes_sees_all_of_them(seed: int) -> None:
    history = History(seed)
    nominator = history.world.queue.nominator
    for _ in range(60):
        before, position = history.seen(), nominator.position
        history.step()
        changed = nominator.changes_since(position)
        assert changed is not None
        after = history.seen()
        assert {node for node in NODES if before[node] != after[node]} <= set(changed)


def test_changes_that_are_long_past_are_forgotten(world: QueueWorld) -> None:
    pod = make_pod("a")
    world.add(pod)
    nominator = world.queue.nominator
    start = nominator.position
    for _ in range(20_000):
        nominator.add_nominated_pod(PodInfo(pod), on("n"))
    assert nominator.changes_since(start) is None
    position = nominator.position
    assert nominator.changes_since(position) == set()
    nominator.delete_nominated_pod(pod)
    assert nominator.changes_since(position) == {"n"}
