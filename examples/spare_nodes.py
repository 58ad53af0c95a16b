"""SpareNodes: nodes with a label are kept for the pods that ask for them."""

import msgspec

from kubesched.api import Pod
from kubesched.framework import SUCCESS, CycleState, NodeInfo, Plugin, Status

HELD = Status.unresolvable("node(s) were held as spare")


class SpareNodesArgs(msgspec.Struct, rename="camel"):
    label_key: str = "example.com/spare"


class SpareNodes(Plugin):
    name = "SpareNodes"
    args_type = SpareNodesArgs
    node_local = True  # a node's answer depends on that node and the pod alone

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        key = self.args.label_key
        return HELD if key in node.labels and key not in pod.metadata.labels else SUCCESS
