"""Explains missing devices: the claim, its request, and the existing devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from kubesched.api import (
    DeviceClass,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
)
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
from kubesched.scheduler.plugins.dynamic_resources.device_remedies import device_remedies
from kubesched.scheduler.plugins.dynamic_resources.device_requests import (
    ALL,
    ResolvedDeviceRequest,
)
from kubesched.scheduler.plugins.dynamic_resources.device_selectors import DeviceSelectors
from kubesched.scheduler.plugins.dynamic_resources.device_state import DeviceState
from kubesched.scheduler.plugins.dynamic_resources.device_tally import DeviceTally, tally_devices
from kubesched.scheduler.plugins.dynamic_resources.selector_attributes import attribute_uses
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
    nearest,
    plural,
)

__all__ = ["DynamicResourcesExplaining"]

_LONGEST_SELECTOR: Final = 200


class _Counted(NamedTuple):
    """A request of a claim, and the devices for it."""

    claim: ResourceClaim
    request: ResolvedDeviceRequest
    tally: DeviceTally

    @property
    def is_short(self) -> bool:
        """Whether no node has enough free devices for this request alone."""
        if self.request.mode == ALL:
            tally = self.tally
            return not tally.matching or bool(tally.in_use or tally.closed)
        return self.tally.most_free[0] < max(self.request.count, 1)


class DynamicResourcesExplaining(Explaining):
    """Counts devices, and proposes other selectors, classes, numbers or tolerations."""

    def __init__(self, devices: DeviceState) -> None:
        self._devices = devices
        self._selectors = DeviceSelectors(list_attributes=devices.features.list_attributes)

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        objects, pod = rejected.objects, rejected.pod
        claims = [(name, claim) for name, claim in _claims_of(objects, pod) if claim is not None]
        asked = listed(each for _, claim in claims for each in _requests_of(claim))
        match cause:
            case DeviceClassMissing(device_class=wanted):
                near = nearest(wanted, [each.metadata.name for each in objects.list(DeviceClass)])
                hint = f"; did you mean {near}?" if near else ""
                return Detail(asked, sentence=f"device class {wanted} does not exist{hint}")
            case AllocatedDeviceUnreachable():
                return _allocated_elsewhere(rejected, claims, asked)
        if missing := _missing_claim(objects, pod):
            return missing._replace(asked=asked)
        brief = "no free devices for its claims"
        if not asked:
            return Detail(brief=brief)
        counted = self._counted(rejected, [claim for _, claim in claims])
        return Detail(asked, sentence=_sentence(asked, counted, rejected), brief=brief)

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        own = [
            claim for _, claim in _claims_of(rejected.objects, rejected.pod) if claim is not None
        ]
        yield from _other_claims(rejected)
        yield from device_remedies(rejected, own, self._tallies(rejected, own))

    def _tallies(
        self, rejected: RejectedNodes, claims: Sequence[ResourceClaim]
    ) -> dict[tuple[str, str], DeviceTally]:
        """Return the tallies by claim and request; an alternative's name is `request/name`."""
        return {
            (each.claim.metadata.name, each.request.full_name): each.tally
            for each in self._counted(rejected, claims)
        }

    def _counted(self, rejected: RejectedNodes, claims: Iterable[ResourceClaim]) -> list[_Counted]:
        """Count the devices for each request that is not allocated yet."""
        nodes = [each.node for each in rejected.nodes if each.node is not None]
        found = []
        for claim in claims:
            if claim.status.allocation is not None:
                continue
            _, requests = self._devices.requests_of(claim.spec.devices)
            for choice in requests.choices:
                for request in choice.alternatives:
                    tally = tally_devices(self._devices.inventory, nodes, request, self._selectors)
                    found.append(_Counted(claim, request, tally))
        return found


def _other_claims(rejected: RejectedNodes) -> Iterator[Remedy]:
    """Propose the claims that were probably meant by names that do not exist."""
    pod = rejected.pod
    namespace = pod.metadata.namespace
    known = [each.metadata.name for each in rejected.objects.list(ResourceClaim, namespace)]
    for place, each in enumerate(pod.spec.resource_claims):
        name = each.resource_claim_name or ""
        near = nearest(name, known) if name and name not in known else ""
        if near:
            claims = list(pod.spec.resource_claims)
            claims[place] = replace(each, resource_claim_name=near)
            changed = replace(pod, spec=replace(pod.spec, resource_claims=tuple(claims)))
            yield Remedy(f"use ResourceClaim {near} instead of {name}", 0.9, changed)


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
            choices = dict.fromkeys(
                f"{each.count or 1} x {each.device_class_name}" for each in request.first_available
            )
            found.append(" or ".join(choices))
    return found


def _missing_claim(objects: ObjectReader, pod: Pod) -> Detail | None:
    """Describe a claim that must exist before the pod can be tried."""
    namespace = pod.metadata.namespace
    for each in pod.spec.resource_claims:
        template = each.resource_claim_template_name
        if not template or any(
            status.name == each.name for status in pod.status.resource_claim_statuses
        ):
            continue
        if objects.get(ResourceClaimTemplate, template, namespace) is not None:
            return _missing(
                f"its device claim {each.name} has not been created from ResourceClaimTemplate "
                f"{template} yet",
                "The resource claim controller of kube-controller-manager creates it; if it does "
                "not, look at its log.",
            )
        known = [one.metadata.name for one in objects.list(ResourceClaimTemplate, namespace)]
        return _missing(
            f"ResourceClaimTemplate {template} of its device claim {each.name} does not exist in "
            f"namespace {namespace}{_did_you_mean(template, known)}",
            f"Create ResourceClaimTemplate {namespace}/{template}, or name one that exists in "
            "spec.resourceClaims.",
        )
    for name, claim in _claims_of(objects, pod):
        if claim is None:
            known = [each.metadata.name for each in objects.list(ResourceClaim, namespace)]
            return _missing(
                f"ResourceClaim {name} does not exist in namespace {namespace}"
                f"{_did_you_mean(name, known)}",
                f"Create ResourceClaim {namespace}/{name}, or name one that exists in "
                "spec.resourceClaims.",
            )
    return None


def _missing(text: str, advice: str) -> Detail:
    return Detail(detail=text, sentence=text, brief="device claim missing", advice=advice)


def _did_you_mean(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f"; did you mean {near}?" if near else ""


def _sentence(asked: str, counted: Sequence[_Counted], rejected: RejectedNodes) -> str:
    """Describe the devices that a request lacks, or that no node has them together."""
    start = f"its claim asks for {asked}, and "
    short = [each for each in counted if each.is_short]
    if not short:
        free, where = counted[0].tally.most_free if len(counted) == 1 else (0, "")
        if where and where not in {each.name for each in rejected.view}:
            # Another plugin rejects the node with the devices.
            return f"{start}only nodes such as {where} ({free} free) have that"
        needs_several = len(counted) > 1 or counted[0].request.count > 1 if counted else False
        together = " together" if needs_several else ""
        details = f"{_capacities(counted)}{_constraints(counted)}"
        return f"{start}no node has that free{together}{details}"
    several = len(counted) > 1
    parts = [
        (f"for request {each.request.own_name} " if several else "") + _shortage(each)
        for each in short
    ]
    return start + "; ".join(dict.fromkeys(parts))


def _capacities(counted: Sequence[_Counted]) -> str:
    """Name the capacities that a device must have, which the count of free devices ignores."""
    wanted = dict.fromkeys(
        f"{name} {amount}" for each in counted for name, amount in each.request.capacity.items()
    )
    return f" (each device with {listed(wanted)})" if wanted else ""


def _constraints(counted: Sequence[_Counted]) -> str:
    attributes = dict.fromkeys(
        constraint.match_attribute or constraint.distinct_attribute or ""
        for each in counted
        for constraint in each.claim.spec.devices.constraints
    )
    shown = listed(filter(None, attributes))
    return f" (its constraints compare {shown})" if shown else ""


def _shortage(counted: _Counted) -> str:
    """Describe why no node has enough devices for one request."""
    tally, request = counted.tally, counted.request
    device_class = "" if request.device_class is None else request.device_class.metadata.name
    if not tally.published:
        if tally.incomplete:
            return f"pool {listed(sorted(tally.incomplete))} is incomplete: slices are missing"
        return "no node offers any device"
    if not tally.matching and tally.problem:
        return f"a selector fails: {tally.problem}"
    if not tally.of_class:
        drivers = listed(f"{name} ({n})" for name, n in tally.drivers.most_common())
        return (
            f"none of the {plural(tally.published, 'device')} is of class {device_class} "
            f"(devices by driver: {drivers})"
        )
    if not tally.matching:
        return _all_excluded(counted, device_class)
    if tally.closed:
        closed = listed(
            f"{plural(count, 'free device')} with taint {taint}"
            for taint, count in tally.closed.most_common()
        )
        return f"devices are closed to it: {closed}"
    free, where = tally.most_free
    there = f"{plural(tally.matching, 'device')}, {tally.in_use} in use"
    excluded = "".join(
        f"; selector {_shown(selector)} excludes {count} more"
        for selector, count in tally.excluded.most_common(1)
    )
    most = f"; most free: {free} on {where}" if where else ""
    what = "all of them" if request.mode == ALL else "that"
    return f"no node has {what} free ({there}{most}{excluded})"


def _all_excluded(counted: _Counted, device_class: str) -> str:
    """Name the selectors that exclude all devices of the class, and the values of the devices."""
    tally, request = counted.tally, counted.request
    every = "the only device" if tally.of_class == 1 else f"all {tally.of_class} devices"
    total = f"{every} of class {device_class}"
    if len(request.selectors) == 1:
        (selector,) = request.selectors
        return f"selector {_shown(selector)} excludes {total}{_values(selector, tally)}"
    parts = [
        f"{_shown(selector)} excludes {tally.excluded[selector]}{_values(selector, tally)}"
        for selector in request.selectors
        if tally.excluded[selector]
    ]
    return f"its selectors exclude {total}: {', '.join(parts)}"


def _values(selector: str, tally: DeviceTally) -> str:
    """Return the values that devices of the class have of the attributes in a selector."""
    parts = []
    for use in attribute_uses(selector):
        values: Counter[str] = Counter()
        for content, count in tally.of_the_class.items():
            values[use.value(content) or "not set"] += count
        shown = listed(f"{value} ({count})" for value, count in values.most_common())
        parts.append(f"{use.name} is {shown}")
    return f" (their {', '.join(parts)})" if parts else ""


def _shown(selector: str) -> str:
    text = " ".join(selector.split())
    cut = text if len(text) <= _LONGEST_SELECTOR else f"{text[:_LONGEST_SELECTOR]}…"
    return f"`{cut}`"


def _allocated_elsewhere(
    rejected: RejectedNodes, claims: list[tuple[str, ResourceClaim]], asked: str
) -> Detail:
    where = "any node that is left" if rejected.are_all else rejected.example.name
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
            sentence=f"{text}, which cannot be used from {where}",
            brief=f"cannot use the device of claim {name}",
            selects=f"can use the device of claim {name}",
        )
    return Detail(
        asked, sentence="its device claims cannot be used there", brief="claims elsewhere"
    )
