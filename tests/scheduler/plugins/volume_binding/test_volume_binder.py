"""Reserve, PreBind and Unreserve of VolumeBinding (docs/reference/07 §12, cases 32 to 42)."""

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
from kubesched.framework import SUCCESS, Code, Status
from kubesched.testing import make_node_selector, make_pv
from tests.scheduler.plugins.volume_binding.volume_fixture import VolumeWorld, claim, volume

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


def assumed_volume(world: VolumeWorld, name: str) -> PersistentVolume:
    found = world.plugin._volumes.get(name)
    assert found is not None
    return found


# -- Reserve ---------------------------------------------------------------------------------


def test_a_free_volume_is_assumed_to_be_the_claims() -> None:
    world = VolumeWorld(claim("c"), volume("a@n1"))
    _, status = world.reserve(world.pod("c"))
    assert status == SUCCESS
    bound = assumed_volume(world, "a")
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


def test_a_volume_that_a_user_set_aside_gets_the_uid_and_no_annotation() -> None:
    reserved = volume("a@n1")
    pointer = ObjectReference(namespace="default", name="c")
    world = VolumeWorld(
        claim("c"), replace(reserved, spec=replace(reserved.spec, claim_ref=pointer))
    )
    assert world.reserve(world.pod("c"))[1] == SUCCESS
    bound = assumed_volume(world, "a")
    assert bound.spec.claim_ref is not None
    assert bound.spec.claim_ref.uid == "persistentvolumeclaim.default.c"
    assert bound.metadata.annotations == {}


def test_a_claim_to_provision_for_is_assumed_on_the_node() -> None:
    world = VolumeWorld(claim("c", storage_class="dp"))
    state, status = world.reserve(world.pod("c"))
    assert status == SUCCESS
    # Another pod with that claim is confined to the node from now on.
    assert [answer.is_success for answer in world.filter("c")] == [True, False]
    world.plugin.unreserve(state, world.pod("c"), "n1")
    assert [answer.is_success for answer in world.filter("c")] == [True, True]


def test_reserve_leaves_nothing_behind_when_it_fails() -> None:
    world = VolumeWorld(claim("c"), claim("d", "5Gi"), volume("a@n1:1Gi"), volume("b@n1:5Gi"))
    assume = world.plugin._volumes.assume

    def out_of_sync(changed: PersistentVolume) -> None:
        if changed.metadata.name == "b":
            changed = replace(changed, metadata=replace(changed.metadata, resource_version="9"))
        assume(changed)

    world.plugin._volumes.assume = out_of_sync  # type: ignore[method-assign]
    _, status = world.reserve(world.pod("c", "d"))
    assert status.code is Code.ERROR
    assert status.message == '"b" is out of sync (stored: 1, assume: 9)'
    assert assumed_volume(world, "a").spec.claim_ref is None


def test_nothing_is_left_to_do_for_bound_claims() -> None:
    bound = claim("c", volume_name="v")
    world = VolumeWorld(bound, volume("v", claim=bound))
    state, status = world.reserve(world.pod("c"))
    assert status == SUCCESS
    assert world.plugin.pre_bind_pre_flight(state, world.pod("c"), "n1").is_skip


# -- PreBind ---------------------------------------------------------------------------------

React = Callable[[VolumeWorld], Awaitable[None]]


def bind(world: VolumeWorld, react: React | None = None, *names: str) -> tuple[Status, int]:
    """Reserve on n1, PreBind with somebody who reacts; the outcome and how long it took."""

    async def work() -> tuple[Status, int]:
        world.handle.clock = clock = current_clock()
        pod = world.pod(*(names or ("c",)))
        world.handle.objects.put(pod)
        state, status = world.reserve(pod)
        assert status == SUCCESS
        assert world.plugin.pre_bind_pre_flight(state, pod, "n1") == SUCCESS
        started_ns = clock.monotonic_ns()
        other = None if react is None else asyncio.ensure_future(react(world))
        outcome = await world.plugin.pre_bind(state, pod, "n1")
        took_ns = clock.monotonic_ns() - started_ns
        if other is not None:
            await other
        if not outcome.is_success:
            world.plugin.unreserve(state, pod, "n1")
        return outcome, took_ns

    return run(work())


def get_claim(world: VolumeWorld, name: str = "c") -> PersistentVolumeClaim:
    found = world.handle.objects.get(PersistentVolumeClaim, name, "default")
    assert found is not None
    return found


def after(seconds: float, change: Callable[[VolumeWorld], None]) -> React:
    async def react(world: VolumeWorld) -> None:
        await world.handle.clock.sleep(int(seconds * SECOND))
        change(world)

    return react


def complete(volume_name: str) -> Callable[[VolumeWorld], None]:
    def change(world: VolumeWorld) -> None:
        done = annotate(get_claim(world), completed="yes")
        world.handle.objects.put(replace(done, spec=replace(done.spec, volume_name=volume_name)))

    return change


def test_a_static_binding_is_noticed_at_the_next_look() -> None:
    world = VolumeWorld(claim("c"), volume("a@n1"))
    assert bind(world, after(2.5, complete("a"))) == (SUCCESS, 3 * SECOND)
    written = world.handle.objects.get(PersistentVolume, "a")
    assert written is not None
    assert written.spec.claim_ref is not None
    assert written.metadata.annotations == {BY_CONTROLLER: "yes"}


def test_nobody_looks_before_a_second_has_passed() -> None:
    world = VolumeWorld(claim("c"), volume("a@n1"))
    assert bind(world, after(0, complete("a"))) == (SUCCESS, SECOND)


def test_a_provisioned_volume_is_waited_for() -> None:
    def provision(world: VolumeWorld) -> None:
        assert get_claim(world).metadata.annotations[SELECTED] == "n1"
        world.handle.objects.put(make_pv("made", claim=get_claim(world)))
        complete("made")(world)

    world = VolumeWorld(claim("c", storage_class="dp"))
    assert bind(world, after(1.5, provision)) == (SUCCESS, 2 * SECOND)


def forget_annotations(world: VolumeWorld) -> None:
    bare = get_claim(world)
    world.handle.objects.put(replace(bare, metadata=replace(bare.metadata, annotations={})))


def select_another(world: VolumeWorld) -> None:
    world.handle.objects.put(annotate(get_claim(world), selected="n2"))


def bind_elsewhere(world: VolumeWorld) -> None:
    selector = make_node_selector(("k", "In", "n2"))
    world.handle.objects.put(make_pv("far", claim=get_claim(world), node_selector=selector))
    complete("far")(world)


def bind_to_unseen(world: VolumeWorld) -> None:
    complete("unseen")(world)


def remove(kind: type[Any], name: str, namespace: str = "") -> Callable[[VolumeWorld], None]:
    return lambda world: world.handle.objects.remove(kind, name, namespace)


def remake(kind: type[Any], name: str) -> Callable[[VolumeWorld], None]:
    def remade(world: VolumeWorld) -> None:
        current = world.handle.objects.get(kind, name, "default")
        assert current is not None
        metadata = replace(current.metadata, uid="another")
        world.handle.objects.put(replace(current, metadata=metadata))

    return remade


def reset_reference(world: VolumeWorld) -> None:
    current = world.handle.objects.get(PersistentVolume, "a")
    assert current is not None
    world.handle.objects.put(replace(current, spec=replace(current.spec, claim_ref=None)))


FAR = 'pv "far" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms'
DEADLINE = "context deadline exceeded"
FAILURES: dict[str, tuple[str, Callable[[VolumeWorld], None], str, int]] = {
    "nobody binds": ("dp", lambda _: None, DEADLINE, 10),
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
def test_what_can_go_wrong(
    class_name: str, change: Callable[[VolumeWorld], None], want: str, seconds: int
) -> None:
    world = VolumeWorld(
        claim("c", storage_class=class_name), volume("a@n1"), bind_timeout_seconds=10
    )
    status, took_ns = bind(world, after(0.5, change))
    assert status.code is Code.ERROR
    assert status.message == f"binding volumes: {want}"
    assert took_ns == seconds * SECOND


def test_without_a_timeout_it_fails_at_once_after_writing() -> None:
    world = VolumeWorld(claim("c", storage_class="dp"), bind_timeout_seconds=0)
    status, took_ns = bind(world)
    assert (status.message, took_ns) == (f"binding volumes: {DEADLINE}", 0)
    assert get_claim(world).metadata.annotations[SELECTED] == "n1"


def test_a_conflict_gives_back_what_was_not_written() -> None:
    world = VolumeWorld(claim("c"), claim("d", "5Gi"), volume("a@n1:1Gi"), volume("b@n1:5Gi"))

    async def meddle(_: VolumeWorld) -> None:
        """Between the two writes, somebody else writes the second volume."""

    update = world.handle.fake_api.update

    async def update_and_meddle(changed: Any, **options: Any) -> Any:
        written = await update(changed, **options)
        if changed.metadata.name == "a":
            current = world.handle.objects.get(PersistentVolume, "b")
            assert current is not None
            world.handle.objects.put(
                replace(current, metadata=replace(current.metadata, resource_version="77"))
            )
        return written

    world.handle.fake_api.update = update_and_meddle  # type: ignore[method-assign]
    status, took_ns = bind(world, meddle, "c", "d")
    assert status.code is Code.ERROR
    assert "b" in status.message
    assert "modified" in status.message
    assert took_ns == 0
    # What was written stays; the other volume is free again, and nothing is assumed any more.
    assert assumed_volume(world, "a").spec.claim_ref is not None
    assert assumed_volume(world, "b").spec.claim_ref is None
    assert len(world.plugin._volumes) == 0
    assert world.handle.metrics.volume_scheduling_stage_error_total.labels("bind").value == 1
