"""Types of `node.k8s.io/v1`: overhead and nodes of container runtimes."""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.affinity import Toleration
from kubesched.api.base import ApiObject, ApiStruct, ResourceList
from kubesched.api.meta import ObjectMeta

__all__ = ["RuntimeClass", "RuntimeClassOverhead", "RuntimeClassScheduling"]


class RuntimeClassOverhead(ApiStruct):
    pod_fixed: ResourceList = {}


class RuntimeClassScheduling(ApiStruct):
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(ApiObject):
    api_version: ClassVar[str] = "node.k8s.io/v1"
    kind: ClassVar[str] = "RuntimeClass"

    metadata: ObjectMeta = ObjectMeta()
    handler: str = ""
    overhead: RuntimeClassOverhead | None = None
    scheduling: RuntimeClassScheduling | None = None
