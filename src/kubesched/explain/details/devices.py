"""Devices: which claim it is about, what that asks for, and how many devices there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kubesched.api import DeviceClass, Pod, ResourceClaim, ResourceSlice
from kubesched.api.dynamic_resources import DeviceTaint, DeviceToleration
from kubesched.explain.details.context import Detail, DetailContext, listed, nearest, plural
from kubesched.explain.objects import Objects

__all__ = ["asked_of", "claims_of_pod", "describe_devices", "device_taints", "missing_claim"]

_CLOSED = ("NoSchedule", "NoExecute")


def claims_of_pod(objects: Objects, pod: Pod) -> Iterator[tuple[str, ResourceClaim | None]]:
    """The pod's resource claims by the names of the objects."""
    made = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
    for each in pod.spec.resource_claims:
        name = each.resource_claim_name or made.get(each.name) or ""
        if name:
            yield name, objects.get(ResourceClaim, name, pod.metadata.namespace)


def asked_of(claim: ResourceClaim) -> list[str]:
    """What a claim asks for: `2 x gpu.example.com`."""
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


def missing_claim(objects: Objects, pod: Pod) -> str:
    """What has to be made before the pod can even be tried; empty if nothing has."""
    for each in pod.spec.resource_claims:
        if each.resource_claim_template_name and not any(
            status.name == each.name for status in pod.status.resource_claim_statuses
        ):
            return (
                f"its device claim {each.name} has yet to be made from ResourceClaimTemplate "
                f"{each.resource_claim_template_name}"
            )
    namespace = pod.metadata.namespace
    for name, claim in claims_of_pod(objects, pod):
        if claim is None:
            known = [each.metadata.name for each in objects.list(ResourceClaim, namespace)]
            near = nearest(name, known)
            hint = f"; did you mean {near}?" if near else ""
            return f"ResourceClaim {name} does not exist in namespace {namespace}{hint}"
    return ""


def describe_devices(context: DetailContext, reason: str) -> Detail:
    objects, pod = context.objects, context.pod
    claims = [(name, claim) for name, claim in claims_of_pod(objects, pod) if claim is not None]
    asked = listed(each for _, claim in claims for each in asked_of(claim))
    if "does not exist" in reason and "device class" in reason:
        wanted = reason.rpartition("device class ")[2].removesuffix(" does not exist")
        near = nearest(wanted, [each.metadata.name for each in objects.list(DeviceClass)])
        hint = f"; did you mean {near}?" if near else ""
        return Detail(asked, "", "", f"device class {wanted} does not exist{hint}", reason)
    if "not available on the node" in reason:
        return _allocated_elsewhere(claims, asked)
    if missing := missing_claim(objects, pod):
        return Detail(asked, "", missing, missing, "device claim missing")
    total, used = _counts(objects)
    if not total:
        says = f"its claim asks for {asked}, and no node offers any device"
    else:
        most, where = max((count - used[node], node) for node, count in total.items())
        there = f"{plural(sum(total.values()), 'device')}, {sum(used.values())} in use"
        says = f"its claim asks for {asked}, and no node has that free ({there}"
        says += f"; most free: {most} on {where})" if where else ")"
        if tainted := _tainted(objects, [claim for _, claim in claims]):
            says = f"its claim asks for {asked}, and devices are closed to it: {tainted}"
    if not asked:
        says = reason
    return Detail(asked, "", "", says, "no free devices for its claims")


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
            "",
            text,
            f"{text}, which cannot be used from any node that is left",
            f"cannot use the device of claim {name}",
            f"can use the device of claim {name}",
        )
    return Detail(asked, "", "", "its device claims cannot be used there", "claims elsewhere")


def device_taints(objects: Objects, claims: Iterable[ResourceClaim]) -> Counter[str]:
    """Taints that keep claims off devices that nobody uses, with the numbers of these devices."""
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


def _tainted(objects: Objects, claims: Iterable[ResourceClaim]) -> str:
    counts = device_taints(objects, claims)
    return listed(
        f"{plural(count, 'free device')} with taint {taint}" for taint, count in counts.items()
    )


def _counts(objects: Objects) -> tuple[Counter[str], Counter[str]]:
    """Devices per node, and how many of them are allocated; those of no one node under ""."""
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
