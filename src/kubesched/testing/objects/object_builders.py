"""Builders of other objects for tests: namespaces, owners, budgets, volumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubesched.api import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    CSIStorageCapacity,
    LabelSelector,
    Namespace,
    NodeSelector,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PriorityClass,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicationController,
    ReplicationControllerSpec,
    Service,
    ServiceSpec,
    StatefulSet,
    StatefulSetSpec,
    StorageClass,
    VolumeNodeAffinity,
    VolumeNodeResources,
    VolumeResourceRequirements,
)
from kubesched.api.base import IntOrString, RawQuantity
from kubesched.testing.objects.builders import make_meta
from kubesched.testing.objects.selector_builders import Labels, make_selector

__all__ = [
    "make_csi_driver",
    "make_csi_node",
    "make_csi_storage_capacity",
    "make_namespace",
    "make_pdb",
    "make_priority_class",
    "make_pv",
    "make_pvc",
    "make_replica_set",
    "make_replication_controller",
    "make_service",
    "make_stateful_set",
    "make_storage_class",
]


def make_namespace(name: str, *, labels: Labels | None = None) -> Namespace:
    return Namespace(metadata=make_meta("Namespace", name, labels=labels))


def make_service(
    name: str, *, namespace: str = "default", selector: Labels | None = None
) -> Service:
    return Service(
        metadata=make_meta("Service", name, namespace=namespace),
        spec=ServiceSpec(selector=dict(selector) if selector is not None else None),
    )


def make_replication_controller(
    name: str, *, namespace: str = "default", selector: Labels | None = None
) -> ReplicationController:
    return ReplicationController(
        metadata=make_meta("ReplicationController", name, namespace=namespace),
        spec=ReplicationControllerSpec(selector=dict(selector) if selector is not None else None),
    )


def make_replica_set(
    name: str, *, namespace: str = "default", selector: Labels | LabelSelector | None = None
) -> ReplicaSet:
    return ReplicaSet(
        metadata=make_meta("ReplicaSet", name, namespace=namespace),
        spec=ReplicaSetSpec(selector=_optional_selector(selector)),
    )


def make_stateful_set(
    name: str, *, namespace: str = "default", selector: Labels | LabelSelector | None = None
) -> StatefulSet:
    return StatefulSet(
        metadata=make_meta("StatefulSet", name, namespace=namespace),
        spec=StatefulSetSpec(selector=_optional_selector(selector)),
    )


def make_pdb(
    name: str,
    *,
    namespace: str = "default",
    selector: Labels | LabelSelector | None = None,
    disruptions_allowed: int = 0,
    min_available: IntOrString | None = None,
    max_unavailable: IntOrString | None = None,
    disrupted_pods: Mapping[str, str | None] | None = None,
) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=make_meta("PodDisruptionBudget", name, namespace=namespace),
        spec=PodDisruptionBudgetSpec(
            min_available=min_available,
            max_unavailable=max_unavailable,
            selector=_optional_selector(selector),
        ),
        status=PodDisruptionBudgetStatus(
            disruptions_allowed=disruptions_allowed, disrupted_pods=dict(disrupted_pods or {})
        ),
    )


def make_priority_class(
    name: str, value: int, *, global_default: bool = False, preemption_policy: str | None = None
) -> PriorityClass:
    return PriorityClass(
        metadata=make_meta("PriorityClass", name),
        value=value,
        global_default=global_default,
        preemption_policy=preemption_policy,
    )


def make_storage_class(
    name: str,
    *,
    provisioner: str = "csi.example.com",
    wait_for_first_consumer: bool = True,
    annotations: Labels | None = None,
) -> StorageClass:
    return StorageClass(
        metadata=make_meta("StorageClass", name, annotations=annotations),
        provisioner=provisioner,
        reclaim_policy="Delete",
        volume_binding_mode="WaitForFirstConsumer" if wait_for_first_consumer else "Immediate",
    )


def make_pvc(
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    storage_class: str | None = None,
    size: RawQuantity = "1Gi",
    access_modes: Iterable[str] = ("ReadWriteOnce",),
    volume_name: str = "",
    bound: bool | None = None,
    selector: Labels | LabelSelector | None = None,
    annotations: Labels | None = None,
    deletion_timestamp: str | None = None,
) -> PersistentVolumeClaim:
    """Build a claim. With a `volume_name` it is bound and annotated, unless `bound` is False."""
    is_bound = bool(volume_name) if bound is None else bound
    marks = {"pv.kubernetes.io/bind-completed": "yes"} if is_bound else {}
    return PersistentVolumeClaim(
        metadata=make_meta(
            "PersistentVolumeClaim",
            name,
            namespace=namespace,
            uid=uid,
            annotations={**marks, **(annotations or {})},
            deletion_timestamp=deletion_timestamp,
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=tuple(access_modes),
            selector=_optional_selector(selector),
            resources=VolumeResourceRequirements(requests={"storage": size}),
            volume_name=volume_name,
            storage_class_name=storage_class,
        ),
        status=PersistentVolumeClaimStatus(phase="Bound" if is_bound else "Pending"),
    )


def make_pv(
    name: str,
    *,
    uid: str | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    storage_class: str = "",
    size: RawQuantity = "1Gi",
    access_modes: Iterable[str] = ("ReadWriteOnce",),
    csi_driver: str = "csi.example.com",
    volume_handle: str = "",
    claim: PersistentVolumeClaim | None = None,
    node_selector: NodeSelector | None = None,
    phase: str = "",
) -> PersistentVolume:
    """Build a CSI volume, unclaimed or bound to `claim`."""
    claim_ref = None
    if claim is not None:
        claim_ref = ObjectReference(
            kind="PersistentVolumeClaim",
            api_version="v1",
            namespace=claim.metadata.namespace,
            name=claim.metadata.name,
            uid=claim.metadata.uid,
        )
    return PersistentVolume(
        metadata=make_meta(
            "PersistentVolume", name, uid=uid, labels=labels, annotations=annotations
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": size},
            csi=CSIPersistentVolumeSource(driver=csi_driver, volume_handle=volume_handle or name),
            access_modes=tuple(access_modes),
            claim_ref=claim_ref,
            storage_class_name=storage_class,
            node_affinity=(
                VolumeNodeAffinity(required=node_selector) if node_selector is not None else None
            ),
        ),
        status=PersistentVolumeStatus(phase=phase or ("Bound" if claim else "Available")),
    )


def make_csi_node(name: str, drivers: Mapping[str, int | None]) -> CSINode:
    """Build a CSINode from the number of attachable volumes by driver."""
    return CSINode(
        metadata=make_meta("CSINode", name),
        spec=CSINodeSpec(
            drivers=tuple(
                CSINodeDriver(
                    name=driver,
                    node_id=name,
                    allocatable=VolumeNodeResources(count=count) if count is not None else None,
                )
                for driver, count in drivers.items()
            )
        ),
    )


def make_csi_driver(name: str, *, storage_capacity: bool | None = None) -> CSIDriver:
    return CSIDriver(
        metadata=make_meta("CSIDriver", name),
        spec=CSIDriverSpec(storage_capacity=storage_capacity),
    )


def make_csi_storage_capacity(
    name: str,
    *,
    namespace: str = "default",
    storage_class: str,
    capacity: RawQuantity | None = None,
    maximum_volume_size: RawQuantity | None = None,
    topology: Labels | LabelSelector | None = None,
) -> CSIStorageCapacity:
    return CSIStorageCapacity(
        metadata=make_meta("CSIStorageCapacity", name, namespace=namespace),
        node_topology=_optional_selector(topology),
        storage_class_name=storage_class,
        capacity=capacity,
        maximum_volume_size=maximum_volume_size,
    )


def _optional_selector(labels: Labels | LabelSelector | None) -> LabelSelector | None:
    return None if labels is None else make_selector(labels)
