"""What one attempt to place a pod knows of its claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api import (
    AllocationResult,
    ContainerExtendedResourceRequest,
    NodeAllocatableResourceClaimStatus,
    PodGroup,
    ResourceClaim,
)
from kubesched.api.node_selector import NodeMatcher

__all__ = ["IN_MEMORY_NAME", "PodDevices", "is_in_memory"]

# The name of a claim for extended resources that was not created yet.
IN_MEMORY_NAME = "<extended-resources>"


def is_in_memory(claim: ResourceClaim) -> bool:
    return claim.metadata.name == IN_MEMORY_NAME


class PodDevices(msgspec.Struct, eq=False):
    """Written in PreFilter; shared by all copies of a cycle state, as in the reference."""

    # In order; the one for extended resources, if there is one, comes last.
    claims: list[ResourceClaim] = []
    # The place of that one.
    special: int | None = None
    # Of allocated claims that cannot be used everywhere, where they can.
    selectors: Mapping[int, NodeMatcher] = {}
    # Allocated claims whose devices failed or did not get ready, wherever the pod goes.
    unusable: frozenset[int] = frozenset()
    # Claims that need devices.
    pending: Sequence[int] = ()
    # Of claims that the pod's group has for all of its pods, the group.
    groups: Mapping[int, PodGroup] = {}
    # Claims that another member of the pod's group was given devices for in the same cycle.
    shared: Sequence[int] = ()
    # Whether the pod was tried with its group, other members of which may write to its claims.
    in_group: bool = False
    # Claims that this attempt has in flight, alone or with others.
    held: set[int] = msgspec.field(default_factory=set)
    # Extended resources the pod asks for that a class serves, each with the class's name.
    served: Sequence[tuple[str, str]] = ()
    # Other extended resources it asks for.
    not_served: Sequence[str] = ()
    # The claims that need devices, by what the node lacks of the served resources.
    variants: dict[int, Any] = {}
    # Allocated claims that kept some node from being used.
    unavailable: set[int] = msgspec.field(default_factory=set)
    # What Reserve decided, by place of the claim.
    allocations: dict[int, AllocationResult] = {}
    # The claim for extended resources as it is on the node, from Reserve on.
    special_on_node: ResourceClaim | None = None
    # Under which uid a claim is in flight that had none from the server then.
    in_flight_uids: dict[int, str] = {}
    # Which container gets what of the claim for extended resources, from Reserve on.
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()

    # What claims take of the node itself, once a node is chosen, and whether the pod was told.
    node_allocatable: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    is_node_allocatable_written: bool = False

    @property
    def has_user_claims(self) -> bool:
        return len(self.claims) > (self.special is not None)

    @property
    def has_priorities(self) -> bool:
        """Whether a claim lists alternatives, which nodes are then ranked by."""
        return any(
            request.first_available
            for claim in self.claims
            for request in claim.spec.devices.requests
        )
