"""The total requests of nominated pods equal a recount after any history."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import Pod
from kubesched.framework import Nominating, NominatingMode, PodInfo
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.runtime.nominated_totals import NominatedPods
from kubesched.testing import FakeHandle, make_node, make_pod

GPU = "example.com/gpu"
NODES = [f"n{number}" for number in range(12)]


class History:
    """Random changes of nodes and pods: nominated, changed, moved, deleted."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cache = Cache()
        handle = FakeHandle((), snapshot=self.cache.snapshot)
        self.objects, self.nominator = handle.objects, handle.nominator
        self.nominated = NominatedPods(lambda: self.nominator, lambda: handle.dry_run.version)
        self.present: set[str] = set()
        self.waiting: dict[str, Pod] = {}

    def step(self) -> None:
        rng = self.rng
        choice = rng.random()
        if choice < 0.2:
            self.toggle_node(rng.choice(NODES))
        elif choice < 0.7 or not self.waiting:
            pod = self.new_pod(f"p{rng.randrange(100)}")
            self.waiting[pod.metadata.name] = pod
            self.objects.put(pod)
            if rng.random() < 0.9:
                node_name = rng.choice((*NODES, ""))
                nominating = Nominating(NominatingMode.OVERRIDE, node_name)
                self.nominator.add_nominated_pod(PodInfo(pod), nominating)
        else:
            name = rng.choice(list(self.waiting))
            pod = self.waiting.pop(name)
            if rng.random() < 0.5:
                self.nominator.delete_nominated_pod(pod)
            self.objects.remove(Pod, name, "default")

    def toggle_node(self, name: str) -> None:
        extended = {GPU: 4} if self.rng.random() < 0.1 else None
        node = make_node(name, extended=extended)
        if name in self.present:
            self.present.discard(name)
            self.cache.remove_node(node)
        else:
            self.present.add(name)
            self.cache.add_node(node)

    def new_pod(self, name: str) -> Pod:
        rng = self.rng
        requests: dict[str, Any] = {"cpu": rng.choice(("1", "250m")), "memory": "1Gi"}
        if rng.random() < 0.2:
            requests[GPU] = 1
        return make_pod(name, requests=requests, priority=rng.choice((None, -5, 0, 10)))

    def check(self, pod: Pod) -> None:
        table = self.cache.update_snapshot().table
        want: dict[str, tuple[int, list[int]]] = {}
        for name in self.nominator.nominated_nodes():
            counted = [
                each
                for each in self.nominator.nominated_pods(name)
                if (each.pod.spec.priority or 0) >= (pod.spec.priority or 0)
                and each.uid != pod.metadata.uid
            ]
            if counted and name in table.row_of:
                names = table.resources.values[: len(table.requested)]
                amounts = [sum(each.requested.amount(r) for each in counted) for r in names]
                want[name] = (len(counted), amounts)
        totals = self.nominated.totals(pod, table)
        got = {
            table.names[row]: (int(totals.pod_count[place]), totals.requested[:, place].tolist())
            for place, row in enumerate(totals.rows.tolist())
        }
        assert got == want
        by_node = {
            name: [each.pod for each in pods]
            for name, pods in self.nominated.by_node(table).items()
            if name in self.nominator.nominated_nodes()
        }
        assert by_node == {
            name: [each.pod for each in self.nominator.nominated_pods(name)]
            for name in self.nominator.nominated_nodes()
        }
        assert totals.rows.tolist() == sorted(totals.rows.tolist())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300))
def test_totals_follow_the_nominations(seed: int, steps: int) -> None:
    history = History(seed)
    for _ in range(steps):
        history.step()
        if history.rng.random() < 0.2:
            history.check(history.new_pod("incoming"))
        if history.waiting and history.rng.random() < 0.2:
            history.check(history.rng.choice(list(history.waiting.values())))
    history.check(history.new_pod("incoming"))


def test_a_reader_that_lags_far_behind_starts_over() -> None:
    history = History(0)
    for name in NODES:
        history.toggle_node(name)
    pod = history.new_pod("p")
    history.objects.put(pod)
    history.check(history.new_pod("incoming"))
    for number in range(10_000):
        nominating = Nominating(NominatingMode.OVERRIDE, NODES[number % 3])
        history.nominator.add_nominated_pod(PodInfo(pod), nominating)
    history.check(history.new_pod("incoming"))
