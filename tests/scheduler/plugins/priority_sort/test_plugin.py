"""PrioritySort: priority first, then waiting time."""

from __future__ import annotations

import pytest

from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.plugins.priority_sort import PrioritySort
from kubesched.testing import check_plugin, make_pod


def queued(priority: int | None, timestamp_ns: int) -> QueuedPodInfo:
    return QueuedPodInfo(make_pod("p", priority=priority), timestamp_ns)


CASES = {
    "higher priority goes first": (queued(2, 9), queued(1, 1)),
    "of equals the one that waits longer goes first": (queued(1, 1), queued(1, 2)),
    "no priority counts as zero": (queued(None, 1), queued(0, 2)),
    "a negative priority goes behind none": (queued(None, 9), queued(-5, 1)),
}


@pytest.mark.parametrize(("first", "second"), CASES.values(), ids=CASES)
def test_order(first: QueuedPodInfo, second: QueuedPodInfo) -> None:
    plugin = PrioritySort()
    assert plugin.sort_key(first) < plugin.sort_key(second)


def test_pods_of_the_same_priority_and_time_are_equal() -> None:
    plugin = PrioritySort()
    assert plugin.sort_key(queued(None, 3)) == plugin.sort_key(queued(0, 3))


def test_contract() -> None:
    check_plugin(PrioritySort)
