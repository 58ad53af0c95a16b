"""What the six policies have in common: devices are shared, reserved, and written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.gpu_fragmentation.devices import (
    GPU_INDEX,
    GPU_MODEL,
    Ledger,
    Request,
    States,
    request_of,
)
from kubesched.api import Pod
from kubesched.api.pod_requests import node_amounts
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    NodeView,
    Plugin,
    PodPart,
    PodsOnNode,
    Reads,
    Rejections,
    Status,
)

__all__ = ["GpuPolicy", "cpu_of"]

OTHER_MODEL = Status.unresolvable("node(s) had no GPU of an allowed model")
TOO_LITTLE = Status.unschedulable("node(s) had too little GPU left on their devices")


class GpuPolicy(Plugin):
    """Filters by the free part of devices and reserves some; a policy adds the scores.

    Scores are computed for the node before the pod is placed there.
    """

    # The allocated devices are in the annotations of the pods on the node.
    reads = Reads(
        pod=PodPart.CONTAINERS | PodPart.ANNOTATIONS,
        pods_on_node=PodsOnNode.DETAIL,
        other_nodes=False,
        objects=(),
    )

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self.ledger = Ledger()

    # -- methods of a policy ---------------------------------------------------------------

    def score_states(self, request: Request, cpu: int, states: States) -> NDArray[np.int64]:
        """Return 0 to 100 for each node, for a pod with this request of `cpu` and GPU."""
        raise NotImplementedError

    def choose_device(self, request: Request, cpu: int, state: States) -> int:
        """Return the device of a node for a pod that shares one: that with the least left."""
        left = state.left[0]
        fitting = np.flatnonzero(left >= request.milli)
        return int(fitting[left[fitting].argmin()])

    # -- finding nodes -----------------------------------------------------------------

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        more = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL
        return [
            ClusterEventWithHint(ClusterEvent(EventResource.POD, ActionType.DELETE)),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, more)),
        ]

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        request = request_of(pod)
        if not request.count:
            return SUCCESS
        if request.models and node.labels.get(GPU_MODEL, "") not in request.models:
            return OTHER_MODEL
        left = self.ledger.state_of(node).left[0]
        fitting = sum(amount >= request.milli for amount in left.tolist())
        return SUCCESS if fitting >= request.count else TOO_LITTLE

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        request = request_of(pod)
        if not request.count:
            return Rejections.none()
        left = self.ledger.states(nodes).left
        codes = np.zeros(len(nodes), dtype=np.uint8)
        codes[(left >= request.milli).sum(axis=1) < request.count] = 2
        if request.models:
            allowed = np.zeros(len(nodes), dtype=bool)
            for model in request.models:
                allowed |= nodes.label_equals(GPU_MODEL, model)
            codes[~allowed] = 1
        return Rejections(codes, (OTHER_MODEL, TOO_LITTLE))

    # -- choosing among them -----------------------------------------------------------

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        scores = self.score_states(request_of(pod), cpu_of(pod), self.ledger.state_of(node))
        return int(scores[0])

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return self.score_states(request_of(pod), cpu_of(pod), self.ledger.states(nodes))

    # -- placing the pod ---------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        request = request_of(pod)
        if not request.count:
            return SUCCESS
        node = self.handle.snapshot.get(node_name)
        if node is None:
            return Status.unschedulable("the node is gone")
        before = self.ledger.state_of(node, without=pod)
        if request.is_share:
            devices = [self.choose_device(request, cpu_of(pod), before)]
        else:
            devices = np.flatnonzero(before.left[0] >= request.milli)[: request.count].tolist()
        self.ledger.reserve(pod, devices)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.ledger.release(pod)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS if request_of(pod).count else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Annotate the pod with its devices, for the device plugin that starts it."""
        index = "-".join(map(str, self.ledger.reserved(pod)))
        patch = {"metadata": {"annotations": {GPU_INDEX: index}}}
        await self.handle.api.patch(Pod, pod.metadata.name, pod.metadata.namespace, patch)
        return SUCCESS


def cpu_of(pod: Pod) -> int:
    """Return the CPU request of the pod, in thousandths of a core."""
    return node_amounts(pod)[0].milli_cpu
