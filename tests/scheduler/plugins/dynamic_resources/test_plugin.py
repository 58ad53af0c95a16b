"""The claims of pods, and the plugin's results for pods without claims."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import (
    AllocationResult,
    DeviceClass,
    DeviceClassSpec,
    Pod,
    PodResourceClaim,
    PodResourceClaimStatus,
    ResourceClaim,
    ResourceClaimStatus,
)
from kubesched.api.base import ApiObject
from kubesched.framework import (
    SKIP,
    SUCCESS,
    CycleState,
    Diagnosis,
    PodInfo,
    QueueingHint,
    Status,
)
from kubesched.framework.causes import DeviceClaimUnusable, DevicesUnavailable
from kubesched.scheduler.plugins.dynamic_resources import DynamicResources
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_node,
    make_owner,
    make_pod,
    make_view,
    run_filter,
    run_score,
)
from kubesched.testing.objects.builders import make_meta

GPU = "example.com/gpu"
NODES = make_view(make_node("plain"), make_node("with-gpu", extended={GPU: 2}))


def claim(name: str, **metadata: Any) -> ResourceClaim:
    return ResourceClaim(metadata=make_meta("ResourceClaim", name, namespace="default", **metadata))


def allocated(given: ResourceClaim) -> ResourceClaim:
    return replace(given, status=ResourceClaimStatus(allocation=AllocationResult()))


def with_template(*, status: PodResourceClaimStatus | None = None) -> Pod:
    pod = make_pod("p")
    wanted = (PodResourceClaim(name="gpu", resource_claim_template_name="t"),)
    statuses = () if status is None else (status,)
    return replace(
        pod,
        spec=replace(pod.spec, resource_claims=wanted),
        status=replace(pod.status, resource_claim_statuses=statuses),
    )


def named(claim_name: str | None) -> PodResourceClaimStatus:
    return PodResourceClaimStatus(name="gpu", resource_claim_name=claim_name)


def plugin(*objects: ApiObject) -> DynamicResources:
    return DynamicResources(None, FakeHandle(objects))


def without_source(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, resource_claims=(PodResourceClaim(name="gpu"),)))


POD = make_pod("p", resource_claims={"gpu": "mine"})
OWNER = make_owner("Pod", "p", api_version="v1")

# pod, objects, expected errors of PreEnqueue and PreFilter
UNRESOLVED = {
    "a claim that is not there": (POD, [], 'could not find ResourceClaim "default/mine"'),
    "a claim that is going": (
        POD,
        [claim("mine", deletion_timestamp="2026-01-01T00:00:00Z")],
        'resourceclaim "mine" is being deleted',
    ),
    "a template whose claim was not created": (
        with_template(),
        [claim("mine")],
        'pod "default/p": ResourceClaim not created yet',
    ),
    "a generated claim of another pod": (
        with_template(status=named("mine")),
        [claim("mine")],
        "ResourceClaim default/mine was not created for Pod default/p (Pod is not owner)",
    ),
    "neither claim nor template": (
        without_source(make_pod("p")),
        [],
        'pod "default/p", spec.resourceClaim "gpu": none of the supported fields are set',
    ),
}


@pytest.mark.parametrize(("pod", "objects", "want"), UNRESOLVED.values(), ids=UNRESOLVED)
def test_a_pod_with_unusable_claims_is_rejected(
    pod: Pod, objects: list[ApiObject], want: str
) -> None:
    built, state = plugin(*objects), CycleState()
    rejected = Status.unresolvable(want, causes=(DeviceClaimUnusable(),))
    assert built.pre_enqueue(pod) == rejected
    assert built.pre_filter(state, PodInfo(pod), NODES) == rejected
    result = built.post_filter(state, PodInfo(pod), Diagnosis())
    assert result.status == Status.unschedulable("no new claims to deallocate")


USABLE = {
    "a claim of its own": (POD, [claim("mine")]),
    "a claim that has its devices": (POD, [allocated(claim("mine"))]),
    "a generated claim": (with_template(status=named("mine")), [claim("mine", owner=OWNER)]),
}


@pytest.mark.parametrize(("pod", "objects"), USABLE.values(), ids=USABLE)
def test_a_pod_whose_claims_request_no_devices_fits_every_node(
    pod: Pod, objects: list[ApiObject]
) -> None:
    built = plugin(*objects)
    assert built.pre_enqueue(pod) == SUCCESS
    assert run_filter(built, pod, NODES) == [SUCCESS, SUCCESS]


def test_a_claim_that_is_not_needed_is_ignored() -> None:
    pod = with_template(status=named(None))
    assert plugin().pre_enqueue(pod) == SUCCESS
    assert plugin().pre_filter(CycleState(), PodInfo(pod), NODES) == SKIP


def test_a_pod_without_claims_is_skipped() -> None:
    built, state, pod_info = plugin(), CycleState(), PodInfo(make_pod("p"))
    assert built.pre_enqueue(pod_info.pod) == SUCCESS
    assert built.pre_filter(state, pod_info, NODES) == SKIP
    result = built.post_filter(state, pod_info, Diagnosis())
    assert result.status == Status.unschedulable("no new claims to deallocate")
    assert result.nominating is None
    assert run_score(built, pod_info.pod, NODES) == [0, 0]


def test_post_filter_without_a_pre_filter_is_an_error() -> None:
    status = plugin().post_filter(CycleState(), PodInfo(make_pod("p")), Diagnosis()).status
    assert (status.code.label, status.message) == ("Error", "not found")


def test_a_served_resource_without_devices_needs_a_node_that_has_it() -> None:
    serving = DeviceClass(
        metadata=make_meta("DeviceClass", "gpus"), spec=DeviceClassSpec(extended_resource_name=GPU)
    )
    pod = make_pod("p", requests=[{GPU: 1}])
    assert run_filter(plugin(), pod, NODES) == [SUCCESS, SUCCESS]
    built = plugin(serving)
    assert run_filter(built, pod, NODES) == [
        Status.unresolvable("cannot allocate all claims", causes=(DevicesUnavailable(),)),
        SUCCESS,
    ]
    state = CycleState()
    built.pre_filter(state, PodInfo(pod), NODES)
    result = built.post_filter(state, PodInfo(pod), Diagnosis())
    assert result.status == Status.unschedulable("still not schedulable")


MINE, OTHER = claim("mine"), claim("other")
CLAIM_CHANGES = {
    "its claim appears": (POD, [MINE], None, MINE, QueueingHint.QUEUE),
    "another claim appears": (POD, [MINE, OTHER], None, OTHER, QueueingHint.SKIP),
    "its claim is allocated": (POD, [MINE], MINE, allocated(MINE), QueueingHint.QUEUE),
    "its claim changes outside of the status": (
        POD,
        [MINE],
        MINE,
        claim("mine", labels={"a": "b"}),
        QueueingHint.SKIP,
    ),
    "another claim gives its devices back": (
        POD,
        [MINE, OTHER],
        allocated(OTHER),
        OTHER,
        QueueingHint.QUEUE,
    ),
    "devices are given back while its own claim is missing": (
        POD,
        [OTHER],
        allocated(OTHER),
        OTHER,
        QueueingHint.SKIP,
    ),
}


@pytest.mark.parametrize("case", CLAIM_CHANGES.values(), ids=CLAIM_CHANGES)
def test_after_a_claim_changed(
    case: tuple[Pod, list[ApiObject], ResourceClaim | None, ResourceClaim, QueueingHint],
) -> None:
    pod, objects, old, new, want = case
    (hint,) = [
        each.hint
        for each in plugin(*objects).events_to_register()
        if each.event.resource == "resource.k8s.io/ResourceClaim"
    ]
    assert hint is not None
    assert hint(pod, old, new) is want


def test_a_pod_is_requeued_once_its_generated_claims_resolve() -> None:
    waiting, told = with_template(), with_template(status=named("mine"))
    for objects, want in (
        ([], QueueingHint.SKIP),
        ([claim("mine", owner=OWNER)], QueueingHint.QUEUE),
    ):
        (hint,) = [
            each.hint
            for each in plugin(*objects).events_to_register()
            if each.event.resource == "Pod"
        ]
        assert hint is not None
        assert hint(waiting, waiting, told) is want
        assert hint(make_pod("other"), waiting, told) is QueueingHint.SKIP


def test_the_contract_of_plugins() -> None:
    check_plugin(DynamicResources)
