"""Claims as the allocator reads them: requests with their classes (docs/reference/08 §8.3).

What is wrong with a request is noted and not raised: it counts only once a node is asked about,
and after whatever is wrong with the requests before it.
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
    """One request for devices, or one of the alternatives of a prioritised list."""

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
    # What comes after the name of the claim in the error that the request ends in.
    problem: str = ""

    @property
    def full_name(self) -> str:
        """The name that results carry."""
        return f"{self.request}/{self.subrequest}" if self.subrequest else self.request

    @property
    def own_name(self) -> str:
        """The name that errors carry."""
        return self.subrequest or self.request


class RequestChoice(msgspec.Struct, frozen=True, gc=False):
    """A request: with one alternative as it is, or the first of several that can be had."""

    name: str
    alternatives: tuple[ResolvedDeviceRequest, ...]
    is_prioritized: bool = False
    problem: str = ""


class ClaimRequests(msgspec.Struct, frozen=True):
    """The requests of a claim, and what else of its spec the search and the result need."""

    spec: DeviceClaim
    choices: tuple[RequestChoice, ...]

    @classmethod
    def read(
        cls, spec: DeviceClaim, classes: Lister[DeviceClass], features: DeviceFeatures
    ) -> ClaimRequests:
        reader = _Reader(classes, features)
        return cls(spec, tuple(reader.choice(request) for request in spec.requests))

    def has_current_classes(self, classes: Lister[DeviceClass]) -> bool:
        """Whether the classes are still what they were when this was read."""
        return all(
            request.device_class is not None
            and classes.get(request.device_class.metadata.name) is request.device_class
            for choice in self.choices
            for request in choice.alternatives
        )

    @property
    def has_priorities(self) -> bool:
        return any(choice.is_prioritized for choice in self.choices)


class _Reader:
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
                self._read(request.name, each, each.name) for each in request.first_available
            )
            return RequestChoice(request.name, alternatives, True, problem)
        exactly = request.exactly or ExactDeviceRequest()
        return RequestChoice(request.name, (self._read(request.name, exactly, ""),))

    def _read(
        self, name: str, asked: ExactDeviceRequest | DeviceSubRequest, subrequest: str
    ) -> ResolvedDeviceRequest:
        admin_access = asked.admin_access if isinstance(asked, ExactDeviceRequest) else None
        device_class = None
        if asked.device_class_name:
            device_class = self._classes.get(asked.device_class_name)
        capacity: Mapping[str, Quantity] = {}
        problem = self._problem(asked, subrequest or name, subrequest, admin_access)
        if not problem and asked.capacity is not None:
            try:
                capacity = {n: quantity_from_json(q) for n, q in asked.capacity.requests.items()}
            except QuantityError as exc:
                problem = f", request {subrequest or name}: {exc}"
        if not problem and device_class is None:
            problem = (
                f", request {subrequest or name}: could not retrieve device class "
                f'{asked.device_class_name}: deviceclass.resource.k8s.io "'
                f'{asked.device_class_name}" not found'
            )
        if not problem and asked.allocation_mode not in (EXACT_COUNT, ALL):
            problem = (
                f", request {subrequest or name}: unsupported count mode {asked.allocation_mode}"
            )
        return ResolvedDeviceRequest(
            request=name,
            subrequest=subrequest,
            device_class=device_class,
            class_selectors=_expressions(device_class.spec.selectors) if device_class else (),
            selectors=_expressions(asked.selectors),
            mode=asked.allocation_mode,
            count=max(0, asked.count),
            admin_access=bool(admin_access),
            tolerations=asked.tolerations,
            capacity=capacity,
            problem=problem,
        )

    def _problem(
        self,
        asked: ExactDeviceRequest | DeviceSubRequest,
        own_name: str,
        subrequest: str,
        admin_access: bool | None,
    ) -> str:
        if asked.capacity is not None and not self._features.consumable_capacity:
            what = "subrequest" if subrequest else "request"
            return (
                f", {what} {own_name}: has capacity requests, but the DRAConsumableCapacity "
                "feature is disabled"
            )
        for place, selector in enumerate(asked.selectors):
            if selector.cel is None:
                return f", request {own_name}{_NO_CEL.format(place)}"
        if admin_access is not None and not self._features.admin_access:
            return f", request {own_name}: admin access is requested, but the feature is disabled"
        if not asked.device_class_name:
            return f", request {own_name}: missing device class name (unsupported request type?)"
        return ""


def _expressions(selectors: tuple[DeviceSelector, ...]) -> tuple[str, ...]:
    return tuple("" if each.cel is None else each.cel.expression for each in selectors)
