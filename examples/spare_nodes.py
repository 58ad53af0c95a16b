"""SpareNodes: nodes with a label are kept for the pods that ask for them."""

import msgspec

from kubesched.api import Pod
from kubesched.framework import (
    SUCCESS,
    CycleState,
    NodeInfo,
    Plugin,
    PodPart,
    PodsOnNode,
    Reads,
    Status,
)

SPARE = "example.com/spare"
HELD = Status.unresolvable("node(s) were held as spare")


class SpareNodesArgs(msgspec.Struct, rename="camel"):
    label_key: str = SPARE


class SpareNodes(Plugin):
    name = "SpareNodes"
    args_type = SpareNodesArgs
    # Of the pod its labels, of the cluster the node alone: answers are cached by that.
    reads = Reads(
        pod=PodPart.LABELS, pods_on_node=PodsOnNode.NOTHING, other_nodes=False, objects=()
    )

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        key = self.args.label_key
        return HELD if key in node.labels and key not in pod.metadata.labels else SUCCESS
