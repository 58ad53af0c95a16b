"""Volumes: which of the pod's claims it is about, in what state it is, and where it can be had."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.api import (
    CSINode,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
)
from kubesched.explain.details.context import (
    Detail,
    DetailContext,
    listed,
    nearest,
    plural,
    pod_name,
)
from kubesched.explain.details.selection import shown_requirement
from kubesched.explain.objects import Objects
from kubesched.scheduler.plugins.helpers.volume_claims import (
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_names,
    named_claims,
    volume_class,
)

__all__ = ["claims_of", "describe_claims", "is_default_class", "users_of"]

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_ONE_POD = "ReadWriteOncePod"
_SHORT = {
    "topology.kubernetes.io/zone": "zone",
    "topology.kubernetes.io/region": "region",
    "failure-domain.beta.kubernetes.io/zone": "zone",
    "kubernetes.io/hostname": "node",
}


def claims_of(objects: Objects, pod: Pod) -> dict[str, PersistentVolumeClaim | None]:
    """The pod's claims by name; None for one that does not exist."""
    namespace = pod.metadata.namespace
    return {name: objects.get(PersistentVolumeClaim, name, namespace) for name in claim_names(pod)}


def is_default_class(found: StorageClass) -> bool:
    return found.metadata.annotations.get(_DEFAULT_CLASS) == "true"


def users_of(objects: Objects, claim: str, namespace: str, but: Pod) -> list[Pod]:
    """Pods on nodes that use the claim."""
    return [
        other
        for other in objects.list(Pod, namespace)
        if other.spec.node_name
        and other.metadata.uid != but.metadata.uid
        and claim in claim_names(other)
    ]


def describe_claims(context: DetailContext, reason: str) -> Detail:
    claims = claims_of(context.objects, context.pod)
    detail = "; ".join(state for name, claim in claims.items() if (state := _state(name, claim)))
    if "ReadWriteOncePod" in reason:
        return _used_by_another(context, claims, detail)
    if "max volume count" in reason:
        return _too_many_volumes(context, claims, detail)
    if "volume zone" in reason or "node affinity" in reason:
        return _elsewhere(context, claims, detail)
    if "available persistent volumes" in reason or "free storage" in reason:
        return _nothing_to_bind(context, claims, reason, detail)
    says = "; ".join(_problems(context, claims)) or reason
    return Detail("", "", detail, says, "claims not usable")


def _state(name: str, claim: PersistentVolumeClaim | None) -> str:
    if claim is None:
        return f"claim {name} does not exist"
    if claim.spec.volume_name:
        return f"claim {name} is bound to {claim.spec.volume_name}"
    return f"claim {name} is not bound ({claim_class(claim) or 'no class'})"


def _problems(
    context: DetailContext, claims: dict[str, PersistentVolumeClaim | None]
) -> Iterator[str]:
    """What is wrong with claims themselves, wherever the pod would run."""
    objects, namespace = context.objects, context.pod.metadata.namespace
    for name, claim in claims.items():
        if claim is None:
            yield _missing(context, name)
        elif claim.metadata.deletion_timestamp is not None:
            yield (
                f"claim {namespace}/{name} is being deleted: it goes once no pod uses it, and can "
                "be made anew then"
            )
        elif claim.spec.volume_name:
            if objects.get(PersistentVolume, claim.spec.volume_name) is None:
                yield (
                    f"claim {namespace}/{name} is bound to volume {claim.spec.volume_name}, "
                    "which does not exist"
                )
        elif problem := _unbound(objects, claim):
            yield problem


def _missing(context: DetailContext, name: str) -> str:
    namespace = context.pod.metadata.namespace
    if name not in named_claims(context.pod):
        return f"claim {namespace}/{name} has yet to be made from the pod's own template"
    known = sorted(
        each.metadata.name for each in context.objects.list(PersistentVolumeClaim, namespace)
    )
    near = nearest(name, known)
    hint = f"; did you mean {near}?" if near else ""
    return f"claim {name} does not exist in namespace {namespace}{hint}"


def _unbound(objects: Objects, claim: PersistentVolumeClaim) -> str:
    """Why a claim that is to be bound at once is not."""
    name = f"claim {claim.metadata.namespace}/{claim.metadata.name}"
    class_name = claim_class(claim)
    found = objects.get(StorageClass, class_name) if class_name else None
    if found is None and class_name:
        near = nearest(class_name, [each.metadata.name for each in objects.list(StorageClass)])
        hint = f"; did you mean {near}?" if near else ""
        volumes = [each for each in objects.list(PersistentVolume) if _is_free(each, class_name)]
        if volumes:
            return f"{name} is not bound: no free volume of class {class_name} suits it"
        return f"{name} is not bound: StorageClass {class_name} does not exist{hint}"
    if found is None:
        defaults = [each for each in objects.list(StorageClass) if is_default_class(each)]
        if defaults:
            return f"{name} is not bound: it names no StorageClass, and no free volume suits it"
        return f"{name} is not bound: it names no StorageClass and there is no default one"
    if found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        return ""
    if found.provisioner == _NO_PROVISIONER:
        return f"{name} is not bound: no free volume of class {class_name} suits it"
    return (
        f"{name} is not bound: the provisioner {found.provisioner} of class {class_name} "
        "has made no volume for it yet"
    )


def _is_free(volume: PersistentVolume, class_name: str) -> bool:
    return volume_class(volume) == class_name and volume.spec.claim_ref is None


def _used_by_another(
    context: DetailContext, claims: dict[str, PersistentVolumeClaim | None], detail: str
) -> Detail:
    namespace = context.pod.metadata.namespace
    for name, claim in claims.items():
        if claim is None or _ONE_POD not in claim.spec.access_modes:
            continue
        users = users_of(context.objects, name, namespace, context.pod)
        if users:
            says = (
                f"claim {namespace}/{name} may be used by one pod at a time (ReadWriteOncePod), "
                f"and {listed(map(pod_name, users))} uses it"
            )
            return Detail(
                "",
                "",
                f"{name} is used by {listed(map(pod_name, users))}",
                says,
                "claim in use by another pod",
            )
    return Detail("", "", detail, "a ReadWriteOncePod claim is in use", "claim in use")


def _too_many_volumes(
    context: DetailContext, claims: dict[str, PersistentVolumeClaim | None], detail: str
) -> Detail:
    node = context.example
    drivers = {
        driver
        for claim in claims.values()
        if claim is not None
        if (driver := _driver(context.objects, claim))
    }
    found = context.objects.get(CSINode, node.name)
    limits = [
        f"{driver.allocatable.count} of driver {driver.name}"
        for driver in (found.spec.drivers if found is not None else ())
        if driver.name in drivers and driver.allocatable is not None
    ]
    limit = f" ({listed(limits)})" if limits else ""
    says = f"{node.name} has as many volumes attached as it may{limit}"
    if context.is_about_all and len(context.nodes) > 1:
        says = f"every node has as many volumes attached as it may (on {node.name}{limit})"
    return Detail("", listed(limits), detail, says, "volume limit reached")


def _driver(objects: Objects, claim: PersistentVolumeClaim) -> str:
    volume = objects.get(PersistentVolume, claim.spec.volume_name)
    if volume is not None and volume.spec.csi is not None:
        return volume.spec.csi.driver
    found = objects.get(StorageClass, claim_class(claim))
    return "" if found is None else found.provisioner


def _elsewhere(
    context: DetailContext, claims: dict[str, PersistentVolumeClaim | None], detail: str
) -> Detail:
    """A volume that can be reached from other nodes only."""
    for name, claim in claims.items():
        if claim is None or not claim.spec.volume_name:
            continue
        volume = context.objects.get(PersistentVolume, claim.spec.volume_name)
        place = "" if volume is None else _place(volume)
        if place:
            what = f"volume {claim.spec.volume_name} of claim {name}"
            # There may be nodes that the pod cannot use for another reason.
            where = ", where there is no node" if context.is_about_all else ""
            return Detail(
                place,
                "",
                detail,
                f"{what} can only be reached from {place}{where}",
                f"cannot reach volume {claim.spec.volume_name} ({place})",
                f"can reach {what} ({place})",
            )
    return Detail(
        "",
        "",
        detail,
        "its volumes cannot be reached from any node",
        "cannot reach its volumes",
        "can reach its volumes",
    )


def _place(volume: PersistentVolume) -> str:
    """Where a volume is, by its affinity or its labels."""
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        return _shown_places(affinity.required)
    return ", ".join(
        f"{_SHORT[key]} {value}" for key, value in volume.metadata.labels.items() if key in _SHORT
    )


def _shown_places(selector: NodeSelector) -> str:
    return " or ".join(
        " and ".join(
            f"{_SHORT[each.key]} {' or '.join(each.values)}"
            if each.key in _SHORT and each.operator == "In"
            else shown_requirement(each)
            for each in (*term.match_expressions, *term.match_fields)
        )
        for term in selector.node_selector_terms
    )


def _nothing_to_bind(
    context: DetailContext,
    claims: dict[str, PersistentVolumeClaim | None],
    reason: str,
    detail: str,
) -> Detail:
    """No volume for a claim that waits for the pod's node."""
    objects = context.objects
    says = []
    for name, claim in claims.items():
        if claim is None or claim.spec.volume_name:
            continue
        class_name = claim_class(claim)
        asked = claim.spec.resources.requests.get("storage", "")
        size = f"{asked} of " if asked else ""
        free = [each for each in objects.list(PersistentVolume) if _is_free(each, class_name)]
        if "free storage" in reason:
            says.append(f"no node has {size}class {class_name} left for claim {name}")
            continue
        places = sorted({place for each in free if (place := _place(each))})
        there = f"{plural(len(free), 'volume')} of it {'is' if len(free) == 1 else 'are'} free"
        found = objects.get(StorageClass, class_name)
        if found is not None and found.provisioner != _NO_PROVISIONER:
            says.append(
                f"class {class_name} cannot make a volume for claim {name} on any node "
                "(allowedTopologies)"
            )
        elif free and places:
            says.append(
                f"claim {name} wants {size}class {class_name}: {there}, but only in "
                f"{listed(places)}, or too small"
            )
        else:
            says.append(f"claim {name} wants {size}class {class_name}, and {there}")
    text = "; ".join(says) or reason
    return Detail("", "", detail, text, "no volume for its claims", "have a volume for its claims")
