"""Explains rejections of cordoned nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesched.framework import Cause
from kubesched.framework.explaining import (
    Detail,
    Explaining,
    RejectedNodes,
    Remedy,
    RuleKind,
)
from kubesched.scheduler.plugins.helpers.taint_rules import uncordon_remedy
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
)

__all__ = ["NodeUnschedulableExplaining"]

_MOST_UNCORDONED: Final = 6


class NodeUnschedulableExplaining(Explaining):
    """Names the cordoned nodes, and proposes to uncordon them."""

    kind = RuleKind.CLOSED

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        shown = listed(node.name for node in rejected.by_name)
        verb = "is" if len(rejected.positions) == 1 else "are"
        return Detail(
            detail=f"cordoned: {shown}",
            sentence=f"{shown} {verb} cordoned (unschedulable)",
            brief="cordoned",
        )

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        for node in rejected.by_name[:_MOST_UNCORDONED]:
            assert node.node is not None
            yield uncordon_remedy(rejected.pod, node.node)
