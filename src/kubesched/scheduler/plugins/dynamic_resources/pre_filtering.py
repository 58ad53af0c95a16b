"""The state of a pod's claims at the start of an attempt.

docs/reference/08 §5.3, §7.1.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Set

from kubesched.api import (
    DeviceRequest,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodGroup,
    ResourceClaim,
)
from kubesched.api.node_selector import NodeMatcher
from kubesched.errors import SelectorError
from kubesched.framework import Handle, PodInfo, Status
from kubesched.framework.causes import DeviceClaimUnusable, DeviceClassMissing
from kubesched.framework.pod_groups import GroupCycle
from kubesched.scheduler.plugins.dynamic_resources import binding_conditions
from kubesched.scheduler.plugins.dynamic_resources.device_state import EXTENDED_CLAIM, DeviceState
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import IN_MEMORY_NAME, PodDevices
from kubesched.scheduler.plugins.dynamic_resources.used_claims import (
    UnresolvedClaimError,
    resolve_claims,
)
from kubesched.scheduler.plugins.helpers.device_classes import (
    DeviceClassResolver,
    is_served_by_devices,
)

__all__ = ["ClaimReader"]


class ClaimReader:
    """Creates the `PodDevices` of an attempt from the pod and its claims."""

    def __init__(
        self,
        handle: Handle,
        devices: DeviceState,
        classes: DeviceClassResolver,
        binding_timeout_ns: int,
    ) -> None:
        self._handle = handle
        self._devices = devices
        self._classes = classes
        self._binding_timeout_ns = binding_timeout_ns

    def read(
        self, pod_info: PodInfo, cycle: GroupCycle | None = None
    ) -> PodDevices | Status | None:
        """Return the state of the claims, their problem, or None without claims.

        Within the cycle of a pod group, the pod may share claims that are in flight for members.
        """
        pod = pod_info.pod
        claims: list[ResourceClaim] = []
        groups: dict[int, PodGroup] = {}
        if pod.spec.resource_claims:
            try:
                for used in resolve_claims(pod, self._devices.claims, self._devices.groups):
                    if used.group is not None:
                        groups[len(claims)] = used.group
                    claims.append(used.claim)
            except UnresolvedClaimError as exc:
                return Status.unresolvable(str(exc), causes=(DeviceClaimUnusable(),))
        scalar = pod_info.requested.scalar
        data = self._with_extended(pod, claims, scalar) if scalar else None
        if data is None:
            if not claims:
                return None
            data = PodDevices(claims=claims)
        data.in_group, data.groups = cycle is not None, groups
        problem = self._classify(data, frozenset() if cycle is None else cycle.claims)
        return data if problem is None else problem

    def _with_extended(
        self, pod: Pod, claims: list[ResourceClaim], scalar: Mapping[str, int]
    ) -> PodDevices | None:
        """Return the state with a claim for extended resources.

        The result is None if no class serves one.
        """
        names = [name for name, amount in scalar.items() if amount and is_served_by_devices(name)]
        served, not_served = [], []
        for name in sorted(names):
            device_class = self._classes.class_for(name)
            if device_class is None:
                not_served.append(name)
            else:
                served.append((name, device_class.metadata.name))
        if not served:
            return None
        special = self._devices.special_claim_of(pod) or self._in_memory(pod)
        return PodDevices(
            claims=[*claims, special],
            special=len(claims),
            served=served,
            not_served=not_served,
        )

    def _in_memory(self, pod: Pod) -> ResourceClaim:
        """Return a claim that is not created yet; its requests depend on the node."""
        owner = OwnerReference(
            api_version="v1",
            kind="Pod",
            name=pod.metadata.name,
            uid=pod.metadata.uid,
            controller=True,
        )
        return ResourceClaim(
            metadata=ObjectMeta(
                name=IN_MEMORY_NAME,
                namespace=pod.metadata.namespace,
                uid=str(uuid.UUID(int=self._handle.random.getrandbits(128), version=4)),
                generate_name=f"{pod.metadata.name}-extended-resources-",
                owner_references=(owner,),
                annotations={EXTENDED_CLAIM: "true"},
            )
        )

    def _classify(self, data: PodDevices, sharable: Set[str]) -> Status | None:
        """Sort the claims by allocation state; return the problem of an unusable claim."""
        selectors, pending, shared, unusable = {}, [], [], set()
        now_ns = self._handle.clock.now_ns()
        for place, claim in enumerate(data.claims):
            allocation = claim.status.allocation
            if allocation is None and claim.metadata.uid in sharable:
                in_flight = self._devices.in_flight.get(claim.metadata.uid)
                if in_flight is not None:
                    allocation = in_flight.status.allocation
                    shared.append(place)
            if allocation is None:
                problem = self._problem_of(claim, is_special=place == data.special)
                if problem is not None:
                    return problem
                pending.append(place)
                continue
            if allocation.node_selector is not None:
                try:
                    selectors[place] = NodeMatcher.parse_strictly(allocation.node_selector)
                except SelectorError as exc:
                    return Status.failure(exc)
            if self._devices.features.binding_conditions and binding_conditions.is_unusable(
                claim, self._binding_timeout_ns, now_ns
            ):
                unusable.add(place)
        data.selectors, data.pending, data.unusable = selectors, pending, frozenset(unusable)
        data.shared = shared
        return None

    def _problem_of(self, claim: ResourceClaim, *, is_special: bool) -> Status | None:
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        if claim.metadata.uid in self._devices.in_flight:
            return Status.unresolvable(
                f"resource claim {name} is in the process of being allocated",
                causes=(DeviceClaimUnusable(),),
            )
        if is_special:
            return None
        for request in claim.spec.devices.requests:
            problem = self._problem_with(request, name)
            if problem is not None:
                return problem
        return None

    def _problem_with(self, request: DeviceRequest, claim_name: str) -> Status | None:
        if request.exactly is not None:
            return self._problem_with_class(request.exactly.device_class_name, request.name)
        if not request.first_available:
            return Status.unresolvable(
                f"resource claim {claim_name}, request {request.name}: unknown request type",
                causes=(DeviceClaimUnusable(),),
            )
        if not self._devices.features.prioritized_list:
            return Status.unresolvable(
                f"resource claim {claim_name}, request {request.name}: has subrequests, but the "
                "DRAPrioritizedList feature is disabled",
                causes=(DeviceClaimUnusable(),),
            )
        for each in request.first_available:
            name = f"{request.name}/{each.name}"
            problem = self._problem_with_class(each.device_class_name, name)
            if problem is not None:
                return problem
        return None

    def _problem_with_class(self, class_name: str, request_name: str) -> Status | None:
        if not class_name:
            return Status.failure(f"request {request_name}: unsupported request type")
        if self._devices.classes.get(class_name) is None:
            return Status.unresolvable(
                f"request {request_name}: device class {class_name} does not exist",
                causes=(DeviceClassMissing(class_name),),
            )
        return None
