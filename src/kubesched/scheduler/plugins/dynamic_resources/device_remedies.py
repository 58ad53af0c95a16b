"""Remedies for missing devices: other selectors, classes, numbers, tolerations, free devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from kubesched.api import DeviceClass, Pod, ResourceClaim
from kubesched.api.dynamic_resources import (
    CELDeviceSelector,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
)
from kubesched.framework.explaining import RejectedNodes, Remedy, Removal
from kubesched.scheduler.plugins.dynamic_resources.device_tally import DeviceTally
from kubesched.scheduler.plugins.dynamic_resources.selector_attributes import attribute_uses
from kubesched.scheduler.plugins.helpers.wording import nearest

__all__ = ["device_remedies"]

_MOST: Final = 4
_LONGEST_SELECTOR: Final = 100

# The tallies of devices by claim and request.
_Tallies = Mapping[tuple[str, str], DeviceTally]


def device_remedies(
    rejected: RejectedNodes, claims: Sequence[ResourceClaim], tallies: _Tallies
) -> Iterator[Remedy]:
    """Propose changes of the pod's claims, and devices of other claims that could be released."""
    objects, pod = rejected.objects, rejected.pod
    for claim in claims:
        yield from _other_class(rejected, claim)
        yield from _fewer(rejected, claim)
        yield from _tolerating(rejected, claim, tallies)
        yield from _other_selector(rejected, claim, tallies)
    names = {claim.metadata.name for claim in claims}
    holding = [
        each
        for each in objects.list(ResourceClaim)
        if each.status.allocation is not None
        and (each.metadata.name not in names or each.metadata.namespace != pod.metadata.namespace)
    ]
    for each in (*claims, *holding[:_MOST]):
        if each.status.allocation is not None:
            yield _release(rejected, each)


def _shown_claim(rejected: RejectedNodes, claim: ResourceClaim) -> str:
    """Name a claim, or the template that a claim of the pod was made from."""
    for each in rejected.pod.status.resource_claim_statuses:
        if each.resource_claim_name != claim.metadata.name:
            continue
        for own in rejected.pod.spec.resource_claims:
            if own.name == each.name and own.resource_claim_template_name:
                return f"ResourceClaimTemplate {own.resource_claim_template_name}"
    return f"claim {claim.metadata.name}"


def _release(rejected: RejectedNodes, claim: ResourceClaim) -> Remedy:
    """Propose to end the pods that use a claim, or to create an unused claim again."""
    namespace = claim.metadata.namespace
    users = [each.name for each in claim.status.reserved_for if each.resource == "pods"]
    present = [name for name in users if rejected.objects.get(Pod, name, namespace) is not None]
    gone = tuple(Removal(Pod, name, namespace) for name in present)
    status = replace(claim.status, allocation=None, reserved_for=())
    free = replace(claim, status=status)
    used = f" (by ending {', '.join(present)}, which uses it)" if len(present) == 1 else ""
    if len(present) > 1:
        used = f" (by ending {', '.join(present)}, which use it)"
    return Remedy(
        f"release claim {namespace}/{claim.metadata.name}{used}",
        2.0,
        rejected.pod,
        (free, *gone),
        edits=gone or (free,),
    )


def _other_class(rejected: RejectedNodes, claim: ResourceClaim) -> Iterator[Remedy]:
    known = sorted(each.metadata.name for each in rejected.objects.list(DeviceClass))
    for name, ask in _named_requests(claim):
        wanted = ask.device_class_name
        others = [each for each in known if each != wanted]
        near = nearest(wanted, others) if wanted not in known else ""
        ordered = [near, *(each for each in others if each != near)] if near else others
        for number, other in enumerate(ordered[:_MOST]):
            changed = _with_request(claim, name, device_class_name=other)
            yield Remedy(
                f"ask for class {other} instead of {wanted} in {_shown_claim(rejected, claim)}",
                1.0 + number / 100,
                rejected.pod,
                (changed,),
            )


def _fewer(rejected: RejectedNodes, claim: ResourceClaim) -> Iterator[Remedy]:
    """Propose the largest smaller number of devices with which the pod fits."""
    for name, ask in _named_requests(claim):
        asked = ask.count or 1
        if ask.allocation_mode == "All" or asked < 2:
            continue
        for count in range(asked - 1, 0, -1):
            changed = _with_request(claim, name, count=count)
            devices = "device" if count == 1 else "devices"
            remedy = Remedy(
                f"ask for {count} {devices} instead of {asked} in {_shown_claim(rejected, claim)}",
                (asked - count) / asked,
                rejected.pod,
                (changed,),
            )
            if rejected.fits_after(remedy):
                yield remedy
                break


def _tolerating(
    rejected: RejectedNodes, claim: ResourceClaim, tallies: _Tallies
) -> Iterator[Remedy]:
    """Propose to tolerate taints of devices; as for nodes, they may be there for a reason."""
    for name, ask in _named_requests(claim):
        tally = tallies.get((claim.metadata.name, name))
        if tally is None:
            continue
        for shown, _ in tally.closed.most_common(_MOST):
            key, _, effect = shown.rpartition(":")
            key, _, value = key.partition("=")
            toleration = DeviceToleration(
                key=key, operator="Equal" if value else "Exists", value=value, effect=effect
            )
            tolerations = (*ask.tolerations, toleration)
            yield Remedy(
                f"tolerate device taint {shown} in {_shown_claim(rejected, claim)}",
                1.5,
                rejected.pod,
                (_with_request(claim, name, tolerations=tolerations),),
            )


def _other_selector(
    rejected: RejectedNodes, claim: ResourceClaim, tallies: _Tallies
) -> Iterator[Remedy]:
    """Propose the values that devices have, or to drop a selector that excludes devices."""
    for name, ask in _named_requests(claim):
        tally = tallies.get((claim.metadata.name, name))
        if tally is None:
            continue
        given = ask.selectors
        for place, each in enumerate(given):
            expression = "" if each.cel is None else each.cel.expression
            if not tally.excluded[expression]:
                continue
            for number, (text, corrected) in enumerate(_corrected(expression, tally)):
                selector = DeviceSelector(cel=CELDeviceSelector(expression=corrected))
                selectors = (*given[:place], selector, *given[place + 1 :])
                yield Remedy(
                    f"{text} in a selector of {_shown_claim(rejected, claim)}",
                    0.9 + number / 100,
                    rejected.pod,
                    (_with_request(claim, name, selectors=selectors),),
                )
            shown = " ".join(expression.split())
            if len(shown) > _LONGEST_SELECTOR:
                shown = f"{shown[:_LONGEST_SELECTOR]}…"
            yield Remedy(
                f"drop selector `{shown}` of {_shown_claim(rejected, claim)}",
                1.0,
                rejected.pod,
                (_with_request(claim, name, selectors=(*given[:place], *given[place + 1 :])),),
            )


def _corrected(expression: str, tally: DeviceTally) -> Iterator[tuple[str, str]]:
    """Yield texts and expressions with a value that devices of the class have."""
    for use in attribute_uses(expression):
        values: Counter[str] = Counter()
        for content, count in tally.of_the_class.items():
            if value := use.value(content):
                values[value] += count
        near = nearest(use.text, list(values)) if use.text else ""
        ordered = sorted(values, key=lambda each: (each != near, -values[each], each))
        for value in ordered[:_MOST]:
            if value != use.text and (changed := use.corrected(expression, value)):
                yield f'ask for {use.name} "{value}" instead of "{use.text}"', changed


def _named_requests(
    claim: ResourceClaim,
) -> Iterator[tuple[str, ExactDeviceRequest | DeviceSubRequest]]:
    """Yield each request and alternative, with its name as in `allocation`: `gpu/best`."""
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            yield request.name, request.exactly
        for each in request.first_available:
            yield f"{request.name}/{each.name}", each


def _with_request(claim: ResourceClaim, name: str, **changes: object) -> ResourceClaim:
    devices = claim.spec.devices
    own, _, alternative = name.partition("/")
    requests = tuple(
        _changed(each, alternative, **changes) if each.name == own else each
        for each in devices.requests
    )
    return replace(claim, spec=replace(claim.spec, devices=replace(devices, requests=requests)))


def _changed(request: DeviceRequest, alternative: str, **changes: object) -> DeviceRequest:
    if not alternative and request.exactly is not None:
        return replace(request, exactly=replace(request.exactly, **changes))
    subrequests = tuple(
        replace(each, **changes) if each.name == alternative else each
        for each in request.first_available
    )
    return replace(request, first_available=subrequests)
