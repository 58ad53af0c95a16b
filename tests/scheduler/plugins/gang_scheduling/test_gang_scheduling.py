"""GangScheduling in isolation (docs/reference/09 §9.1)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Pod, PodGroup
from kubesched.foundation.util.clock import MINUTE
from kubesched.framework import SUCCESS, CycleState, QueueingHint, Status, Wait
from kubesched.framework.pod_groups import GroupCycle, enter_group_cycle, leave_group_cycle
from kubesched.scheduler.backend.pod_group_states import PodGroupStates
from kubesched.scheduler.plugins.gang_scheduling import GangScheduling
from kubesched.testing import make_pod
from kubesched.testing.fakes.fake_handle import FakeHandle, FakeWaitingPod
from tests.scheduler.pod_groups.group_harness import GANGS, basic, gang, member

TOO_FEW = Status.unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
NO_GROUP = Status.unresolvable('waiting for pods\'s pod group "g" to appear in scheduling queue')


def build(*objects: Any, known: tuple[Pod, ...] = (), **options: Any) -> GangScheduling:
    states = PodGroupStates()
    for pod in known:
        states.add(pod)
    handle = FakeHandle(objects, feature_gates=GANGS, pod_groups=states, **options)
    return GangScheduling(None, handle)


P1, P2, P3 = (member(f"p{number}") for number in (1, 2, 3))

ENTERING: dict[str, tuple[tuple[PodGroup, ...], tuple[Pod, ...], Pod, Status]] = {
    "a pod without a group": ((), (), make_pod("p"), SUCCESS),
    "the group is not there yet": ((), (P1,), P1, NO_GROUP),
    "a basic group needs no number": ((basic(),), (P1,), P1, SUCCESS),
    "too few of a gang": ((gang(3),), (P1, P2), P1, TOO_FEW),
    "enough of a gang": ((gang(3),), (P1, P2, P3), P3, SUCCESS),
}


@pytest.mark.parametrize(("groups", "known", "pod", "want"), ENTERING.values(), ids=ENTERING)
def test_pre_enqueue(
    groups: tuple[PodGroup, ...], known: tuple[Pod, ...], pod: Pod, want: Status
) -> None:
    assert build(*groups, known=known).pre_enqueue(pod) == want


def test_an_unknown_gang_is_an_error() -> None:
    status = build(gang(1)).pre_enqueue(P1)
    assert status.message == "pod group state not found for pod group default/g"


def placed(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name="n"))


def test_permit_waits_and_activates_the_members_until_enough_have_nodes() -> None:
    plugin = build(gang(2), known=(P1, P2))
    handle = plugin.handle
    assert isinstance(handle, FakeHandle)
    assert isinstance(handle.pod_groups, PodGroupStates)
    handle.pod_groups.assume(placed(P1))
    answer = plugin.permit(CycleState(), placed(P1), "n")
    assert answer == Wait(5 * MINUTE, ("waiting for minCount pods from a gang to be scheduled",))
    assert set(handle.activated) == {"default/p2"}


def test_a_pod_scheduled_with_its_group_activates_no_members() -> None:
    plugin = build(gang(2), known=(P1, P2))
    handle, state = plugin.handle, CycleState()
    assert isinstance(handle, FakeHandle)
    enter_group_cycle(state, GroupCycle())
    for _ in range(2):
        assert isinstance(plugin.permit(state, placed(P1), "n"), Wait)
        assert not handle.activated
        leave_group_cycle(state)


def test_the_pod_that_completes_the_gang_allows_the_waiting_members() -> None:
    waiting = FakeWaitingPod(P1, "GangScheduling", "Another")
    plugin = build(gang(2), known=(P1, P2), waiting=[waiting])
    handle = plugin.handle
    assert isinstance(handle.pod_groups, PodGroupStates)
    handle.pod_groups.assume(placed(P1))
    assert isinstance(plugin.permit(CycleState(), placed(P1), "n"), Wait)
    handle.pod_groups.assume(placed(P2))
    assert plugin.permit(CycleState(), placed(P2), "n") == SUCCESS
    assert waiting.pending_plugins == ("Another",)


def test_permit_accepts_pods_without_a_gang() -> None:
    assert build().permit(CycleState(), make_pod("p"), "n") == SUCCESS
    assert build(basic(), known=(P1,)).permit(CycleState(), P1, "n") == SUCCESS
    missing = build(known=(P1,)).permit(CycleState(), P1, "n")
    assert isinstance(missing, Status)
    assert missing.message == (
        'failed to get podGroup default/g: podgroup.scheduling.k8s.io "g" not found'
    )


def test_without_pod_groups_every_pod_passes() -> None:
    plugin = GangScheduling(None, FakeHandle([gang(3)]))
    assert plugin.pre_enqueue(P1) == SUCCESS
    assert plugin.permit(CycleState(), P1, "n") == SUCCESS


def elsewhere(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, namespace="other"))


HINTS: dict[str, tuple[int, Any, QueueingHint]] = {
    "a pod of the same group": (0, P2, QueueingHint.QUEUE),
    "a pod of another group": (0, member("q", group="h"), QueueingHint.SKIP),
    "a pod of another namespace": (0, elsewhere(P2), QueueingHint.SKIP),
    "a pod without a group": (0, make_pod("q"), QueueingHint.SKIP),
    "its group": (1, gang(2), QueueingHint.QUEUE),
    "another group": (1, gang(2, "h"), QueueingHint.SKIP),
}


@pytest.mark.parametrize(("which", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(which: int, new: Any, want: QueueingHint) -> None:
    hint = build().events_to_register()[which].hint
    assert hint is not None
    assert hint(P1, None, new) is want


@pytest.mark.parametrize("which", [0, 1])
def test_an_object_of_another_kind_is_an_error(which: int) -> None:
    hint = build().events_to_register()[which].hint
    assert hint is not None
    with pytest.raises(TypeError):
        hint(P1, None, object())
