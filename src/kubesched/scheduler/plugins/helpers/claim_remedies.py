"""Remedies for volume claims: another claim or class, a new volume, or a claim that is released."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from kubesched.api import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    StorageClass,
    VolumeNodeAffinity,
)
from kubesched.api.pod_facts import pod_priority
from kubesched.api.quantity import parse_quantity
from kubesched.framework.explaining import (
    ClusterChange,
    RejectedNodes,
    Remedy,
    Removal,
)
from kubesched.scheduler.plugins.helpers.claim_details import (
    claims_of,
    free_volumes_of,
    is_default_class,
    users_of,
)
from kubesched.scheduler.plugins.helpers.node_copies import NEW_NODE_SIZE, labelled_node_like
from kubesched.scheduler.plugins.helpers.unsuitable_volumes import (
    largest_size,
    size_left,
    why_none_suits,
    without_labels,
)
from kubesched.scheduler.plugins.helpers.volume_claims import (
    BIND_COMPLETED,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_names,
    is_fully_bound,
    named_claims,
    ownership_problem,
)
from kubesched.scheduler.plugins.helpers.wording import (
    nearest,
    pod_name,
)

__all__ = ["fix_claims", "free_volumes"]


_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

_ONE_POD: Final = "ReadWriteOncePod"

_HOSTNAME: Final = "kubernetes.io/hostname"

_MOST: Final = 3

_DEFAULT_SIZE: Final = "1Gi"


def fix_claims(rejected: RejectedNodes) -> Iterator[Remedy]:
    """Propose remedies for each claim of the pod, by its state."""
    objects = rejected.objects
    for name, claim in claims_of(objects, rejected.pod).items():
        if claim is None:
            yield from _missing(rejected, name)
        elif name not in named_claims(rejected.pod) and ownership_problem(rejected.pod, claim):
            yield from _free_the_name(rejected, claim)
        elif not claim.spec.volume_name:
            yield from _unbound(rejected, claim)
        else:
            yield from _bound(rejected, claim)


def _missing(rejected: RejectedNodes, name: str) -> Iterator[Remedy]:
    objects, pod = rejected.objects, rejected.pod
    namespace = pod.metadata.namespace
    near = nearest(
        name, [each.metadata.name for each in objects.list(PersistentVolumeClaim, namespace)]
    )
    if near:
        yield Remedy(f"use claim {near} instead of {name}", 0.9, _renamed(pod, name, near))
    made = PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=replace(_claim_spec(_DEFAULT_SIZE), storage_class_name=_class_to_use(rejected)),
    )
    text = f"create claim {namespace}/{name}"
    yield Remedy(text, 1.1, pod, _as_it_becomes(rejected, made), edits=(made,))


def _free_the_name(rejected: RejectedNodes, claim: PersistentVolumeClaim) -> Iterator[Remedy]:
    """Propose to delete a claim with the name of the one that a controller makes for the pod."""
    pod, own = rejected.pod, claim.metadata
    if users_of(rejected.objects, own.name, own.namespace, pod):
        return
    owner = OwnerReference(
        kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
    )
    # The template is not read. The claim is most likely of an earlier pod of the same name.
    made = PersistentVolumeClaim(
        metadata=ObjectMeta(name=own.name, namespace=own.namespace, owner_references=(owner,)),
        spec=replace(claim.spec, volume_name=""),
    )
    if not _can_be_bound(rejected, made):
        return
    yield Remedy(
        f"delete claim {own.namespace}/{own.name}, so that one is made for the pod",
        1.2,
        pod,
        _as_it_becomes(rejected, made),
        edits=(Removal(PersistentVolumeClaim, own.name, own.namespace),),
    )


def _claim_spec(size: str) -> PersistentVolumeClaimSpec:
    spec = PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",))
    return replace(spec, resources=replace(spec.resources, requests={"storage": size}))


def _class_to_use(rejected: RejectedNodes) -> str | None:
    classes = list(rejected.objects.list(StorageClass))
    for each in classes:
        if is_default_class(each):
            return each.metadata.name
    return classes[0].metadata.name if len(classes) == 1 else None


def _can_be_bound(rejected: RejectedNodes, claim: PersistentVolumeClaim) -> bool:
    """Whether the claim's class has a provisioner, or a free volume that suits the claim."""
    found = rejected.objects.get(StorageClass, claim_class(claim))
    if found is not None and found.provisioner != _NO_PROVISIONER:
        return True
    return not why_none_suits(claim, free_volumes_of(rejected.objects, claim_class(claim)))


def _as_it_becomes(
    rejected: RejectedNodes, claim: PersistentVolumeClaim
) -> tuple[ClusterChange, ...]:
    """Return the claim as a scheduler finds it: waiting for a pod, or bound to a volume."""
    found = rejected.objects.get(StorageClass, claim_class(claim))
    if (
        found is not None
        and found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        and found.provisioner != _NO_PROVISIONER
    ):
        return (claim,)
    volume_name = f"volume-for-{claim.metadata.name}"
    metadata = replace(
        claim.metadata, annotations={**claim.metadata.annotations, BIND_COMPLETED: "yes"}
    )
    bound = replace(claim, metadata=metadata, spec=replace(claim.spec, volume_name=volume_name))
    volume = _volume(volume_name, claim)
    reference = ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
    )
    status = replace(volume.status, phase="Bound")
    return bound, replace(volume, spec=replace(volume.spec, claim_ref=reference), status=status)


def _volume(name: str, claim: PersistentVolumeClaim, node: str = "") -> PersistentVolume:
    affinity = None
    if node:
        requirement = NodeSelectorRequirement(key=_HOSTNAME, operator="In", values=(node,))
        term = NodeSelectorTerm(match_expressions=(requirement,))
        affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(
            capacity={"storage": claim.spec.resources.requests.get("storage", _DEFAULT_SIZE)},
            access_modes=claim.spec.access_modes,
            storage_class_name=claim_class(claim),
            volume_mode=claim.spec.volume_mode,
            node_affinity=affinity,
        ),
        status=PersistentVolumeStatus(phase="Available"),
    )


def _unbound(rejected: RejectedNodes, claim: PersistentVolumeClaim) -> Iterator[Remedy]:
    objects, pod = rejected.objects, rejected.pod
    name = f"{claim.metadata.namespace}/{claim.metadata.name}"
    own = claim_class(claim)
    found = objects.get(StorageClass, own)
    for number, other in enumerate(_other_classes(rejected, own)):
        changed = replace(claim, spec=replace(claim.spec, storage_class_name=other))
        yield Remedy(
            f"recreate claim {name} with class {other}",
            1.1 + number / 100,
            pod,
            _as_it_becomes(rejected, changed),
            edits=(changed,),
        )
    yield from _suiting_volumes(rejected, claim)
    yield from _smaller(rejected, claim)
    if found is not None:
        yield from _node_in(rejected, found)
    size = claim.spec.resources.requests.get("storage", _DEFAULT_SIZE)
    if found is not None and found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        for node in rejected.by_name[:_MOST]:
            volume = _volume(f"volume-for-{claim.metadata.name}", claim, _hostname(node.labels))
            yield Remedy(
                f"create a volume of class {own} ({size}) for claim {name} on {node.name}",
                1.5,
                pod,
                (volume,),
                node=node.name,
                edits=(),  # where the volume is stored is not known here
            )
    else:
        text = f"create a volume of {size} for claim {name}"
        if found is not None and found.provisioner != _NO_PROVISIONER:
            text = f"have provisioner {found.provisioner} make the volume of claim {name}"
        yield Remedy(
            text,
            1.5,
            pod,
            _as_it_becomes(rejected, claim),
            edits=(),
        )


def _suiting_volumes(rejected: RejectedNodes, claim: PersistentVolumeClaim) -> Iterator[Remedy]:
    """Propose labels for volumes that only the claim's selector excludes, or no selector."""
    selector = claim.spec.selector
    others = without_labels(claim, free_volumes_of(rejected.objects, claim_class(claim)))
    if selector is None or not others:
        return
    for volume in others[:_MOST] if not selector.match_expressions else ():
        labels = {**volume.metadata.labels, **selector.match_labels}
        shown = " ".join(f"{key}={value}" for key, value in selector.match_labels.items())
        name = volume.metadata.name
        yield Remedy(
            f"label volume {name} {shown}",
            1.0,
            rejected.pod,
            (replace(volume, metadata=replace(volume.metadata, labels=labels)),),
            command=f"kubectl label pv {name} --overwrite {shown}",
        )
    changed = replace(claim, spec=replace(claim.spec, selector=None))
    name = f"{claim.metadata.namespace}/{claim.metadata.name}"
    yield Remedy(f"recreate claim {name} without its selector", 1.05, rejected.pod, (changed,))


def _smaller(rejected: RejectedNodes, claim: PersistentVolumeClaim) -> Iterator[Remedy]:
    """Propose the largest available size, if the claim requests more."""
    own = claim_class(claim)
    asked = claim.spec.resources.requests.get("storage")
    free = free_volumes_of(rejected.objects, own)
    most = largest_size(free) or size_left(rejected.objects, own)
    if asked is None or not most or parse_quantity(most) >= parse_quantity(asked):
        return
    resources = replace(
        claim.spec.resources, requests={**claim.spec.resources.requests, "storage": most}
    )
    changed = replace(claim, spec=replace(claim.spec, resources=resources))
    name = f"{claim.metadata.namespace}/{claim.metadata.name}"
    yield Remedy(
        f"recreate claim {name} with {most} (asks {asked})", 1.05, rejected.pod, (changed,)
    )


def _node_in(rejected: RejectedNodes, found: StorageClass) -> Iterator[Remedy]:
    """Propose a new node at a place where a class makes volumes."""
    terms = found.allowed_topologies
    if not terms or not len(rejected.nodes):
        return
    labels = {each.key: each.values[0] for each in terms[0].match_label_expressions if each.values}
    text = f", where class {found.metadata.name} makes volumes"
    yield from _new_node(rejected, labels, text)


def _hostname(labels: dict[str, str]) -> str:
    return labels.get(_HOSTNAME, "")


def _other_classes(rejected: RejectedNodes, own: str) -> list[str]:
    """Return classes that can provide a volume: first one with a similar name, then the default."""
    usable = [
        each
        for each in rejected.objects.list(StorageClass)
        if each.metadata.name != own and each.provisioner != _NO_PROVISIONER
    ]
    near = nearest(own, [each.metadata.name for each in usable])
    usable.sort(
        key=lambda each: (
            each.metadata.name != near,
            not is_default_class(each),
            each.metadata.name,
        )
    )
    return [each.metadata.name for each in usable[:_MOST]]


def _bound(rejected: RejectedNodes, claim: PersistentVolumeClaim) -> Iterator[Remedy]:
    objects, pod = rejected.objects, rejected.pod
    volume = objects.get(PersistentVolume, claim.spec.volume_name)
    if volume is None:
        restored = _volume(claim.spec.volume_name, claim)
        text = f"restore volume {claim.spec.volume_name}"
        yield Remedy(text, 1.5, pod, (restored,), edits=())
        return
    other, own = volume.spec.claim_ref, claim.metadata
    if other is not None and (other.namespace, other.name) != (own.namespace, own.name):
        changed = replace(claim, spec=replace(claim.spec, volume_name=""))
        if not _can_be_bound(rejected, changed):
            return
        yield Remedy(
            f"recreate claim {own.namespace}/{own.name} without volume {volume.metadata.name}",
            1.05,
            pod,
            _as_it_becomes(rejected, changed),
            edits=(changed,),
        )
        return
    size = volume.spec.capacity.get("storage", "")
    asked = claim.spec.resources.requests.get("storage", "0")
    if size and not is_fully_bound(claim) and parse_quantity(size) < parse_quantity(asked):
        resources = replace(claim.spec.resources, requests={"storage": size})
        smaller = replace(claim, spec=replace(claim.spec, resources=resources))
        text = f"recreate claim {own.namespace}/{own.name} with {size} (asks {asked})"
        changes = _as_it_becomes(rejected, smaller)
        yield Remedy(text, 1.05, pod, changes, edits=(smaller,))
        return
    yield from _node_near(rejected, volume)
    if _ONE_POD in claim.spec.access_modes:
        users = users_of(objects, claim.metadata.name, claim.metadata.namespace, pod)
        if len(users) == 1:
            yield _move(rejected, users[0], "which uses the claim")


def _node_near(rejected: RejectedNodes, volume: PersistentVolume) -> Iterator[Remedy]:
    """Propose a new node at the place where the volume is."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None or not len(rejected.nodes):
        return
    labels: dict[str, str] = {}
    for term in affinity.required.node_selector_terms[:1]:
        for each in term.match_expressions:
            if each.operator == "In" and each.values:
                labels[each.key] = each.values[0]
    lost = labels.get(_HOSTNAME)
    if lost is None:
        yield from _new_node(rejected, labels, f", where volume {volume.metadata.name} is")
    elif not any(node.labels.get(_HOSTNAME) == lost for node in rejected.nodes):
        where = f" with volume {volume.metadata.name}"
        yield from _new_node(rejected, labels, where, f"restore node {lost}")


def _new_node(
    rejected: RejectedNodes, labels: dict[str, str], where: str, verb: str = ""
) -> Iterator[Remedy]:
    like = max(rejected.nodes, key=lambda each: (each.allocatable.milli_cpu, each.name)).node
    if not labels or like is None:
        return
    name = f"{like.metadata.name}-new"
    made = labelled_node_like(like, name, labels)
    shown = " ".join(f"{key.rpartition('/')[2]} {value}" for key, value in labels.items())
    yield Remedy(
        f"{verb or f'add a node in {shown}'}{where}",
        NEW_NODE_SIZE,
        rejected.pod,
        (made,),
        node=name,
    )


def free_volumes(rejected: RejectedNodes) -> Iterator[Remedy]:
    """Propose to move a pod with volumes from a node at its volume limit."""
    for info in rejected.by_name[:_MOST]:
        users = [each.pod for each in info.pods if any(claim_names(each.pod))]
        if users:
            least = min(users, key=lambda each: (pod_priority(each), each.metadata.name))
            yield Remedy(
                f"free a volume on {info.name}, such as by moving {pod_name(least)}",
                2.0,
                rejected.pod,
                (Removal(Pod, least.metadata.name, least.metadata.namespace),),
                node=info.name,
            )


def _move(rejected: RejectedNodes, other: Pod, why: str) -> Remedy:
    return Remedy(
        f"move {pod_name(other)} away, {why}",
        2.0,
        rejected.pod,
        (Removal(Pod, other.metadata.name, other.metadata.namespace),),
    )


def _renamed(pod: Pod, old: str, new: str) -> Pod:
    volumes = tuple(
        replace(each, persistent_volume_claim=replace(source, claim_name=new))
        if (source := each.persistent_volume_claim) is not None and source.claim_name == old
        else each
        for each in pod.spec.volumes
    )
    return replace(pod, spec=replace(pod.spec, volumes=volumes))
