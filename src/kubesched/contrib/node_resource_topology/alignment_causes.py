"""Causes of rejections by NodeResourceTopologyMatch."""

from __future__ import annotations

from kubesched.framework import Cause

__all__ = ["BeingBound", "NotAligned", "TopologyMissing"]


class NotAligned(Cause, frozen=True):
    """No NUMA node of the node has all resources that the pod or a container requests."""


class TopologyMissing(Cause, frozen=True):
    """The node has no NodeResourceTopology, and missingTopologyDataPolicy is Deny."""


class BeingBound(Cause, frozen=True):
    """A pod is being bound to the node, and discardReservedNodes is on."""
