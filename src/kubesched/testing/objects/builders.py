"""Builders of pods and nodes for tests; fields that a test does not set get defaults.

Plain functions with keyword arguments. The uid is derived from kind, namespace and name, so the
same call returns the same object in every run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubesched.api import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    LabelSelector,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodCondition,
    PodResourceClaim,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from kubesched.api.base import RawQuantity
from kubesched.testing.objects.selector_builders import Labels, make_selector

__all__ = [
    "HOSTNAME",
    "REGION",
    "ZONE",
    "Requests",
    "make_container",
    "make_meta",
    "make_node",
    "make_owner",
    "make_pod",
    "make_port",
    "make_spread",
    "make_taint",
    "make_toleration",
]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"

Requests = Mapping[str, RawQuantity]


def make_meta(
    kind: str,
    name: str,
    *,
    namespace: str = "",
    uid: str | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    owner: OwnerReference | None = None,
    resource_version: str = "1",
    creation_timestamp: str | None = None,
    deletion_timestamp: str | None = None,
) -> ObjectMeta:
    """Build metadata; the uid is derived from kind, namespace and name."""
    if uid is None:
        uid = ".".join(part for part in (kind.lower(), namespace, name) if part)
    return ObjectMeta(
        name=name,
        namespace=namespace,
        uid=uid,
        resource_version=resource_version,
        creation_timestamp=creation_timestamp,
        deletion_timestamp=deletion_timestamp,
        labels=dict(labels or {}),
        annotations=dict(annotations or {}),
        owner_references=(owner,) if owner is not None else (),
    )


def make_owner(
    kind: str, name: str, *, namespace: str = "default", api_version: str = "apps/v1"
) -> OwnerReference:
    """Build a reference to a controlling owner, with the uid that its builder would set."""
    return OwnerReference(
        api_version=api_version,
        kind=kind,
        name=name,
        uid=f"{kind.lower()}.{namespace}.{name}",
        controller=True,
        block_owner_deletion=True,
    )


def make_port(host_port: int, *, protocol: str = "TCP", host_ip: str = "") -> ContainerPort:
    return ContainerPort(
        host_port=host_port, container_port=host_port, protocol=protocol, host_ip=host_ip
    )


def make_container(
    name: str = "c",
    *,
    image: str = "",
    requests: Requests | None = None,
    limits: Requests | None = None,
    ports: Iterable[int | ContainerPort] = (),
    restart_policy: str | None = None,
) -> Container:
    """Build a container; `restart_policy="Always"` makes an init container a sidecar."""
    return Container(
        name=name,
        image=image,
        ports=tuple(make_port(port) if isinstance(port, int) else port for port in ports),
        resources=ResourceRequirements(requests=dict(requests or {}), limits=dict(limits or {})),
        restart_policy=restart_policy,
    )


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    uid: str | None = None,
    labels: Labels | None = None,
    annotations: Labels | None = None,
    owner: OwnerReference | None = None,
    resource_version: str = "1",
    creation_timestamp: str | None = None,
    deletion_timestamp: str | None = None,
    requests: Requests | Sequence[Requests] = (),
    images: Sequence[str] = (),
    host_ports: Iterable[int | ContainerPort] = (),
    containers: Iterable[Container] = (),
    init_containers: Iterable[Container] = (),
    overhead: Requests | None = None,
    pod_requests: Requests | None = None,
    node_name: str = "",
    nominated_node_name: str = "",
    node_selector: Labels | None = None,
    affinity: Affinity | None = None,
    tolerations: Iterable[str | Toleration] = (),
    spread: Iterable[TopologySpreadConstraint] = (),
    gates: Iterable[str] = (),
    priority: int | None = None,
    preemption_policy: str | None = None,
    scheduler_name: str = "default-scheduler",
    host_network: bool = False,
    volumes: Iterable[Volume] = (),
    pvcs: Iterable[str] = (),
    resource_claims: Labels | None = None,
    termination_grace_period_seconds: int | None = None,
    phase: str = "",
    start_time: str | None = None,
    conditions: Iterable[PodCondition] = (),
) -> Pod:
    """Make a pod with one container, or as many as there are requests or images.

    `requests` are the requests of the one container, or a list with an entry per container;
    `pod_requests` are requests at pod level. `host_ports` belong to the first container.
    `containers` are added after those. `resource_claims` maps a name in the pod to the name of a
    claim. A toleration may be a text, see `make_toleration`.
    """
    claims = tuple(
        PodResourceClaim(name=key, resource_claim_name=claim)
        for key, claim in (resource_claims or {}).items()
    )
    return Pod(
        metadata=make_meta(
            "Pod",
            name,
            namespace=namespace,
            uid=uid,
            labels=labels,
            annotations=annotations,
            owner=owner,
            resource_version=resource_version,
            creation_timestamp=creation_timestamp,
            deletion_timestamp=deletion_timestamp,
        ),
        spec=PodSpec(
            volumes=(*volumes, *_claim_volumes(pvcs)),
            init_containers=tuple(init_containers),
            containers=_containers(requests, images, host_ports, tuple(containers)),
            termination_grace_period_seconds=termination_grace_period_seconds,
            node_selector=dict(node_selector) if node_selector is not None else None,
            node_name=node_name,
            host_network=host_network,
            affinity=affinity,
            scheduler_name=scheduler_name,
            tolerations=tuple(
                make_toleration(toleration) if isinstance(toleration, str) else toleration
                for toleration in tolerations
            ),
            priority=priority,
            preemption_policy=preemption_policy,
            overhead=dict(overhead or {}),
            topology_spread_constraints=tuple(spread),
            scheduling_gates=tuple(PodSchedulingGate(name=gate) for gate in gates),
            resource_claims=claims,
            resources=(
                ResourceRequirements(requests=dict(pod_requests))
                if pod_requests is not None
                else None
            ),
        ),
        status=PodStatus(
            phase=phase or ("Running" if node_name else "Pending"),
            conditions=tuple(conditions),
            nominated_node_name=nominated_node_name,
            start_time=start_time,
        ),
    )


def _containers(
    requests: Requests | Sequence[Requests],
    images: Sequence[str],
    host_ports: Iterable[int | ContainerPort],
    extra: tuple[Container, ...],
) -> tuple[Container, ...]:
    per_container = [requests] if isinstance(requests, Mapping) else list(requests)
    ports = tuple(host_ports)
    count = max(len(per_container), len(images), 1 if ports or not extra else 0)
    made = tuple(
        make_container(
            f"c{number}",
            image=images[number] if number < len(images) else "",
            requests=per_container[number] if number < len(per_container) else None,
            ports=ports if number == 0 else (),
        )
        for number in range(count)
    )
    return made + extra


def _claim_volumes(pvcs: Iterable[str]) -> tuple[Volume, ...]:
    return tuple(
        Volume(
            name=claim,
            persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim),
        )
        for claim in pvcs
    )


def make_taint(text: str) -> Taint:
    """Build a taint from `key=value:Effect` or `key:Effect`, the form of kubectl."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return Taint(key=key, value=value, effect=effect)


def make_toleration(text: str) -> Toleration:
    """Make a toleration from `key=value:Effect`, `key:Effect` or `key`; an empty key means all.

    Without a value it tolerates any value, without an effect any effect.
    """
    rest, _, effect = text.partition(":")
    key, equals, value = rest.partition("=")
    return Toleration(key=key, operator="Equal" if equals else "Exists", value=value, effect=effect)


def make_spread(
    topology_key: str = ZONE,
    *,
    max_skew: int = 1,
    when: str = "DoNotSchedule",
    labels: Labels | LabelSelector | None = None,
    min_domains: int | None = None,
    node_affinity_policy: str | None = None,
    node_taints_policy: str | None = None,
    match_label_keys: Iterable[str] = (),
) -> TopologySpreadConstraint:
    """Build a topology spread constraint over pods with these labels (None: over no pods)."""
    return TopologySpreadConstraint(
        max_skew=max_skew,
        topology_key=topology_key,
        when_unsatisfiable=when,
        label_selector=make_selector(labels) if labels is not None else None,
        min_domains=min_domains,
        node_affinity_policy=node_affinity_policy,
        node_taints_policy=node_taints_policy,
        match_label_keys=tuple(match_label_keys),
    )


def make_node(
    name: str,
    *,
    uid: str | None = None,
    labels: Labels | None = None,
    zone: str = "",
    region: str = "",
    hostname_label: bool = True,
    annotations: Labels | None = None,
    resource_version: str = "1",
    cpu: RawQuantity = "4",
    memory: RawQuantity = "32Gi",
    pods: RawQuantity = 110,
    ephemeral_storage: RawQuantity | None = None,
    extended: Requests | None = None,
    allocatable: Requests | None = None,
    taints: Iterable[str | Taint] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | Iterable[ContainerImage] = (),
    declared_features: Iterable[str] = (),
    ready: bool = True,
) -> Node:
    """Make a ready node with free resources, and the hostname label that every kubelet sets.

    `extended` adds resources, `allocatable` replaces all of them; the capacity is the same.
    `images` maps an image name to its size. A taint may be a text such as `key=value:Effect`.
    """
    if allocatable is None:
        amounts: dict[str, RawQuantity] = {"cpu": cpu, "memory": memory, "pods": pods}
        if ephemeral_storage is not None:
            amounts["ephemeral-storage"] = ephemeral_storage
        amounts.update(extended or {})
    else:
        amounts = dict(allocatable)
    all_labels = {HOSTNAME: name} if hostname_label else {}
    if zone:
        all_labels[ZONE] = zone
    if region:
        all_labels[REGION] = region
    all_labels.update(labels or {})
    return Node(
        metadata=make_meta(
            "Node",
            name,
            uid=uid,
            labels=all_labels,
            annotations=annotations,
            resource_version=resource_version,
        ),
        spec=NodeSpec(
            unschedulable=unschedulable,
            taints=tuple(
                make_taint(taint) if isinstance(taint, str) else taint for taint in taints
            ),
        ),
        status=NodeStatus(
            capacity=amounts,
            allocatable=amounts,
            conditions=(NodeCondition(type="Ready", status="True" if ready else "False"),),
            images=_images(images),
            declared_features=tuple(declared_features),
        ),
    )


def _images(images: Mapping[str, int] | Iterable[ContainerImage]) -> tuple[ContainerImage, ...]:
    if isinstance(images, Mapping):
        return tuple(
            ContainerImage(names=(name,), size_bytes=size) for name, size in images.items()
        )
    return tuple(images)
