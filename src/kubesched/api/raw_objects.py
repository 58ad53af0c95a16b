"""Pods and nodes in the form of the server, including undeclared fields.

`ApiAccess` can list and watch these types instead of `Pod` and `Node`. The parts of an object stay
JSON; only the metadata that identifies it is decoded.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from kubesched.api import codec
from kubesched.api.base import ApiObject
from kubesched.api.kinds import Kind, kind_of
from kubesched.api.meta import ObjectMeta
from kubesched.api.node import Node
from kubesched.api.pod import Pod

__all__ = ["NodeDocument", "PodDocument", "RawObject", "node_wire_form", "pod_wire_form"]

_EMPTY = msgspec.Raw(b"{}")
_MANAGED_FIELDS = b'"managedFields"'


class RawObject(ApiObject):
    """An object with all of its JSON; subclasses set the kind."""

    custom_kind: ClassVar[Kind | None] = None
    keeps_managed_fields: ClassVar[bool] = True

    metadata_part: msgspec.Raw = msgspec.field(name="metadata", default=_EMPTY)
    spec_part: msgspec.Raw = msgspec.field(name="spec", default=_EMPTY)
    status_part: msgspec.Raw = msgspec.field(name="status", default=_EMPTY)

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata; empty if it cannot be decoded."""
        try:
            return codec.decode(bytes(self.metadata_part), ObjectMeta)
        except msgspec.MsgspecError:
            return ObjectMeta()

    @property
    def body(self) -> bytes:
        """The object as JSON, without its kind and version."""
        metadata = bytes(self.metadata_part)
        if not self.keeps_managed_fields and _MANAGED_FIELDS in metadata:
            fields: dict[str, Any] = msgspec.json.decode(metadata)
            fields.pop("managedFields", None)
            metadata = msgspec.json.encode(fields)
        parts = metadata, bytes(self.spec_part), bytes(self.status_part)
        return b'{"metadata":%b,"spec":%b,"status":%b}' % parts


class PodDocument(RawObject):
    """A pod without managed fields: the reference drops those of pods on arrival."""

    custom_kind: ClassVar[Kind | None] = kind_of(Pod)
    keeps_managed_fields: ClassVar[bool] = False


class NodeDocument(RawObject):
    """A node with all of its fields."""

    custom_kind: ClassVar[Kind | None] = kind_of(Node)


# -- fields that the reference always writes ------------------------------------------------

_NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
)


def node_wire_form(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node's JSON with the empty structures and null times of the reference."""
    status = node.get("status", {})
    info = status.get("nodeInfo")
    status = {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        **status,
        "nodeInfo": _NODE_INFO if info is None else {**_NODE_INFO, **info},
    }
    status = _conditions(status, "lastHeartbeatTime", "lastTransitionTime")
    return {"spec": {}, **node, "status": status}


def pod_wire_form(pod: dict[str, Any]) -> dict[str, Any]:
    """Return a pod's JSON with the null times of the reference."""
    status = _conditions(pod.get("status", {}), "lastProbeTime", "lastTransitionTime")
    return {**pod, "status": status}


def _conditions(status: dict[str, Any], *times: str) -> dict[str, Any]:
    conditions = status.get("conditions")
    if not conditions:
        return status
    empty = dict.fromkeys(times)
    return {**status, "conditions": [{**empty, **condition} for condition in conditions]}
