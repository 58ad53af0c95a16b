"""The requests of a claim, with their device classes resolved.

docs/reference/08 §8.3.

A problem of a request is stored, not raised. It takes effect only when the search evaluates the
claim on a node, and after the problems of the requests before it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubesched.api import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    DeviceSelector,
    DeviceSubRequest,
    DeviceToleration,
    ExactDeviceRequest,
)
from kubesched.api.quantity import Quantity, quantity_from_json
from kubesched.errors import QuantityError
from kubesched.framework import Lister
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures

__all__ = [
    "ALL",
    "EXACT_COUNT",
    "MAX_RESULTS",
    "ClaimRequests",
    "RequestChoice",
    "ResolvedDeviceRequest",
]

EXACT_COUNT = "ExactCount"
ALL = "All"
MAX_RESULTS = 32

_NO_CEL = ", selector #{}: CEL expression empty (unsupported selector type?)"


class ResolvedDeviceRequest(msgspec.Struct, frozen=True, gc=False):
    """A device request with its class, or one alternative of a prioritised list."""

    request: str
    subrequest: str = ""
    device_class: DeviceClass | None = None
    class_selectors: tuple[str, ...] = ()
    selectors: tuple[str, ...] = ()
    mode: str = EXACT_COUNT
    count: int = 0
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: Mapping[str, Quantity] = {}
    # The text that follows the claim's name in the error of this request.
    problem: str = ""

    @property
    def full_name(self) -> str:
        """The name for allocation results."""
        return f"{self.request}/{self.subrequest}" if self.subrequest else self.request

    @property
    def own_name(self) -> str:
        """The name for error texts."""
        return self.subrequest or self.request


class RequestChoice(msgspec.Struct, frozen=True, gc=False):
    """A request: its only alternative, or several in order of preference."""

    name: str
    alternatives: tuple[ResolvedDeviceRequest, ...]
    is_prioritized: bool = False
    problem: str = ""


class ClaimRequests(msgspec.Struct, frozen=True):
    """The requests of a claim, and the spec for constraints and configuration."""

    spec: DeviceClaim
    choices: tuple[RequestChoice, ...]

    @classmethod
    def read(
        cls, spec: DeviceClaim, classes: Lister[DeviceClass], features: DeviceFeatures
    ) -> ClaimRequests:
        resolver = _RequestResolver(classes, features)
        return cls(spec, tuple(resolver.choice(request) for request in spec.requests))

    def has_current_classes(self, classes: Lister[DeviceClass]) -> bool:
        """Whether the device classes are unchanged since the requests were resolved."""
        return all(
            request.device_class is not None
            and classes.get(request.device_class.metadata.name) is request.device_class
            for choice in self.choices
            for request in choice.alternatives
        )

    @property
    def has_priorities(self) -> bool:
        return any(choice.is_prioritized for choice in self.choices)


class _RequestResolver:
    def __init__(self, classes: Lister[DeviceClass], features: DeviceFeatures) -> None:
        self._classes, self._features = classes, features

    def choice(self, request: DeviceRequest) -> RequestChoice:
        if request.first_available:
            problem = ""
            if not self._features.prioritized_list:
                problem = (
                    f", request {request.name}: has subrequests, but the DRAPrioritizedList "
                    "feature is disabled"
                )
            alternatives = tuple(
                self._resolve(request.name, each, each.name) for each in request.first_available
            )
            return RequestChoice(request.name, alternatives, True, problem)
        exactly = request.exactly or ExactDeviceRequest()
        return RequestChoice(request.name, (self._resolve(request.name, exactly, ""),))

    def _resolve(
        self, name: str, source: ExactDeviceRequest | DeviceSubRequest, subrequest: str
    ) -> ResolvedDeviceRequest:
        admin_access = source.admin_access if isinstance(source, ExactDeviceRequest) else None
        device_class = None
        if source.device_class_name:
            device_class = self._classes.get(source.device_class_name)
        capacity: Mapping[str, Quantity] = {}
        problem = self._spec_problem(source, subrequest or name, subrequest, admin_access)
        if not problem and source.capacity is not None:
            try:
                capacity = {n: quantity_from_json(q) for n, q in source.capacity.requests.items()}
            except QuantityError as exc:
                problem = f", request {subrequest or name}: {exc}"
        if not problem:
            problem = _class_problem(source, subrequest or name, device_class)
        return ResolvedDeviceRequest(
            request=name,
            subrequest=subrequest,
            device_class=device_class,
            class_selectors=_expressions(device_class.spec.selectors) if device_class else (),
            selectors=_expressions(source.selectors),
            mode=source.allocation_mode,
            count=max(0, source.count),
            admin_access=bool(admin_access),
            tolerations=source.tolerations,
            capacity=capacity,
            problem=problem,
        )

    def _spec_problem(
        self,
        source: ExactDeviceRequest | DeviceSubRequest,
        own_name: str,
        subrequest: str,
        admin_access: bool | None,
    ) -> str:
        """Return the first problem of the request's own fields."""
        if source.capacity is not None and not self._features.consumable_capacity:
            what = "subrequest" if subrequest else "request"
            return (
                f", {what} {own_name}: has capacity requests, but the DRAConsumableCapacity "
                "feature is disabled"
            )
        for place, selector in enumerate(source.selectors):
            if selector.cel is None:
                return f", request {own_name}{_NO_CEL.format(place)}"
        if admin_access is not None and not self._features.admin_access:
            return f", request {own_name}: admin access is requested, but the feature is disabled"
        if not source.device_class_name:
            return f", request {own_name}: missing device class name (unsupported request type?)"
        return ""


def _class_problem(
    source: ExactDeviceRequest | DeviceSubRequest, own_name: str, device_class: DeviceClass | None
) -> str:
    """Return the problem of the request's class or, after that, of its mode."""
    if device_class is None:
        return (
            f", request {own_name}: could not retrieve device class "
            f'{source.device_class_name}: deviceclass.resource.k8s.io "'
            f'{source.device_class_name}" not found'
        )
    if source.allocation_mode not in (EXACT_COUNT, ALL):
        return f", request {own_name}: unsupported count mode {source.allocation_mode}"
    return ""


def _expressions(selectors: tuple[DeviceSelector, ...]) -> tuple[str, ...]:
    return tuple("" if each.cel is None else each.cel.expression for each in selectors)
