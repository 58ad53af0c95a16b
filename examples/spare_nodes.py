"""SpareNodes: nodes with a label are reserved for pods with the same label."""

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.framework import (
    SUCCESS,
    Cause,
    CycleState,
    Detail,
    Explaining,
    NodeInfo,
    Plugin,
    PodPart,
    PodsOnNode,
    Reads,
    RejectedNodes,
    Remedy,
    RuleKind,
    Status,
)

SPARE = "example.com/spare"


class HeldAsSpare(Cause, frozen=True):
    """The node is a spare node, and the pod does not have the label."""


HELD = Status.unresolvable("node(s) were held as spare", causes=(HeldAsSpare(),))


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

    def explaining(self) -> Explaining:
        return SpareNodesExplaining(self.args.label_key)


class SpareNodesExplaining(Explaining):
    """The details that `kubesched explain` adds to the reason of the plugin's rejections."""

    kind = RuleKind.CLOSED  # the nodes accept no such pods, however empty they are

    def __init__(self, key: str) -> None:
        self._key = key

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        names = ", ".join(node.name for node in rejected.by_name[:3])
        return Detail(
            asked=f"a pod with the label {self._key}",
            detail=f"spare: {names}",
            sentence=f"{len(rejected.positions)} spare nodes accept only pods with the label "
            f"{self._key}",
            brief="spare",
        )

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        pod = rejected.pod
        labels = {**pod.metadata.labels, self._key: "true"}
        labelled = replace(pod, metadata=replace(pod.metadata, labels=labels))
        yield Remedy(f"add the label {self._key}=true to the pod", 1.0, labelled)
        for node in rejected.by_name[:3]:
            assert node.node is not None
            left = {key: value for key, value in node.labels.items() if key != self._key}
            metadata = replace(node.node.metadata, labels=left)
            yield Remedy(
                f"make {node.name} an ordinary node",
                1.1,
                pod,
                changes=(replace(node.node, metadata=metadata),),
                command=f"kubectl label node {node.name} {self._key}-",
                node=node.name,
            )
