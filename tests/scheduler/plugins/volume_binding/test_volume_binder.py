"""Reserve, PreBind and Unreserve of VolumeBinding.

docs/reference/07 §12, cases 32 to 42.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import (
    Node,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import SUCCESS, Code, CycleState, PodInfo, Status
from kubesched.testing import make_node_selector, make_pv
from tests.scheduler.plugins.volume_binding.volume_fixture import VolumeHarness, claim, volume

SELECTED = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"
BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


def annotate(changed: Any, **annotations: str | None) -> Any:
    keys = {"selected": SELECTED, "completed": COMPLETED}
    merged = {**changed.metadata.annotations}
    for name, value in annotations.items():
        merged.pop(keys[name], None)
        if value is not None:
            merged[keys[name]] = value
    return replace(changed, metadata=replace(changed.metadata, annotations=merged))


def assumed_volume(harness: VolumeHarness, name: str) -> PersistentVolume:
    found = harness.plugin._volumes.get(name)
    assert found is not None
    return found


# -- Reserve ---------------------------------------------------------------------------------


def test_a_free_volume_is_assumed_to_be_the_claims() -> None:
    harness = VolumeHarness(claim("c"), volume("a@n1"))
    _, status = harness.reserve(harness.pod("c"))
    assert status == SUCCESS
    bound = assumed_volume(harness, "a")
    reference = bound.spec.claim_ref
    assert reference == ObjectReference(
        kind="PersistentVolumeClaim",
        api_version="v1",
        namespace="default",
        name="c",
        uid="persistentvolumeclaim.default.c",
        resource_version="1",
    )
    assert bound.metadata.annotations == {BY_CONTROLLER: "yes"}


def test_a_volume_reserved_by_a_user_gets_the_uid_and_no_annotation() -> None:
    reserved = volume("a@n1")
    pointer = ObjectReference(namespace="default", name="c")
    harness = VolumeHarness(
        claim("c"), replace(reserved, spec=replace(reserved.spec, claim_ref=pointer))
    )
    assert harness.reserve(harness.pod("c"))[1] == SUCCESS
    bound = assumed_volume(harness, "a")
    assert bound.spec.claim_ref is not None
    assert bound.spec.claim_ref.uid == "persistentvolumeclaim.default.c"
    assert bound.metadata.annotations == {}


def test_reserve_takes_another_volume_than_filter_if_that_is_gone() -> None:
    harness = VolumeHarness(claim("c"), claim("d"), volume("a@n1:1Gi"), volume("b@n1:5Gi"))
    states = {}
    for name in ("c", "d"):
        pod, states[name] = harness.pod(name), CycleState()
        harness.plugin.pre_filter(states[name], PodInfo(pod), harness.handle.snapshot.nodes)
        for node in reversed([*harness.handle.snapshot.nodes]):
            fits = harness.plugin.filter(states[name], pod, node).is_success
            assert fits == (node.name == "n1")
    for name, taken in (("c", "a"), ("d", "b")):
        assert harness.plugin.reserve(states[name], harness.pod(name), "n1") == SUCCESS
        reference = assumed_volume(harness, taken).spec.claim_ref
        assert reference is not None
        assert reference.name == name


def test_reserve_fails_if_the_volume_that_filter_found_is_gone() -> None:
    harness = VolumeHarness(claim("c"), claim("d"), volume("a@n1"))
    pod, state = harness.pod("c"), CycleState()
    harness.plugin.pre_filter(state, PodInfo(pod), harness.handle.snapshot.nodes)
    (first, _) = harness.handle.snapshot.nodes
    assert harness.plugin.filter(state, pod, first) == SUCCESS
    assert harness.reserve(harness.pod("d"))[1] == SUCCESS
    assert harness.plugin.reserve(state, pod, "n1").code is Code.ERROR


def test_a_claim_to_provision_is_assumed_on_the_node() -> None:
    harness = VolumeHarness(claim("c", storage_class="dp"))
    state, status = harness.reserve(harness.pod("c"))
    assert status == SUCCESS
    # Another pod with that claim can only use the node now.
    assert [answer.is_success for answer in harness.filter("c")] == [True, False]
    harness.plugin.unreserve(state, harness.pod("c"), "n1")
    assert [answer.is_success for answer in harness.filter("c")] == [True, True]


def test_a_failed_reserve_reverts_its_assumptions() -> None:
    harness = VolumeHarness(claim("c"), claim("d", "5Gi"), volume("a@n1:1Gi"), volume("b@n1:5Gi"))
    assume = harness.plugin._volumes.assume

    def out_of_sync(changed: PersistentVolume) -> None:
        if changed.metadata.name == "b":
            changed = replace(changed, metadata=replace(changed.metadata, resource_version="9"))
        assume(changed)

    harness.plugin._volumes.assume = out_of_sync  # type: ignore[method-assign]
    _, status = harness.reserve(harness.pod("c", "d"))
    assert status.code is Code.ERROR
    assert status.message == '"b" is out of sync (stored: 1, assume: 9)'
    assert assumed_volume(harness, "a").spec.claim_ref is None


def test_bound_claims_need_no_work() -> None:
    bound = claim("c", volume_name="v")
    harness = VolumeHarness(bound, volume("v", claim=bound))
    state, status = harness.reserve(harness.pod("c"))
    assert status == SUCCESS
    assert harness.plugin.pre_bind_pre_flight(state, harness.pod("c"), "n1").is_skip


# -- PreBind ---------------------------------------------------------------------------------

React = Callable[[VolumeHarness], Awaitable[None]]


def bind(harness: VolumeHarness, react: React | None = None, *names: str) -> tuple[Status, int]:
    """Reserve on n1 and PreBind while `react` runs.

    Return the status and the seconds taken.
    """

    async def work() -> tuple[Status, int]:
        harness.handle.clock = clock = current_clock()
        pod = harness.pod(*(names or ("c",)))
        harness.handle.objects.put(pod)
        state, status = harness.reserve(pod)
        assert status == SUCCESS
        assert harness.plugin.pre_bind_pre_flight(state, pod, "n1") == SUCCESS
        started_ns = clock.monotonic_ns()
        other = None if react is None else asyncio.ensure_future(react(harness))
        outcome = await harness.plugin.pre_bind(state, pod, "n1")
        took_ns = clock.monotonic_ns() - started_ns
        if other is not None:
            await other
        if not outcome.is_success:
            harness.plugin.unreserve(state, pod, "n1")
        return outcome, took_ns

    return run(work())


def get_claim(harness: VolumeHarness, name: str = "c") -> PersistentVolumeClaim:
    found = harness.handle.objects.get(PersistentVolumeClaim, name, "default")
    assert found is not None
    return found


def after(seconds: float, change: Callable[[VolumeHarness], None]) -> React:
    async def react(harness: VolumeHarness) -> None:
        await harness.handle.clock.sleep(int(seconds * SECOND))
        change(harness)

    return react


def complete(volume_name: str) -> Callable[[VolumeHarness], None]:
    def change(harness: VolumeHarness) -> None:
        done = annotate(get_claim(harness), completed="yes")
        harness.handle.objects.put(replace(done, spec=replace(done.spec, volume_name=volume_name)))

    return change


def test_a_static_binding_is_detected_at_the_next_poll() -> None:
    harness = VolumeHarness(claim("c"), volume("a@n1"))
    assert bind(harness, after(2.5, complete("a"))) == (SUCCESS, 3 * SECOND)
    written = harness.handle.objects.get(PersistentVolume, "a")
    assert written is not None
    assert written.spec.claim_ref is not None
    assert written.metadata.annotations == {BY_CONTROLLER: "yes"}


def test_the_first_poll_is_after_a_second() -> None:
    harness = VolumeHarness(claim("c"), volume("a@n1"))
    assert bind(harness, after(0, complete("a"))) == (SUCCESS, SECOND)


def test_pre_bind_waits_for_a_provisioned_volume() -> None:
    def provision(harness: VolumeHarness) -> None:
        assert get_claim(harness).metadata.annotations[SELECTED] == "n1"
        harness.handle.objects.put(make_pv("made", claim=get_claim(harness)))
        complete("made")(harness)

    harness = VolumeHarness(claim("c", storage_class="dp"))
    assert bind(harness, after(1.5, provision)) == (SUCCESS, 2 * SECOND)


def forget_annotations(harness: VolumeHarness) -> None:
    bare = get_claim(harness)
    harness.handle.objects.put(replace(bare, metadata=replace(bare.metadata, annotations={})))


def select_another(harness: VolumeHarness) -> None:
    harness.handle.objects.put(annotate(get_claim(harness), selected="n2"))


def bind_elsewhere(harness: VolumeHarness) -> None:
    selector = make_node_selector(("k", "In", "n2"))
    harness.handle.objects.put(make_pv("far", claim=get_claim(harness), node_selector=selector))
    complete("far")(harness)


def bind_to_unseen(harness: VolumeHarness) -> None:
    complete("unseen")(harness)


def remove(kind: type[Any], name: str, namespace: str = "") -> Callable[[VolumeHarness], None]:
    return lambda harness: harness.handle.objects.remove(kind, name, namespace)


def remake(kind: type[Any], name: str) -> Callable[[VolumeHarness], None]:
    def remade(harness: VolumeHarness) -> None:
        current = harness.handle.objects.get(kind, name, "default")
        assert current is not None
        metadata = replace(current.metadata, uid="another")
        harness.handle.objects.put(replace(current, metadata=metadata))

    return remade


def reset_reference(harness: VolumeHarness) -> None:
    current = harness.handle.objects.get(PersistentVolume, "a")
    assert current is not None
    harness.handle.objects.put(replace(current, spec=replace(current.spec, claim_ref=None)))


FAR = 'pv "far" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms'
DEADLINE = "context deadline exceeded"
FAILURES: dict[str, tuple[str, Callable[[VolumeHarness], None], str, int]] = {
    "no controller binds": ("dp", lambda _: None, DEADLINE, 10),
    "annotations are gone": (
        "dp",
        forget_annotations,
        'selectedNode annotation reset for PVC "c"',
        1,
    ),
    "another node": ("dp", select_another, 'provisioning failed for PVC "c"', 1),
    "the volume is elsewhere": ("dp", bind_elsewhere, FAR, 1),
    "the volume is not seen yet": ("dp", bind_to_unseen, DEADLINE, 10),
    "the claim is gone": (
        "dp",
        remove(PersistentVolumeClaim, "c", "default"),
        'failed to check provisioning pvc: persistentvolumeclaim "c" not found',
        1,
    ),
    "the pod is gone": (
        "dp",
        remove(Pod, "p", "default"),
        'pod does not exist any more: pod "p" not found',
        1,
    ),
    "the node is gone": (
        "dp",
        remove(Node, "n1"),
        'failed to get node "n1": node "n1" not found',
        1,
    ),
    "the volume lost its claim": ("np", reset_reference, 'ClaimRef got reset for pv "a"', 1),
    "the volume is gone": (
        "np",
        remove(PersistentVolume, "a"),
        'failed to check binding: persistentvolumes "a" not found',
        1,
    ),
    "the claim has another volume": (
        "np",
        bind_elsewhere,
        'pvc "c" is bound to pv "far", not to "a"',
        1,
    ),
    "the claim of a volume was made anew": (
        "np",
        remake(PersistentVolumeClaim, "c"),
        'failed to check binding: persistentvolumeclaims "default/c" not found',
        1,
    ),
    "the pod was made anew": (
        "np",
        remake(Pod, "p"),
        'pod does not exist any more: pod "p" not found',
        1,
    ),
    "the claim of a volume is gone": (
        "np",
        remove(PersistentVolumeClaim, "c", "default"),
        'failed to check binding: persistentvolumeclaims "default/c" not found',
        1,
    ),
}


@pytest.mark.parametrize(
    ("class_name", "change", "want", "seconds"), FAILURES.values(), ids=FAILURES
)
def test_failures_of_binding(
    class_name: str, change: Callable[[VolumeHarness], None], want: str, seconds: int
) -> None:
    harness = VolumeHarness(
        claim("c", storage_class=class_name), volume("a@n1"), bind_timeout_seconds=10
    )
    status, took_ns = bind(harness, after(0.5, change))
    assert status.code is Code.ERROR
    assert status.message == f"binding volumes: {want}"
    assert took_ns == seconds * SECOND


def test_without_a_timeout_it_fails_at_once_after_writing() -> None:
    harness = VolumeHarness(claim("c", storage_class="dp"), bind_timeout_seconds=0)
    status, took_ns = bind(harness)
    assert (status.message, took_ns) == (f"binding volumes: {DEADLINE}", 0)
    assert get_claim(harness).metadata.annotations[SELECTED] == "n1"


def test_a_conflict_reverts_the_changes_that_were_not_written() -> None:
    harness = VolumeHarness(claim("c"), claim("d", "5Gi"), volume("a@n1:1Gi"), volume("b@n1:5Gi"))

    async def write_concurrently(_: VolumeHarness) -> None:
        """Write the second volume as another client, between the two writes."""

    update = harness.handle.fake_api.update

    async def update_with_conflict(changed: Any, **options: Any) -> Any:
        written = await update(changed, **options)
        if changed.metadata.name == "a":
            current = harness.handle.objects.get(PersistentVolume, "b")
            assert current is not None
            harness.handle.objects.put(
                replace(current, metadata=replace(current.metadata, resource_version="77"))
            )
        return written

    harness.handle.fake_api.update = update_with_conflict  # type: ignore[method-assign]
    status, took_ns = bind(harness, write_concurrently, "c", "d")
    assert status.code is Code.ERROR
    assert "b" in status.message
    assert "modified" in status.message
    assert took_ns == 0
    # The written volume stays bound; the other one is free again, and nothing is assumed.
    assert assumed_volume(harness, "a").spec.claim_ref is not None
    assert assumed_volume(harness, "b").spec.claim_ref is None
    assert len(harness.plugin._volumes) == 0
    assert harness.handle.metrics.volume_scheduling_stage_error_total.labels("bind").value == 1
