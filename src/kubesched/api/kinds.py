"""The kinds of objects, with their names in URLs, manifests and messages.

One entry per top-level type, in a suitable order for creating a cluster: an object comes after
those that it refers to.
"""

from __future__ import annotations

from typing import Final

import msgspec

from kubesched.api.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from kubesched.api.authentication import TokenReview
from kubesched.api.authorization import SubjectAccessReview
from kubesched.api.base import ApiObject
from kubesched.api.batch import CronJob, Job
from kubesched.api.coordination import Lease
from kubesched.api.core import (
    Binding,
    ConfigMap,
    Event,
    LimitRange,
    Namespace,
    ReplicationController,
    ResourceQuota,
    Secret,
    Service,
    ServiceAccount,
)
from kubesched.api.discovery import EndpointSlice
from kubesched.api.dynamic_resources import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kubesched.api.events import Event as EventsEvent
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.api.policy import PodDisruptionBudget
from kubesched.api.runtime_class import RuntimeClass
from kubesched.api.scheduling import PodGroup, PriorityClass, Workload
from kubesched.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    StorageClass,
    VolumeAttachment,
)
from kubesched.api.volume import PersistentVolume, PersistentVolumeClaim

__all__ = ["KINDS", "REVIEWS", "Kind", "by_api_version_kind", "by_plural", "kind_of"]


class Kind(msgspec.Struct, frozen=True):
    """A kind of object: its type and its names."""

    type: type[ApiObject]
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return self.type.api_version

    @property
    def kind(self) -> str:
        return self.type.kind

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def version(self) -> str:
        return self.api_version.rpartition("/")[2]

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def group_resource(self) -> str:
        """The plural with its group, as in error messages: `replicasets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


KINDS: Final[tuple[Kind, ...]] = (
    Kind(Namespace, "namespaces", False, ("ns",)),
    Kind(PriorityClass, "priorityclasses", False, ("pc",)),
    Kind(StorageClass, "storageclasses", False, ("sc",)),
    Kind(RuntimeClass, "runtimeclasses", False),
    Kind(CSIDriver, "csidrivers", False),
    Kind(DeviceClass, "deviceclasses", False),
    Kind(Node, "nodes", False, ("no",)),
    Kind(CSINode, "csinodes", False),
    Kind(CSIStorageCapacity, "csistoragecapacities", True),
    Kind(ResourceSlice, "resourceslices", False),
    Kind(DeviceTaintRule, "devicetaintrules", False),
    Kind(PersistentVolume, "persistentvolumes", False, ("pv",)),
    Kind(PersistentVolumeClaim, "persistentvolumeclaims", True, ("pvc",)),
    Kind(VolumeAttachment, "volumeattachments", False),
    Kind(ResourceClaimTemplate, "resourceclaimtemplates", True),
    Kind(ResourceClaim, "resourceclaims", True),
    Kind(ResourceQuota, "resourcequotas", True, ("quota",)),
    Kind(LimitRange, "limitranges", True, ("limits",)),
    Kind(ServiceAccount, "serviceaccounts", True, ("sa",)),
    Kind(ConfigMap, "configmaps", True, ("cm",)),
    Kind(Secret, "secrets", True),
    Kind(Service, "services", True, ("svc",)),
    Kind(EndpointSlice, "endpointslices", True),
    Kind(PodDisruptionBudget, "poddisruptionbudgets", True, ("pdb",)),
    Kind(Workload, "workloads", True),
    Kind(PodGroup, "podgroups", True),
    Kind(ReplicationController, "replicationcontrollers", True, ("rc",)),
    Kind(ReplicaSet, "replicasets", True, ("rs",)),
    Kind(StatefulSet, "statefulsets", True, ("sts",)),
    Kind(Deployment, "deployments", True, ("deploy",)),
    Kind(DaemonSet, "daemonsets", True, ("ds",)),
    Kind(ControllerRevision, "controllerrevisions", True),
    Kind(CronJob, "cronjobs", True, ("cj",)),
    Kind(Job, "jobs", True),
    Kind(Pod, "pods", True, ("po",)),
    Kind(Lease, "leases", True),
    Kind(Event, "events", True, ("ev",)),
    Kind(EventsEvent, "events", True, ("ev",)),
    Kind(Binding, "bindings", True),
)

# Requests to a server in the form of objects: created and answered, never stored or listed.
REVIEWS: Final[tuple[Kind, ...]] = (
    Kind(TokenReview, "tokenreviews", False),
    Kind(SubjectAccessReview, "subjectaccessreviews", False),
)

_BY_TYPE: Final = {kind.type: kind for kind in (*KINDS, *REVIEWS)}
_BY_API_VERSION_KIND: Final = {(kind.api_version, kind.kind): kind for kind in KINDS}
_BY_PLURAL: Final = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}


def kind_of(type: type[msgspec.Struct]) -> Kind:  # noqa: A002  the clearest name
    """Return the kind of a top-level type; raise KeyError for any other type."""
    # A custom kind is created with its type, which has the kind as an attribute.
    return _BY_TYPE.get(type) or getattr(type, "custom_kind", None) or _BY_TYPE[type]  # type: ignore


def by_api_version_kind(api_version: str, kind: str) -> Kind | None:
    """Return the kind that a manifest names, or None if it is unknown."""
    return _BY_API_VERSION_KIND.get((api_version, kind))


def by_plural(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind that a URL names, or None if it is unknown."""
    return _BY_PLURAL.get((group, version, plural))
