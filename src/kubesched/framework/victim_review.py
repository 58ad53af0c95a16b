"""What a PostFilter plugin shows to others before it has pods preempted, and what they answer.

Extenders may have a say in whom to preempt (docs/reference/04 §18.6). Asking them takes time, in
which the cluster changes, so what they answer has to be looked at again before anybody is evicted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from kubesched.api import Pod
from kubesched.framework.pod_info import PodInfo

__all__ = ["VictimReview", "Victims"]


class Victims(NamedTuple):
    """Whom to preempt on a node."""

    pods: tuple[PodInfo, ...]
    violations: int  # of those, how many break a disruption budget
    present: Mapping[str, PodInfo]  # everybody who was there when that was worked out, by uid


class VictimReview(Protocol):
    """Those who have a say in whom to preempt for the pod of an attempt."""

    async def review(self, preemptor: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """What is left of the proposal, by node name, or other victims instead.

        Raises:
            KubeschedError: someone who must be heard could not be asked.
        """
        ...

    def has_room(self) -> bool:
        """Whether the pod fits somewhere by now, without anybody having to go."""
        ...

    def fits_without(self, node_name: str, victims: Collection[PodInfo]) -> bool:
        """Whether the pod would fit the node, as it is by now, without these pods."""
        ...
