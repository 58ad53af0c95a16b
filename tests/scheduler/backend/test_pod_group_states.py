"""Membership in pod groups (docs/reference/09 §18.1)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.framework import PodInfo
from kubesched.framework.pod_groups import UnknownPodGroupError
from kubesched.scheduler.backend.grouping_cache import GroupingCache
from kubesched.scheduler.backend.pod_group_states import PodGroupStates
from kubesched.testing import make_node
from tests.scheduler.pod_groups.group_harness import member


def on(node: str, pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node))


def counts(states: PodGroupStates) -> tuple[int, int]:
    found = states.members("default", "g")
    states.check_invariants()
    return found.scheduled_count, found.all_count


def test_assumed_and_assigned_pods_are_the_scheduled_ones() -> None:
    states = PodGroupStates()
    waiting, placed = member("p1"), on("n", member("p2"))
    states.add(waiting)
    states.add(placed)
    assert counts(states) == (1, 2)
    states.assume(on("n", waiting))
    assert counts(states) == (2, 2)
    for _ in range(2):
        states.forget(waiting)
        assert counts(states) == (1, 2)


def test_unknown_pods_change_nothing() -> None:
    states = PodGroupStates()
    states.assume(member("p1"))
    states.forget(member("p1"))
    states.delete(member("p1"))
    assert not len(states)
    states.add(member("p2"))
    states.assume(member("p1"))
    states.forget(member("p1"))
    assert counts(states) == (0, 1)


def test_a_bound_pod_stays_assigned_whatever_was_assumed() -> None:
    states = PodGroupStates()
    bound = on("n", member("p"))
    states.add(bound)
    states.assume(bound)
    states.forget(bound)
    found = states.members("default", "g")
    assert (found.scheduled_count, list(found.assumed)) == (1, [])


def test_a_group_is_removed_with_its_last_member() -> None:
    states = PodGroupStates()
    states.add(member("p"))
    states.delete(member("p"))
    with pytest.raises(UnknownPodGroupError) as raised:
        states.members("default", "g")
    assert str(raised.value) == "pod group state not found for pod group default/g"


def test_an_update_that_brings_a_node_makes_a_member_assigned() -> None:
    states = PodGroupStates()
    pod = member("p")
    states.add(pod)
    states.assume(pod)
    states.update(on("n", pod))
    found = states.members("default", "g")
    assert (found.scheduled_count, list(found.assumed)) == (1, [])
    assert not found.unscheduled_pods()


def test_pods_without_a_group_name_have_no_group() -> None:
    states = PodGroupStates()
    plain = member("p")
    plain = replace(plain, spec=replace(plain.spec, scheduling_group=None))
    for change in (states.add, states.update, states.assume, states.forget, states.delete):
        change(plain)
    assert not len(states)


def test_the_cache_reports_the_groups_of_pods_on_nodes() -> None:
    cache = GroupingCache()
    cache.add_node(make_node("n"))
    pod = member("p")
    cache.groups.add(pod)
    assumed = PodInfo(on("n", pod))
    cache.assume_pod(assumed)
    assert list(cache.groups.members("default", "g").assumed) == [pod.metadata.uid]
    cache.add_pod(assumed.pod)  # confirmed
    assert not cache.groups.members("default", "g").assumed
    assert counts(cache.groups) == (1, 1)
    cache.update_pod(assumed.pod, replace(assumed.pod, status=replace(pod.status, phase="Running")))
    assert counts(cache.groups) == (1, 1)
    cache.remove_pod(assumed.pod)
    assert not len(cache.groups)
    cache.check_invariants()
