"""A cluster in short notation: nodes n1 and n2, volumes `a@n1:5Gi`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kubesched.api import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.base import ApiObject
from kubesched.framework import CycleState, PodInfo, Status
from kubesched.framework.causes import (
    Cause,
    ClaimUnusable,
    StorageExhausted,
    VolumeUnavailable,
    VolumeUnreachable,
)
from kubesched.scheduler.config.args import VolumeBindingArgs
from kubesched.scheduler.plugins.volume_binding import VolumeBinding
from kubesched.testing import (
    FakeHandle,
    make_node,
    make_node_selector,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    run_filter,
)

__all__ = ["AFF", "BIND", "NOPV", "SPACE", "VolumeHarness", "claim", "unresolvable", "volume"]

AFF = "node(s) didn't match PersistentVolume's node affinity"
BIND = "node(s) didn't find available persistent volumes to bind"
SPACE = "node(s) did not have enough free storage"
NOPV = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NO_PROVISIONER = "kubernetes.io/no-provisioner"


_CAUSES: dict[str, Cause] = {
    AFF: VolumeUnreachable(),
    BIND: VolumeUnavailable(),
    SPACE: StorageExhausted(),
}


def unresolvable(*reasons: str) -> Status:
    """Return the status with these reasons and their causes.

    Other reasons are of claims.
    """
    causes = tuple(_CAUSES.get(reason, ClaimUnusable()) for reason in reasons)
    return Status.unresolvable(*reasons, causes=causes)


def volume(text: str, **changes: Any) -> PersistentVolume:
    """Create a volume from `name@node:size`; without a node, every node can reach it."""
    place, _, size = text.partition(":")
    name, _, node = place.partition("@")
    selector = make_node_selector(("k", "In", node)) if node else None
    changes = {"storage_class": "np"} | changes
    return make_pv(name, size=size or "5Gi", node_selector=selector, **changes)


def claim(name: str, size: str = "1Gi", **changes: Any) -> PersistentVolumeClaim:
    return make_pvc(name, size=size, **({"storage_class": "np"} | changes))


class VolumeHarness:
    """Two nodes, and classes without (`np`) and with (`dp`) a provisioner."""

    def __init__(self, *objects: ApiObject, gates: dict[str, bool] | None = None, **args: Any):
        nodes = [make_node(name, labels={"k": name}) for name in ("n1", "n2")]
        classes = [make_storage_class("np", provisioner=NO_PROVISIONER), make_storage_class("dp")]
        given = {(type(each), each.metadata.name) for each in objects}
        fixed = [each for each in classes if (type(each), each.metadata.name) not in given]
        self.handle = FakeHandle([*nodes, *fixed, *objects], feature_gates=gates)
        self.plugin = VolumeBinding(VolumeBindingArgs(**args), self.handle)

    def pod(self, *claims: str, **changes: Any) -> Pod:
        return make_pod("p", pvcs=claims, **changes)

    def pre_filter(self, pod: Pod) -> Status:
        answer = self.plugin.pre_filter(CycleState(), PodInfo(pod), self.handle.snapshot.nodes)
        assert isinstance(answer, Status)
        return answer

    def filter(self, *claims: str) -> list[Status]:
        """Return the verdicts on both nodes; both forms must agree."""
        return run_filter(self.plugin, self.pod(*claims), self.handle.snapshot.nodes)

    def reserve(self, pod: Pod, node: str = "n1") -> tuple[CycleState, Status]:
        state = CycleState()
        self.plugin.pre_filter(state, PodInfo(pod), self.handle.snapshot.nodes)
        placed = replace(pod, spec=replace(pod.spec, node_name=node))
        return state, self.plugin.reserve(state, placed, node)
