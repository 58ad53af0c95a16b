"""Explains missing devices: which claim, what it requests, and how many devices there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from kubesched.api import DeviceClass, Pod, ResourceClaim, ResourceSlice
from kubesched.api.dynamic_resources import DeviceTaint, DeviceToleration
from kubesched.framework.causes import (
    AllocatedDeviceUnreachable,
    Cause,
    DeviceClassMissing,
)
from kubesched.framework.explaining import (
    Detail,
    Explaining,
    ObjectReader,
    RejectedNodes,
    Remedy,
)
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
    nearest,
    plural,
)

__all__ = ["DynamicResourcesExplaining"]


_CLOSED = ("NoSchedule", "NoExecute")


class DynamicResourcesExplaining(Explaining):
    """Counts devices, and proposes other device classes, fewer devices or tolerations."""

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        return _describe(rejected, cause)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        return _remedies(rejected)


def _claims_of(objects: ObjectReader, pod: Pod) -> Iterator[tuple[str, ResourceClaim | None]]:
    """Yield the names of the pod's resource claims, each with its claim or None."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for each in pod.spec.resource_claims:
        name = each.resource_claim_name or made.get(each.name) or ""
        if name:
            yield name, objects.get(ResourceClaim, name, pod.metadata.namespace)


def _requests_of(claim: ResourceClaim) -> list[str]:
    """Return what a claim requests, such as `2 x gpu.example.com`."""
    found = []
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            exactly = request.exactly
            count = "all" if exactly.allocation_mode == "All" else f"{exactly.count or 1} x"
            found.append(f"{count} {exactly.device_class_name}")
        else:
            found.append(
                " or ".join(
                    f"{each.count or 1} x {each.device_class_name}"
                    for each in request.first_available
                )
            )
    return found


def _missing_claim(objects: ObjectReader, pod: Pod) -> str:
    """Describe a claim that must exist before the pod can be tried; empty if there is none."""
    for each in pod.spec.resource_claims:
        if each.resource_claim_template_name and not any(
            status.name == each.name for status in pod.status.resource_claim_statuses
        ):
            return (
                f"its device claim {each.name} has yet to be made from ResourceClaimTemplate "
                f"{each.resource_claim_template_name}"
            )
    namespace = pod.metadata.namespace
    for name, claim in _claims_of(objects, pod):
        if claim is None:
            known = [each.metadata.name for each in objects.list(ResourceClaim, namespace)]
            near = nearest(name, known)
            hint = f"; did you mean {near}?" if near else ""
            return f"ResourceClaim {name} does not exist in namespace {namespace}{hint}"
    return ""


def _describe(rejected: RejectedNodes, cause: Cause | None) -> Detail:
    objects, pod = rejected.objects, rejected.pod
    claims = [(name, claim) for name, claim in _claims_of(objects, pod) if claim is not None]
    asked = listed(each for _, claim in claims for each in _requests_of(claim))
    match cause:
        case DeviceClassMissing(device_class=wanted):
            near = nearest(wanted, [each.metadata.name for each in objects.list(DeviceClass)])
            hint = f"; did you mean {near}?" if near else ""
            return Detail(asked, sentence=f"device class {wanted} does not exist{hint}")
        case AllocatedDeviceUnreachable():
            return _allocated_elsewhere(claims, asked)
    if missing := _missing_claim(objects, pod):
        return Detail(
            asked,
            detail=missing,
            sentence=missing,
            brief="device claim missing",
            advice="Create the ResourceClaim, or name one that exists in spec.resourceClaims.",
        )
    brief = "no free devices for its claims"
    if not asked:
        return Detail(brief=brief)
    total, used = _counts(objects)
    if not total:
        sentence = f"its claim asks for {asked}, and no node offers any device"
    elif tainted := _tainted(objects, [claim for _, claim in claims]):
        sentence = f"its claim asks for {asked}, and devices are closed to it: {tainted}"
    else:
        most, where = max((count - used[node], node) for node, count in total.items())
        there = f"{plural(sum(total.values()), 'device')}, {sum(used.values())} in use"
        sentence = f"its claim asks for {asked}, and no node has that free ({there}"
        sentence += f"; most free: {most} on {where})" if where else ")"
    return Detail(asked, sentence=sentence, brief=brief)


def _allocated_elsewhere(claims: list[tuple[str, ResourceClaim]], asked: str) -> Detail:
    for name, claim in claims:
        allocation = claim.status.allocation
        if allocation is None or not allocation.devices.results:
            continue
        result = allocation.devices.results[0]
        users = listed(each.name for each in claim.status.reserved_for)
        used = f" (used by {users})" if users else ""
        text = f"claim {name} has device {result.device} of {result.driver} already{used}"
        return Detail(
            asked,
            detail=text,
            sentence=f"{text}, which cannot be used from any node that is left",
            brief=f"cannot use the device of claim {name}",
            selects=f"can use the device of claim {name}",
        )
    return Detail(
        asked, sentence="its device claims cannot be used there", brief="claims elsewhere"
    )


def _open_taints(objects: ObjectReader, claims: Iterable[ResourceClaim]) -> Counter[str]:
    """Count unused devices by the taint that the claims do not tolerate."""
    tolerations = [
        toleration
        for claim in claims
        for request in claim.spec.devices.requests
        if request.exactly is not None
        for toleration in request.exactly.tolerations
    ]
    taken = {
        (result.driver, result.pool, result.device)
        for claim in objects.list(ResourceClaim)
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
    }
    counts: Counter[str] = Counter()
    for each in objects.list(ResourceSlice):
        for device in each.spec.devices:
            if (each.spec.driver, each.spec.pool.name, device.name) in taken:
                continue
            for taint in device.taints:
                if taint.effect in _CLOSED and not any(
                    _tolerates(toleration, taint) for toleration in tolerations
                ):
                    value = f"={taint.value}" if taint.value else ""
                    counts[f"{taint.key}{value}:{taint.effect}"] += 1
    return counts


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    return (
        toleration.key in ("", taint.key)
        and toleration.effect in ("", taint.effect)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
    )


def _tainted(objects: ObjectReader, claims: Iterable[ResourceClaim]) -> str:
    counts = _open_taints(objects, claims)
    return listed(
        f"{plural(count, 'free device')} with taint {taint}" for taint, count in counts.items()
    )


def _counts(objects: ObjectReader) -> tuple[Counter[str], Counter[str]]:
    """Count devices and allocated devices per node; those of several nodes are under ""."""
    total: Counter[str] = Counter()
    home: dict[tuple[str, str, str], str] = {}
    for each in objects.list(ResourceSlice):
        node = each.spec.node_name or ""
        total[node] += len(each.spec.devices)
        for device in each.spec.devices:
            home[each.spec.driver, each.spec.pool.name, device.name] = node
    used: Counter[str] = Counter()
    for claim in objects.list(ResourceClaim):
        allocation = claim.status.allocation
        for result in () if allocation is None else allocation.devices.results:
            place = home.get((result.driver, result.pool, result.device))
            if place is not None:
                used[place] += 1
    return total, used


_MOST: Final = 4


def _remedies(rejected: RejectedNodes) -> Iterator[Remedy]:
    objects, pod = rejected.objects, rejected.pod
    own = [claim for _, claim in _claims_of(objects, pod) if claim is not None]
    for claim in own:
        yield from _other_class(rejected, claim)
        yield from _fewer(rejected, claim)
        yield from _tolerating(rejected, claim)
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
        yield Remedy(
            f"release claim {name}" + (f" (used by {users})" if users else ""),
            2.0,
            pod,
            (replace(each, status=replace(each.status, allocation=None, reserved_for=())),),
        )


def _other_class(rejected: RejectedNodes, claim: ResourceClaim) -> Iterator[Remedy]:
    known = sorted(each.metadata.name for each in rejected.objects.list(DeviceClass))
    for request in claim.spec.devices.requests:
        if request.exactly is None:
            continue
        wanted = request.exactly.device_class_name
        others = [each for each in known if each != wanted]
        near = nearest(wanted, others) if wanted not in known else ""
        ordered = [near, *(each for each in others if each != near)] if near else others
        for number, other in enumerate(ordered[:_MOST]):
            changed = _with_request(claim, request.name, device_class_name=other)
            yield Remedy(
                f"ask for class {other} instead of {wanted} in claim {claim.metadata.name}",
                1.0 + number / 100,
                rejected.pod,
                (changed,),
            )


def _fewer(rejected: RejectedNodes, claim: ResourceClaim) -> Iterator[Remedy]:
    """Propose the largest smaller number of devices with which the pod fits."""
    for request in claim.spec.devices.requests:
        exactly = request.exactly
        if exactly is None or exactly.allocation_mode == "All" or (exactly.count or 1) < 2:
            continue
        asked = exactly.count or 1
        for count in range(asked - 1, 0, -1):
            changed = _with_request(claim, request.name, count=count)
            devices = "device" if count == 1 else "devices"
            remedy = Remedy(
                f"ask for {count} {devices} instead of {asked} in claim {claim.metadata.name}",
                (asked - count) / asked,
                rejected.pod,
                (changed,),
            )
            if rejected.fits_after(remedy):
                yield remedy
                break


def _tolerating(rejected: RejectedNodes, claim: ResourceClaim) -> Iterator[Remedy]:
    """Propose to tolerate taints of devices; as for nodes, they may be there for a reason."""
    taints = _open_taints(rejected.objects, [claim])
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
            yield Remedy(
                f"tolerate device taint {shown} in claim {claim.metadata.name}",
                1.5,
                rejected.pod,
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
