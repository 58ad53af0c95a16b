"""Frames: encoded once for all viewers; fast viewers get changes, slow ones whole frames."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from kubesched.dashboard.cluster_view import ClusterView
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.rows import node_row
from kubesched.dashboard.stream_frames import FrameHub
from kubesched.foundation.util import virtual_loop
from kubesched.framework.pod_info import assigned_to
from kubesched.testing import make_node, make_pod


class FrameHarness:
    """A view of some nodes, and its frames."""

    def __init__(self, nodes: int) -> None:
        self.view = ClusterView()
        self.log = DecisionLog(lambda: 0)
        self.view.pod_listeners.append(self.log.note)
        self.hub = FrameHub(self.view, self.log, lambda frame: frame)
        self.hub.join()
        for number in range(nodes):
            self.view.put_node(make_node(f"n{number}", cpu="64"))

    def place(self, name: str, node: str) -> None:
        pod = make_pod(name, requests={"cpu": "1"})
        self.view.put_pod(pod)
        self.view.put_pod(assigned_to(pod, node))

    async def frame(self, last: int) -> tuple[int, dict[str, Any]]:
        number, event = await self.hub.next(last)
        return number, json.loads(event.removeprefix(b"data: "))


def virtually(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    virtual_loop.run(main, start_ns=0, seed=0)


def test_a_viewer_is_sent_everything_and_then_what_changed() -> None:
    async def work() -> None:
        harness = FrameHarness(3)
        last, frame = await harness.frame(0)
        assert frame["nodes"] == [[0, "n0", 0, 0, 0], [0, "n1", 0, 0, 0], [0, "n2", 0, 0, 0]]
        assert [shape["cpu"] for shape in frame["shapes"]] == [64_000]
        harness.place("p", "n1")
        harness.view.remove_node(make_node("n2"))
        last, frame = await harness.frame(last)
        assert frame["used"] == [["n1", 1000, 0, 1]]
        assert frame["gone"] == ["n2"]
        assert [each["what"] for each in frame["decisions"]] == ["placed"]

    virtually(work)


def test_viewers_share_the_frame_of_a_moment() -> None:
    async def work() -> None:
        harness = FrameHarness(3)
        first, _ = await harness.hub.next(0)
        harness.place("p", "n1")
        number, one = await harness.hub.next(first)
        same, other = await harness.hub.next(first)
        assert (number, one) == (same, other)
        assert one is other

    virtually(work)


def test_a_slow_viewer_gets_all_missed_changes_in_one_frame() -> None:
    async def work() -> None:
        harness = FrameHarness(5)
        slow, _ = await harness.hub.next(0)
        quick = slow
        for number in range(4):
            harness.place(f"p{number}", f"n{number}")
            quick, _ = await harness.hub.next(quick)
        last, frame = await harness.frame(slow)
        assert last == quick
        assert [name for name, *_ in frame["used"]] == ["n0", "n1", "n2", "n3"]
        assert len(frame["decisions"]) == 4
        assert "all" not in frame

    virtually(work)


def test_a_viewer_that_is_too_far_behind_gets_a_full_frame() -> None:
    async def work() -> None:
        harness = FrameHarness(2)
        slow, _ = await harness.hub.next(0)
        quick = slow
        for number in range(60):
            harness.place(f"p{number}", "n0")
            quick, _ = await harness.hub.next(quick)
        _, frame = await harness.frame(slow)
        assert frame["all"] is True

    virtually(work)


def test_ten_thousand_changes_with_a_stalled_viewer_leave_no_backlog() -> None:
    async def work() -> None:
        harness = FrameHarness(1)
        last, _ = await harness.hub.next(0)
        pod = make_pod("p", requests={"cpu": "1"})
        for _ in range(10_000):
            harness.view.put_pod(pod)
            harness.view.put_pod(assigned_to(pod, "n0"))
            harness.view.remove_pod(pod)
        harness.place("last", "n0")
        assert harness.hub.backlog + harness.view.backlog <= 2
        _, frame = await harness.frame(last)
        assert len(frame["decisions"]) == 200
        assert frame["used"] == [["n0", 1000, 0, 1]]
        harness.hub.leave()
        harness.place("q", "n0")
        assert harness.hub.backlog + harness.view.backlog == 0

    virtually(work)


def test_a_frame_comes_at_most_every_fifth_of_a_second_and_at_least_every_five() -> None:
    async def work() -> None:
        harness = FrameHarness(1)
        loop = asyncio.get_running_loop()
        last, _ = await harness.hub.next(0)
        began = loop.time()
        harness.place("p", "n0")
        last, _ = await harness.hub.next(last)
        assert loop.time() - began >= 0.2
        began = loop.time()
        last, frame = await harness.frame(last)
        assert 5 <= loop.time() - began < 5.5
        assert (frame["nodes"], frame["used"]) == ([], [])

    virtually(work)


def test_a_viewer_that_connects_soon_after_another_gets_the_same_frame_and_later_changes() -> None:
    async def work() -> None:
        harness = FrameHarness(3)
        first, everything = await harness.hub.next(0)
        harness.place("p", "n1")
        await harness.hub.next(first)
        number, same = await harness.hub.next(0)
        assert same is everything
        _, frame = await harness.frame(number)
        assert frame["used"] == [["n1", 1000, 0, 1]]

    virtually(work)


def test_equal_nodes_share_a_shape_and_cordoned_ones_another() -> None:
    async def work() -> None:
        harness = FrameHarness(3)
        last, frame = await harness.frame(0)
        assert len(frame["shapes"]) == 1
        harness.view.put_node(make_node("n1", cpu="64", unschedulable=True))
        _, frame = await harness.frame(last)
        assert frame["nodes"] == [[0, "n1", 0, 0, 0]]
        assert frame["shapes"][0]["cordoned"] is True

    virtually(work)


def test_requested_amounts_follow_pods_that_come_and_go() -> None:
    view = ClusterView()
    view.put_node(make_node("a", cpu="4"))
    pod = make_pod("p", requests={"cpu": "1"})
    view.put_pod(pod)
    view.put_pod(assigned_to(pod, "a"))
    facts = view.facts("a")
    assert facts is not None
    assert node_row(facts)["cpu"] == [1000, 4000]
    view.put_pod(replace(assigned_to(pod, "a"), status=replace(pod.status, phase="Succeeded")))
    facts = view.facts("a")
    assert facts is not None
    assert node_row(facts)["cpu"] == [0, 4000]
    assert view.counts() == {"nodes": 1, "pods": 0, "placed": 0, "waiting": 0}
