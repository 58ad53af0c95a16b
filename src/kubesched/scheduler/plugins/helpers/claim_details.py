"""Details of rejections for volume claims: which claim, its state, and where its volume is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kubesched.api import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from kubesched.framework.causes import (
    Cause,
    ClaimInUse,
    StorageExhausted,
    VolumeLimitReached,
    VolumeUnavailable,
    VolumeUnreachable,
)
from kubesched.framework.explaining import (
    Detail,
    ObjectReader,
    RejectedNodes,
)
from kubesched.scheduler.plugins.helpers.unsuitable_volumes import (
    size_left,
    why_none_suits,
    why_unsuitable,
)
from kubesched.scheduler.plugins.helpers.volume_claims import (
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_names,
    is_fully_bound,
    named_claims,
    ownership_problem,
    volume_class,
)
from kubesched.scheduler.plugins.helpers.volume_places import (
    PLACES,
    describe_unreachable,
    place_of,
)
from kubesched.scheduler.plugins.helpers.wording import (
    listed,
    nearest,
    plural,
    pod_name,
)

__all__ = [
    "VOLUME_CLAIMS",
    "claims_of",
    "describe_claims",
    "free_volumes_of",
    "is_default_class",
    "shown_topologies",
    "users_of",
]

# The topic of all plugins that reject pods for their volume claims (`Explaining.topic`).
VOLUME_CLAIMS: Final = "volume claims"

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_ONE_POD: Final = "ReadWriteOncePod"


def claims_of(objects: ObjectReader, pod: Pod) -> dict[str, PersistentVolumeClaim | None]:
    """Return the pod's claims by name; None for one that does not exist."""
    namespace = pod.metadata.namespace
    return {name: objects.get(PersistentVolumeClaim, name, namespace) for name in claim_names(pod)}


def is_default_class(found: StorageClass) -> bool:
    """Whether claims that name no class get this one."""
    return found.metadata.annotations.get(_DEFAULT_CLASS) == "true"


def users_of(objects: ObjectReader, claim: str, namespace: str, but: Pod) -> list[Pod]:
    """Return the other pods on nodes that use the claim."""
    return [
        other
        for other in objects.list(Pod, namespace)
        if other.spec.node_name
        and other.metadata.uid != but.metadata.uid
        and claim in claim_names(other)
    ]


def describe_claims(rejected: RejectedNodes, cause: Cause | None) -> Detail:
    """Describe the pod's claims as far as the cause concerns them."""
    claims = claims_of(rejected.objects, rejected.pod)
    detail = "; ".join(state for name, claim in claims.items() if (state := _state(name, claim)))
    match cause:
        case ClaimInUse():
            return _used_by_another(rejected, claims, detail)
        case VolumeLimitReached():
            return _too_many_volumes(rejected, claims, detail)
        case VolumeUnreachable():
            return describe_unreachable(rejected, claims, detail)
        case VolumeUnavailable() | StorageExhausted():
            return _nothing_to_bind(rejected, claims, cause, detail)
    problems = "; ".join(_problems(rejected, claims))
    return Detail(detail=detail, sentence=problems, brief="claims not usable")


def _state(name: str, claim: PersistentVolumeClaim | None) -> str:
    if claim is None:
        return f"claim {name} does not exist"
    if claim.spec.volume_name:
        return f"claim {name} is bound to {claim.spec.volume_name}"
    return f"claim {name} is not bound ({claim_class(claim) or 'no class'})"


def _problems(
    rejected: RejectedNodes, claims: dict[str, PersistentVolumeClaim | None]
) -> Iterator[str]:
    """Describe problems of the claims that do not depend on the node."""
    objects, namespace = rejected.objects, rejected.pod.metadata.namespace
    for name, claim in claims.items():
        if claim is None:
            yield _missing(rejected, name)
        elif claim.metadata.deletion_timestamp is not None:
            yield (
                f"claim {namespace}/{name} is being deleted: it is removed once no pod uses it, "
                "and can be created again then"
            )
        elif name not in named_claims(rejected.pod) and ownership_problem(rejected.pod, claim):
            yield (
                f"claim {namespace}/{name} exists and does not belong to the pod, whose ephemeral "
                "volume needs a claim of this name"
            )
        elif claim.spec.volume_name:
            volume = objects.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                yield (
                    f"claim {namespace}/{name} is bound to volume {claim.spec.volume_name}, "
                    "which does not exist"
                )
            elif not is_fully_bound(claim):
                yield _not_bound_to(claim, volume)
        elif problem := _unbound(objects, claim):
            yield problem


def _not_bound_to(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    """Say why a claim is not bound to the volume that it names."""
    own, other = claim.metadata, volume.spec.claim_ref
    start = f"claim {own.namespace}/{own.name} names volume {volume.metadata.name}"
    if other is not None and (other.namespace, other.name) != (own.namespace, own.name):
        return f"{start}, which belongs to claim {other.namespace}/{other.name}"
    if why := why_unsuitable(claim, volume):
        return f"{start}, which {why}"
    return f"{start}, and is not bound to it yet"


def _missing(rejected: RejectedNodes, name: str) -> str:
    namespace = rejected.pod.metadata.namespace
    if name not in named_claims(rejected.pod):
        return f"claim {namespace}/{name} has yet to be made from the pod's own template"
    known = sorted(
        each.metadata.name for each in rejected.objects.list(PersistentVolumeClaim, namespace)
    )
    near = nearest(name, known)
    hint = f"; did you mean {near}?" if near else ""
    return f"claim {name} does not exist in namespace {namespace}{hint}"


def _unbound(objects: ObjectReader, claim: PersistentVolumeClaim) -> str:
    """Return why a claim with immediate binding is not bound; empty if binding can wait."""
    name = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
    class_name = claim_class(claim)
    found = objects.get(StorageClass, class_name) if class_name else None
    if found is None and class_name:
        near = nearest(class_name, [each.metadata.name for each in objects.list(StorageClass)])
        hint = f"; did you mean {near}?" if near else ""
        if free_volumes_of(objects, class_name):
            return _unsuitable(objects, claim, class_name)
        return f"{name} is not bound: StorageClass {class_name} does not exist{hint}"
    if found is None:
        defaults = [each for each in objects.list(StorageClass) if is_default_class(each)]
        if defaults:
            return f"{name} is not bound: it names no StorageClass, and no free volume suits it"
        return f"{name} is not bound: it names no StorageClass and there is no default one"
    if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return ""
    if found.provisioner == _NO_PROVISIONER:
        return _unsuitable(objects, claim, class_name)
    return (
        f"{name} is not bound: the provisioner {found.provisioner} of class {class_name} "
        "has made no volume for it yet"
    )


def _unsuitable(objects: ObjectReader, claim: PersistentVolumeClaim, class_name: str) -> str:
    """Return why no free volume of the class suits a claim, if the class has no provisioner."""
    name = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
    asked = claim.spec.resources.requests.get("storage", "")
    if why := why_none_suits(claim, free_volumes_of(objects, class_name)):
        size = f"{asked} of " if asked else ""
        return f"{name} is not bound: it wants {size}class {class_name}, and {why}"
    return f"{name} is not bound: no free volume of class {class_name} suits it"


def free_volumes_of(objects: ObjectReader, class_name: str) -> list[PersistentVolume]:
    """Return the volumes of a class that no claim has."""
    return [each for each in objects.list(PersistentVolume) if _is_free(each, class_name)]


def _is_free(volume: PersistentVolume, class_name: str) -> bool:
    return volume_class(volume) == class_name and volume.spec.claim_ref is None


def _used_by_another(
    rejected: RejectedNodes, claims: dict[str, PersistentVolumeClaim | None], detail: str
) -> Detail:
    namespace = rejected.pod.metadata.namespace
    for name, claim in claims.items():
        if claim is None or _ONE_POD not in claim.spec.access_modes:
            continue
        users = users_of(rejected.objects, name, namespace, rejected.pod)
        if users:
            shown = listed(map(pod_name, users))
            return Detail(
                detail=f"{name} is used by {shown}",
                sentence=f"claim {namespace}/{name} may be used by one pod at a time "
                f"(ReadWriteOncePod), and {shown} uses it",
                brief="claim in use by another pod",
            )
    return Detail(
        detail=detail, sentence="a ReadWriteOncePod claim is in use", brief="claim in use"
    )


def _too_many_volumes(
    rejected: RejectedNodes, claims: dict[str, PersistentVolumeClaim | None], detail: str
) -> Detail:
    node, objects = rejected.example, rejected.objects
    mine = _by_driver(objects, claims.values())
    found = objects.get(CSINode, node.name)
    limits = {
        driver.name: driver.allocatable.count or 0
        for driver in (found.spec.drivers if found is not None else ())
        if driver.name in mine and driver.allocatable is not None
    }
    theirs = _by_driver(
        objects,
        [each for info in node.pods for each in claims_of(objects, info.pod).values()],
    )
    shown = listed([f"{limit} of driver {driver}" for driver, limit in limits.items()])
    limit = f" ({shown})" if shown else ""
    sentence = f"{node.name} has as many volumes attached as it may{limit}"
    if rejected.are_all and len(rejected.nodes) > 1:
        sentence = f"every node has as many volumes attached as it may (on {node.name}{limit})"
    for driver, most in limits.items():
        used = len(theirs.get(driver, ()))
        added = len(mine[driver] - theirs.get(driver, set()))
        if most == 0:
            sentence = f"{node.name} attaches no volumes of driver {driver}: its limit is 0"
            if rejected.are_all and len(rejected.nodes) > 1:
                sentence = f"no node attaches volumes of driver {driver} ({node.name} has limit 0)"
        elif used < most < used + added:
            sentence = (
                f"it brings {plural(added, 'volume')} of driver {driver}, and {node.name} has "
                f"{used} of at most {most} attached"
            )
    return Detail(available=shown, detail=detail, sentence=sentence, brief="volume limit reached")


def _by_driver(
    objects: ObjectReader, claims: Iterable[PersistentVolumeClaim | None]
) -> dict[str, set[str]]:
    """Return the names of volumes, or of claims without one, by the driver that attaches them."""
    found: dict[str, set[str]] = {}
    for claim in claims:
        if claim is not None:
            name = claim.spec.volume_name or f"{claim.metadata.namespace}/{claim.metadata.name}"
            found.setdefault(_driver(objects, claim), set()).add(name)
    return found


def _driver(objects: ObjectReader, claim: PersistentVolumeClaim) -> str:
    volume = objects.get(PersistentVolume, claim.spec.volume_name)
    if volume is not None and volume.spec.csi is not None:
        return volume.spec.csi.driver
    found = objects.get(StorageClass, claim_class(claim))
    return "" if found is None else found.provisioner


def _nothing_to_bind(
    rejected: RejectedNodes,
    claims: dict[str, PersistentVolumeClaim | None],
    cause: Cause,
    detail: str,
) -> Detail:
    """Describe why a claim that waits for the pod's node gets no volume there."""
    objects = rejected.objects
    sentences = []
    for name, claim in claims.items():
        if claim is None or claim.spec.volume_name:
            continue
        class_name = claim_class(claim)
        asked = claim.spec.resources.requests.get("storage", "")
        size = f"{asked} of " if asked else ""
        free = free_volumes_of(objects, class_name)
        if isinstance(cause, StorageExhausted):
            most = size_left(objects, class_name)
            least = f" (at most {most})" if most else ""
            sentences.append(f"no node has {size}class {class_name} left for claim {name}{least}")
            continue
        places = sorted({place for each in free if (place := place_of(each))})
        there = f"{plural(len(free), 'volume')} of it {'is' if len(free) == 1 else 'are'} free"
        found = objects.get(StorageClass, class_name)
        if found is not None and found.provisioner != _NO_PROVISIONER:
            sentences.append(_made_elsewhere(rejected, found, name))
        elif why := why_none_suits(claim, free):
            sentences.append(f"claim {name} wants {size}class {class_name}, and {why}")
        elif places:
            sentences.append(
                f"claim {name} wants {size}class {class_name}: {there}, but only in "
                f"{listed(places)}"
            )
        else:
            sentences.append(f"claim {name} wants {size}class {class_name}, and {there}")
    return Detail(
        detail=detail,
        sentence="; ".join(sentences),
        brief="no volume for its claims",
        selects="have a volume for its claims",
    )


def _made_elsewhere(rejected: RejectedNodes, found: StorageClass, claim: str) -> str:
    """Describe a class whose driver makes no volumes on the rejected nodes."""
    where = shown_topologies(found)
    node = "any node" if rejected.are_all else rejected.example.name
    if not where:
        return f"class {found.metadata.name} cannot make a volume for claim {claim} on {node}"
    nowhere = ", where there is no node" if rejected.are_all else f", not on {node}"
    return (
        f"class {found.metadata.name} makes the volume of claim {claim} only in {where} "
        f"(allowedTopologies){nowhere}"
    )


def shown_topologies(found: StorageClass) -> str:
    """Describe the places where a class makes volumes; empty without a restriction."""
    return " or ".join(
        " and ".join(
            f"{PLACES.get(each.key, each.key)} {' or '.join(each.values)}"
            for each in term.match_label_expressions
        )
        for term in found.allowed_topologies
    )
