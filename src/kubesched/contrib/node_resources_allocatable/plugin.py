"""NodeResourcesAllocatable: prefer small nodes, or large ones."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import CPU, MEMORY, Pod
from kubesched.framework import CycleState, Handle, NodeInfo, NodeView, Plugin, PodPart, PodsOnNode
from kubesched.framework import Reads as PluginReads

__all__ = ["NodeResourcesAllocatable", "NodeResourcesAllocatableArgs"]

_MEBI: Final = 1 << 20


class AllocatableWeight(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resource and the weight of one of its units."""

    name: str
    weight: int = 1

    def __post_init__(self) -> None:
        if self.weight <= 0:
            raise ValueError(f"the weight of {self.name} must be positive")


class NodeResourcesAllocatableArgs(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments of NodeResourcesAllocatable."""

    # By default a thousandth of a CPU weighs as much as a MiB of memory.
    resources: tuple[AllocatableWeight, ...] = ()
    mode: str = "Least"  # Least prefers nodes with few resources, Most those with many

    def __post_init__(self) -> None:
        if self.mode not in ("Least", "Most"):
            raise ValueError(f"mode must be Least or Most, not {self.mode!r}")


class NodeResourcesAllocatable(Plugin):
    """Score nodes by the weighted sum of their allocatable resources, used or not."""

    name = "NodeResourcesAllocatable"
    args_type = NodeResourcesAllocatableArgs
    reads = PluginReads(
        pod=PodPart.NOTHING, pods_on_node=PodsOnNode.NOTHING, other_nodes=False, objects=()
    )

    def __init__(
        self, args: NodeResourcesAllocatableArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args or NodeResourcesAllocatableArgs(), handle)
        given: NodeResourcesAllocatableArgs = self.args
        weights = {each.name: each.weight for each in given.resources}
        self._weights = weights or {CPU: _MEBI, MEMORY: 1}
        self._sign = 1 if given.mode == "Most" else -1

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        amounts = ((node.allocatable.amount(name), by) for name, by in self._weights.items())
        total = sum(amount * weight for amount, weight in amounts)
        return self._sign * (total // sum(self._weights.values()))

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        total = np.zeros(len(nodes), dtype=np.int64)
        for name, weight in self._weights.items():
            total += nodes.allocatable(name) * weight
        return self._sign * (total // sum(self._weights.values()))

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        lowest, highest = int(scores.min()), int(scores.max())
        if highest == lowest:
            return np.zeros_like(scores)
        return (scores - lowest) * 100 // (highest - lowest)
