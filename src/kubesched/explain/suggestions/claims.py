"""Volumes: another claim, another class, a volume that is missing, a claim that others hold."""

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
from kubesched.explain.details.claims import claims_of, is_default_class, users_of
from kubesched.explain.details.context import nearest, pod_name
from kubesched.explain.model import Change, Removal
from kubesched.explain.suggestions.candidate import CLUSTER, POD, Candidate, Question
from kubesched.explain.suggestions.new_node import NEW_NODE_SIZE, node_like
from kubesched.scheduler.plugins.helpers.volume_claims import (
    BIND_COMPLETED,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_names,
)

__all__ = ["fix_claims", "free_volumes"]

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ONE_POD: Final = "ReadWriteOncePod"
_HOSTNAME: Final = "kubernetes.io/hostname"
_MOST: Final = 3
_DEFAULT_SIZE: Final = "1Gi"


def fix_claims(question: Question) -> Iterator[Candidate]:
    """For each claim of the pod, whatever could be wrong with it."""
    objects = question.model.objects
    for name, claim in claims_of(objects, question.pod).items():
        if claim is None:
            yield from _missing(question, name)
        elif not claim.spec.volume_name:
            yield from _unbound(question, claim)
        else:
            yield from _bound(question, claim)


def _missing(question: Question, name: str) -> Iterator[Candidate]:
    objects, pod = question.model.objects, question.pod
    namespace = pod.metadata.namespace
    near = nearest(
        name, [each.metadata.name for each in objects.list(PersistentVolumeClaim, namespace)]
    )
    if near:
        yield Candidate(f"use claim {near} instead of {name}", POD, 0.9, _renamed(pod, name, near))
    wanted = _class_to_use(question)
    made = PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=replace(
            _claim_spec(_DEFAULT_SIZE), storage_class_name=None if wanted is None else wanted
        ),
    )
    text = f"create claim {namespace}/{name}"
    yield Candidate(text, CLUSTER, 1.1, pod, _as_it_becomes(question, made))


def _claim_spec(size: str) -> PersistentVolumeClaimSpec:
    spec = PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",))
    return replace(spec, resources=replace(spec.resources, requests={"storage": size}))


def _class_to_use(question: Question) -> str | None:
    classes = list(question.model.objects.list(StorageClass))
    for each in classes:
        if is_default_class(each):
            return each.metadata.name
    return classes[0].metadata.name if len(classes) == 1 else None


def _as_it_becomes(question: Question, claim: PersistentVolumeClaim) -> tuple[Change, ...]:
    """The claim as scheduling gets to see it: waiting for the pod, or bound to a volume."""
    found = question.model.objects.get(StorageClass, claim_class(claim))
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


def _unbound(question: Question, claim: PersistentVolumeClaim) -> Iterator[Candidate]:
    objects, pod = question.model.objects, question.pod
    name = f"{claim.metadata.namespace}/{claim.metadata.name}"
    own = claim_class(claim)
    found = objects.get(StorageClass, own)
    for number, other in enumerate(_other_classes(question, own)):
        changed = replace(claim, spec=replace(claim.spec, storage_class_name=other))
        yield Candidate(
            f"recreate claim {name} with class {other}",
            CLUSTER,
            1.1 + number / 100,
            pod,
            _as_it_becomes(question, changed),
        )
    size = claim.spec.resources.requests.get("storage", _DEFAULT_SIZE)
    if found is not None and found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        for node in question.infos[:_MOST]:
            volume = _volume(f"volume-for-{claim.metadata.name}", claim, _hostname(node.labels))
            yield Candidate(
                f"create a volume of class {own} ({size}) for claim {name} on {node.name}",
                CLUSTER,
                1.5,
                pod,
                (volume,),
                node=node.name,
            )
    else:
        text = f"create a volume of {size} for claim {name}"
        if found is not None and found.provisioner != _NO_PROVISIONER:
            text = f"have provisioner {found.provisioner} make the volume of claim {name}"
        yield Candidate(
            text,
            CLUSTER,
            1.5,
            pod,
            _as_it_becomes(question, claim),
            command=f"kubectl describe pvc -n {claim.metadata.namespace} {claim.metadata.name}",
        )


def _hostname(labels: dict[str, str]) -> str:
    return labels.get(_HOSTNAME, "")


def _other_classes(question: Question, own: str) -> list[str]:
    """Classes that can make a volume; the one that was probably meant first, then the default."""
    usable = [
        each
        for each in question.model.objects.list(StorageClass)
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


def _bound(question: Question, claim: PersistentVolumeClaim) -> Iterator[Candidate]:
    objects, pod = question.model.objects, question.pod
    volume = objects.get(PersistentVolume, claim.spec.volume_name)
    if volume is None:
        restored = _volume(claim.spec.volume_name, claim)
        yield Candidate(f"restore volume {claim.spec.volume_name}", CLUSTER, 1.5, pod, (restored,))
        return
    yield from _node_near(question, volume)
    if _ONE_POD in claim.spec.access_modes:
        users = users_of(objects, claim.metadata.name, claim.metadata.namespace, pod)
        if len(users) == 1:
            yield _move(question, users[0], "which uses the claim")


def _node_near(question: Question, volume: PersistentVolume) -> Iterator[Candidate]:
    """A node where the volume can be reached."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None or not len(question.nodes):
        return
    labels: dict[str, str] = {}
    for term in affinity.required.node_selector_terms[:1]:
        for each in term.match_expressions:
            if each.operator == "In" and each.values:
                labels[each.key] = each.values[0]
    like = max(question.nodes, key=lambda each: (each.allocatable.milli_cpu, each.name)).node
    if not labels or like is None:
        return
    name = f"{like.metadata.name}-new"
    made = node_like(like, name)
    made = replace(made, metadata=replace(made.metadata, labels={**made.metadata.labels, **labels}))
    shown = " ".join(f"{key.rpartition('/')[2]} {value}" for key, value in labels.items())
    yield Candidate(
        f"add a node in {shown}, where volume {volume.metadata.name} is",
        CLUSTER,
        NEW_NODE_SIZE,
        question.pod,
        (made,),
        node=name,
    )


def free_volumes(question: Question) -> Iterator[Candidate]:
    """Move a pod that has a volume attached, for nodes that have as many as they may."""
    for info in question.infos[:_MOST]:
        users = [each.pod for each in info.pods if any(claim_names(each.pod))]
        if users:
            least = min(users, key=lambda each: (pod_priority(each), each.metadata.name))
            yield Candidate(
                f"free a volume on {info.name}, such as by moving {pod_name(least)}",
                CLUSTER,
                2.0,
                question.pod,
                (Removal(Pod, least.metadata.name, least.metadata.namespace),),
                node=info.name,
            )


def _move(question: Question, other: Pod, why: str) -> Candidate:
    return Candidate(
        f"move {pod_name(other)} away, {why}",
        CLUSTER,
        2.0,
        question.pod,
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
