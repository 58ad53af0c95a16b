"""The state of a pod's claims within one scheduling attempt."""

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

# The name of a claim for extended resources that is not created yet.
IN_MEMORY_NAME = "<extended-resources>"


def is_in_memory(claim: ResourceClaim) -> bool:
    return claim.metadata.name == IN_MEMORY_NAME


class PodDevices(msgspec.Struct, eq=False):
    """The claims of a pod in one attempt.

    All clones of a cycle state share it, as upstream.
    """

    # In order; the claim for extended resources, if there is one, comes last.
    claims: list[ResourceClaim] = []
    # The place of the claim for extended resources.
    special: int | None = None
    # Place of an allocated claim -> the nodes that can use it; no entry: all nodes.
    selectors: Mapping[int, NodeMatcher] = {}
    # Allocated claims whose devices failed or did not become ready; unusable on every node.
    unusable: frozenset[int] = frozenset()
    # Claims that need devices.
    pending: Sequence[int] = ()
    # Place of a claim that belongs to the pod's group -> the group.
    groups: Mapping[int, PodGroup] = {}
    # Claims that another member of the group was given devices for in the same cycle.
    shared: Sequence[int] = ()
    # Whether the pod is scheduled with its group, whose other members may write to its claims.
    in_group: bool = False
    # Claims that are in flight for this attempt, alone or shared with others.
    held: set[int] = msgspec.field(default_factory=set)
    # Requested extended resources that a class serves, with the name of the class.
    served: Sequence[tuple[str, str]] = ()
    # Requested extended resources that no class serves.
    not_served: Sequence[str] = ()
    # Bits of the served resources that a node lacks -> the claims that need devices there.
    variants: dict[int, Any] = {}
    # Allocated claims that some node was rejected for.
    unavailable: set[int] = msgspec.field(default_factory=set)
    # Place of the claim -> the allocation that Reserve chose.
    allocations: dict[int, AllocationResult] = {}
    # The claim for extended resources with its requests on the node; set by Reserve.
    special_on_node: ResourceClaim | None = None
    # Place -> uid in flight, of claims that had no uid from the server at that time.
    in_flight_uids: dict[int, str] = {}
    # Which container uses which request of the claim for extended resources; set by Reserve.
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()

    # The node resources that claims take, after a node is chosen, and whether they are written.
    node_allocatable: tuple[NodeAllocatableResourceClaimStatus, ...] = ()
    is_node_allocatable_written: bool = False

    @property
    def has_user_claims(self) -> bool:
        return len(self.claims) > (self.special is not None)

    @property
    def has_priorities(self) -> bool:
        """Whether a claim has prioritised alternatives, by which nodes are scored."""
        return any(
            request.first_available
            for claim in self.claims
            for request in claim.spec.devices.requests
        )
