"""Devices: another class, fewer of them, a claim that gives its devices back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kubesched.api import DeviceClass, ResourceClaim
from kubesched.api.dynamic_resources import DeviceToleration
from kubesched.explain.details.context import nearest
from kubesched.explain.details.devices import claims_of_pod, device_taints
from kubesched.explain.suggestions.candidate import CLUSTER, Candidate, Question
from kubesched.explain.suggestions.trying import try_out

__all__ = ["fix_devices"]

_MOST: Final = 4


def fix_devices(question: Question) -> Iterator[Candidate]:
    objects, pod = question.model.objects, question.pod
    own = [claim for _, claim in claims_of_pod(objects, pod) if claim is not None]
    for claim in own:
        yield from _other_class(question, claim)
        yield from _fewer(question, claim)
        yield from _tolerating(question, claim)
    names = {claim.metadata.name for claim in own}
    holding = [
        each
        for each in objects.list(ResourceClaim)
        if each.status.allocation is not None
        and (each.metadata.name not in names or each.metadata.namespace != pod.metadata.namespace)
    ]
    for each in (*own, *holding[:_MOST]):
        if each.status.allocation is None:
            continue
        name = f"{each.metadata.namespace}/{each.metadata.name}"
        users = ", ".join(user.name for user in each.status.reserved_for)
        yield Candidate(
            f"release claim {name}" + (f" (used by {users})" if users else ""),
            CLUSTER,
            2.0,
            pod,
            (replace(each, status=replace(each.status, allocation=None, reserved_for=())),),
        )


def _other_class(question: Question, claim: ResourceClaim) -> Iterator[Candidate]:
    known = sorted(each.metadata.name for each in question.model.objects.list(DeviceClass))
    for request in claim.spec.devices.requests:
        if request.exactly is None:
            continue
        wanted = request.exactly.device_class_name
        others = [each for each in known if each != wanted]
        near = nearest(wanted, others) if wanted not in known else ""
        ordered = [near, *(each for each in others if each != near)] if near else others
        for number, other in enumerate(ordered[:_MOST]):
            changed = _with_request(claim, request.name, device_class_name=other)
            yield Candidate(
                f"ask for class {other} instead of {wanted} in claim {claim.metadata.name}",
                CLUSTER,
                1.0 + number / 100,
                question.pod,
                (changed,),
            )


def _fewer(question: Question, claim: ResourceClaim) -> Iterator[Candidate]:
    """As many devices as there can be."""
    for request in claim.spec.devices.requests:
        exactly = request.exactly
        if exactly is None or exactly.allocation_mode == "All" or (exactly.count or 1) < 2:
            continue
        asked = exactly.count or 1
        for count in range(asked - 1, 0, -1):
            changed = _with_request(claim, request.name, count=count)
            devices = "device" if count == 1 else "devices"
            candidate = Candidate(
                f"ask for {count} {devices} instead of {asked} in claim {claim.metadata.name}",
                CLUSTER,
                (asked - count) / asked,
                question.pod,
                (changed,),
            )
            if try_out(question.model, candidate) is not None:
                yield candidate
                break


def _tolerating(question: Question, claim: ResourceClaim) -> Iterator[Candidate]:
    """As with nodes: whoever tainted a device had a reason, which the claim may do without."""
    taints = device_taints(question.model.objects, [claim])
    for shown in list(taints)[:_MOST]:
        key, _, effect = shown.rpartition(":")
        key, _, value = key.partition("=")
        for request in claim.spec.devices.requests:
            if request.exactly is None:
                continue
            toleration = DeviceToleration(
                key=key, operator="Equal" if value else "Exists", value=value, effect=effect
            )
            tolerations = (*request.exactly.tolerations, toleration)
            yield Candidate(
                f"tolerate device taint {shown} in claim {claim.metadata.name}",
                CLUSTER,
                1.5,
                question.pod,
                (_with_request(claim, request.name, tolerations=tolerations),),
            )


def _with_request(claim: ResourceClaim, name: str, **changes: object) -> ResourceClaim:
    devices = claim.spec.devices
    requests = tuple(
        replace(each, exactly=replace(each.exactly, **changes))
        if each.name == name and each.exactly is not None
        else each
        for each in devices.requests
    )
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=requests)))
