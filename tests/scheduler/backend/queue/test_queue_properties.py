"""Random operations on the queue, compared with a plain model.

A pod is in exactly one place and none is lost. An event that could help leads to a retry, also when
it came in flight, and one that could not does not move the pod. No backoff is shortened. Pods leave
in order. Nominations resolve to the waiting pods. The gauges are correct.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kubesched.api import Pod
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import (
    ClusterEvent,
    Nominating,
    NominatingMode,
    PodInfo,
    QueuedPodInfo,
    QueueingHint,
)
from kubesched.scheduler.backend.queue import RegisteredHint, Strategy
from kubesched.testing.objects.builders import make_pod
from tests.scheduler.backend.queue.queue_harness import (
    NODE_ADD,
    NODE_LABEL,
    POD_DELETE,
    Gate,
    QueueHarness,
    by_priority,
)

IMMEDIATELY, AFTER_BACKOFF = Strategy.IMMEDIATELY, Strategy.AFTER_BACKOFF
NAMES = [f"p{number}" for number in range(4)]
PLUGINS = ("A", "B", "C")
# The registrations of each plugin; C waits for nothing, Gate lets NodeLabel through.
REGISTERED: dict[str, tuple[ClusterEvent, ...]] = {
    "A": (NODE_ADD, NODE_LABEL),
    "B": (NODE_ADD, POD_DELETE),
    "C": (),
    "Gate": (NODE_LABEL,),
}
pod_names = st.sampled_from(NAMES)
# Most events requeue all pods, because an event without effect tests little.
helped = st.just(frozenset(NAMES)) | st.frozensets(pod_names)
rarely = st.integers(0, 4).map(lambda number: number == 0)


class Change(NamedTuple):
    """The object of an event: it helps the pods that it names."""

    helps: frozenset[str]


def hint(pod: Pod, old: Any, new: Any) -> QueueingHint:
    helped = isinstance(new, Change) and pod.metadata.name in new.helps
    return QueueingHint.QUEUE if helped else QueueingHint.SKIP


HINTS = [
    RegisteredHint(event, plugin, hint) for plugin, events in REGISTERED.items() for event in events
]


def chance(queued: QueuedPodInfo, event: ClusterEvent, change: Change | None) -> Strategy:
    """Return the effect of the event on the pod, by its rejectors.

    An event without a change helps every pod.
    """
    if change is None:
        return Strategy.AFTER_BACKOFF
    if queued.pod.metadata.name in change.helps:
        if any(event in REGISTERED[each] for each in queued.pending_plugins):
            return Strategy.IMMEDIATELY
        if any(event in REGISTERED[each] for each in queued.unschedulable_plugins):
            return Strategy.AFTER_BACKOFF
    return Strategy.SKIP


class QueueMachine(RuleBasedStateMachine):
    """Drives the queue as a scheduler would, and stores the expected state."""

    @initialize()
    def start(self) -> None:
        self.gate = Gate("Gate")
        self.harness = QueueHarness(HINTS, [self.gate])
        self.known: dict[str, Pod] = {}  # pods that exist and are not bound
        self.flying: dict[str, QueuedPodInfo] = {}
        self.seen: dict[str, list[tuple[ClusterEvent, Change | None]]] = {}  # since the pop
        self.version = 0

    # -- helpers -----------------------------------------------------------------------

    def queued(self, name: str) -> QueuedPodInfo:
        queued = self.harness.queue.get_pod(name, "default")
        assert queued is not None, f"{name} is lost"
        return queued

    def absent(self) -> list[str]:
        return [name for name in NAMES if name not in self.known and name not in self.flying]

    def waiting(self) -> list[str]:
        return [name for name in self.known if name not in self.flying]

    def places(self) -> dict[str, str | None]:
        return {name: self.harness.place(name) for name in self.waiting()}

    def new_pod(self, name: str, priority: int = 0, **options: Any) -> Pod:
        self.version += 1
        uid = self.known[name].metadata.uid if name in self.known else f"uid-{self.version}"
        return make_pod(
            name, uid=uid, priority=priority, resource_version=str(self.version), **options
        )

    def is_backing_off(self, queued: QueuedPodInfo) -> bool:
        """The rule itself, from the pod's history alone."""
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if count == 0:
            return False
        penalty_ns = min(10, 2 ** (count - 1)) * SECOND
        return (queued.timestamp_ns + penalty_ns) // SECOND >= self.harness.now_ns // SECOND

    # -- the cluster -------------------------------------------------------------------

    @precondition(lambda self: self.absent())
    @rule(
        data=st.data(),
        priority=st.integers(0, 2),
        node=st.sampled_from(["", "", "n1", "n2"]),
        closed=rarely,
    )
    def pod_is_created(self, data: st.DataObject, priority: int, node: str, closed: bool) -> None:
        name = data.draw(st.sampled_from(self.absent()))
        if closed:
            self.gate.closed_for.add(name)
        pod = self.new_pod(name, priority, nominated_node_name=node)
        self.known[name] = pod
        self.harness.add(pod)
        is_gated = name in self.gate.closed_for
        assert self.harness.place(name) == ("gated" if is_gated else "active")
        nominated = self.harness.queue.nominator.node_of(pod.metadata.uid)
        assert nominated == (None if is_gated or not node else node)

    @rule(name=pod_names, priority=st.integers(0, 2))
    def pod_is_updated(self, name: str, priority: int) -> None:
        if name not in self.known:
            return
        before = self.places()
        old, self.known[name] = self.known[name], self.new_pod(name, priority)
        self.harness.update(old, self.known[name])
        # No plugin registered updates of pods, so no pod moves; but the new version is stored.
        assert self.places() == before
        if name not in self.flying:
            assert self.queued(name).pod is self.known[name]

    @rule(name=pod_names, really=rarely)
    def pod_is_deleted(self, name: str, really: bool) -> None:
        if really and name in self.known:
            pod = self.known.pop(name)
            del self.harness.lister.pods[f"default/{name}"]
            self.harness.queue.delete(pod)
            assert self.harness.queue.nominator.node_of(pod.metadata.uid) is None

    @rule(name=pod_names, node=st.sampled_from(["", "n1", "n2"]))
    def pod_is_nominated(self, name: str, node: str) -> None:
        if name in self.known:
            self.harness.queue.nominator.add_nominated_pod(
                PodInfo(self.known[name]), Nominating(NominatingMode.OVERRIDE, node)
            )

    @rule(closed=st.just(set()) | st.sets(pod_names, max_size=2))
    def gates_change(self, closed: set[str]) -> None:
        self.gate.closed_for = set(closed)

    # -- events and time ---------------------------------------------------------------

    @rule(
        event=st.sampled_from([NODE_ADD, NODE_LABEL, POD_DELETE]),
        helps=helped,
        spared=st.none() | st.none() | pod_names,
    )
    def something_happens(
        self, event: ClusterEvent, helps: frozenset[str], spared: str | None
    ) -> None:
        change = Change(helps)
        before = self.places()
        expected = {name: self.after_event(name, event, change) for name in before}
        if spared in expected:
            expected[spared] = before[spared]
        moved = self.harness.queue.move_all(
            event, None, change, self.harness.now_ns, lambda pod: pod.metadata.name != spared
        )
        assert self.places() == expected
        parked = ("unschedulable", "gated")
        assert moved == sum(
            before[name] in parked and after not in parked for name, after in expected.items()
        )
        for seen in self.seen.values():
            seen.append((event, change))

    def after_event(self, name: str, event: ClusterEvent, change: Change) -> str | None:
        """Return the expected place of the pod after the event."""
        queued, place = self.queued(name), self.harness.place(name)
        if place not in ("unschedulable", "gated"):
            return place
        if place == "gated" and event not in REGISTERED["Gate"]:
            return place
        return self.after_chance(queued, chance(queued, event, change))

    def after_chance(self, queued: QueuedPodInfo, strategy: Strategy) -> str:
        if strategy is Strategy.SKIP:
            return "gated" if queued.is_gated else "unschedulable"
        if queued.pod.metadata.name in self.gate.closed_for:
            return "gated"
        if strategy is Strategy.AFTER_BACKOFF and self.is_backing_off(queued):
            return "backoff" if queued.rejectors else "error backoff"
        return "active"

    @rule(milliseconds=st.sampled_from([1, 250, 1000, 2000, 4000]))
    def time_passes(self, milliseconds: int) -> None:
        self.harness.wait(milliseconds / 1000)

    @rule()
    def backoff_is_flushed(self) -> None:
        before = self.places()
        self.harness.queue.flush_backoff(self.harness.now_ns)
        for name, place in before.items():
            backs_off = place in ("backoff", "error backoff")
            freed = backs_off and not self.is_backing_off(self.queued(name))
            assert self.harness.place(name) == ("active" if freed else place)

    @rule(minutes=st.integers(1, 6))
    def unschedulable_are_flushed(self, minutes: int) -> None:
        self.harness.wait(60 * minutes)
        now_ns = self.harness.now_ns
        expected = self.places()
        overdue = False
        for name, place in expected.items():
            queued = self.queued(name)
            last_ns = max(queued.timestamp_ns, queued.flush_timestamp_ns)
            if place in ("unschedulable", "gated") and now_ns - last_ns > 300 * SECOND:
                expected[name] = self.after_chance(queued, Strategy.AFTER_BACKOFF)
                overdue = True
        self.harness.queue.flush_unschedulable(now_ns)
        assert self.places() == expected
        if overdue:
            for seen in self.seen.values():
                seen.append((NODE_ADD, None))

    @rule(name=pod_names)
    def pod_is_activated(self, name: str) -> None:
        pod = self.known.get(name) or make_pod(name, uid="unknown")
        place = self.harness.place(name)
        self.harness.activate(pod)
        if name in self.flying:
            if name in self.known:
                self.seen[name].append((NODE_ADD, None))
        elif place in ("unschedulable", "gated") and name in self.gate.closed_for:
            assert self.harness.place(name) == "gated"
        else:
            assert self.harness.place(name) == (None if place is None else "active")

    @precondition(lambda self: self.flying)
    @rule(
        event=st.sampled_from([NODE_ADD, NODE_LABEL, POD_DELETE]),
        helps=helped,
    )
    def something_happens_during_an_attempt(
        self, event: ClusterEvent, helps: frozenset[str]
    ) -> None:
        self.something_happens(event, helps, None)

    # -- attempts ----------------------------------------------------------------------

    @rule()
    def pod_is_popped(self) -> None:
        queue, places = self.harness.queue, self.places()
        active = [self.queued(name) for name, place in places.items() if place == "active"]
        backoff = [self.queued(name) for name, place in places.items() if place == "backoff"]
        popped = queue.pop(self.harness.now_ns)
        if active:
            assert popped is not None
            assert by_priority(popped) == min(map(by_priority, active))
        elif backoff:
            orders = {
                queued.pod.metadata.name: (queued.backoff_expiration_ns, by_priority(queued))
                for queued in backoff
            }
            assert popped is not None
            assert orders[popped.pod.metadata.name] == min(orders.values())
        else:
            assert popped is None
            return
        name = popped.pod.metadata.name
        assert popped.pod is self.known[name]
        self.flying[name], self.seen[name] = popped, []

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), really=rarely)
    def attempt_succeeds(self, data: st.DataObject, really: bool) -> None:
        if not really:
            return
        name = data.draw(st.sampled_from(sorted(self.flying)))
        queued = self.flying.pop(name)
        del self.seen[name]
        self.harness.queue.done(queued.pod.metadata.uid)
        if name in self.known:
            self.harness.queue.nominator.delete_nominated_pod(queued.pod)
            del self.known[name]
            self.harness.lister.pods.pop(f"default/{name}")

    @precondition(lambda self: self.flying)
    @rule(
        data=st.data(),
        rejectors=st.frozensets(st.sampled_from(PLUGINS)),
        pending=st.frozensets(st.sampled_from(PLUGINS), max_size=1),
    )
    def attempt_fails(
        self, data: st.DataObject, rejectors: frozenset[str], pending: frozenset[str]
    ) -> None:
        name = data.draw(st.sampled_from(sorted(self.flying)))
        queued, seen = self.flying.pop(name), self.seen.pop(name)
        if name not in self.known:
            self.harness.queue.done(queued.pod.metadata.uid)
            return
        went_to = self.harness.fail(queued, *rejectors, pending=pending)
        chances = {chance(queued, event, change) for event, change in seen}
        if not queued.rejectors:
            chances = {Strategy.AFTER_BACKOFF}
        best = next(
            (each for each in (IMMEDIATELY, AFTER_BACKOFF) if each in chances), Strategy.SKIP
        )
        expected = self.after_chance(queued, best)
        assert self.harness.place(name) == expected
        assert went_to.value.lower() in ("unschedulable" if expected == "gated" else expected)

    # -- promises ----------------------------------------------------------------------

    @invariant()
    def it_is_consistent(self) -> None:
        self.harness.queue.check_invariants()

    @invariant()
    def every_pod_is_in_one_place(self) -> None:
        waiting, _ = self.harness.queue.pending_pods()
        assert sorted(pod.metadata.name for pod in waiting) == sorted(self.waiting())
        in_flight = [pod.metadata.name for pod in self.harness.queue.in_flight_pods]
        assert in_flight == list(self.flying)

    @invariant()
    def gauges_tell_the_truth(self) -> None:
        counted: dict[str, int] = {}
        for place in self.places().values():
            gauge = "backoff" if place == "error backoff" else str(place)
            counted[gauge] = counted.get(gauge, 0) + 1
        assert self.harness.pending() == counted

    @invariant()
    def nominations_resolve(self) -> None:
        nominator = self.harness.queue.nominator
        for node in ("", *nominator.nominated_nodes()):
            for info in nominator.nominated_pods(node):
                name = info.pod.metadata.name
                if name in self.flying:
                    assert info.requested.milli_cpu == 0
                else:
                    assert info.pod is self.known[name]
                assert nominator.node_of(info.uid) == node


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
