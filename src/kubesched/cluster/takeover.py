"""Stores objects of another cluster in an embedded one.

With `Identity.KEPT` an object is loaded unchanged: same uid, owners, node and status, without
admission or validation. With `Identity.NEW` it is created like the object of any client, and
references to uids are rewritten to the uids that this server assigns.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

import msgspec

from kubesched.api import (
    ApiError,
    Namespace,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    ResourceClaim,
    Service,
)
from kubesched.api.base import ApiObject
from kubesched.api.core import ServiceSpec
from kubesched.api.kinds import kind_of
from kubesched.api.runtime_class import RuntimeClass
from kubesched.api.volume import PersistentVolume, PersistentVolumeSpec
from kubesched.api.volume_source import HostPathVolumeSource
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.rules.patching.merge_rules import (
    kind_merge_rules,
    remove_unidentified_items,
)
from kubesched.cluster.apiserver.rules.strategies.workload_strategies import own_pod_labels
from kubesched.cluster.recreated_pods import as_client_creates
from kubesched.errors import KubeschedError

__all__ = ["Identity", "take_over"]

# Captures leave out the handler of a RuntimeClass.
_ANY_HANDLER = "any"


_JOBS, _PODS = "jobs.batch", "pods"


class Identity(enum.Enum):
    """Whether objects keep their uids when another API server stores them."""

    KEPT = enum.auto()
    NEW = enum.auto()


async def take_over(api: LocalApi, objects: Iterable[ApiObject], identity: Identity) -> None:
    """Store objects of another cluster, with their status; pods stay on their nodes.

    With `Identity.KEPT` missing namespaces are created, and an object of which there are several
    versions is stored as in the last one. With `Identity.NEW` objects are created after the objects
    that they refer to; references to owners that are not among the objects are dropped, because no
    controller would act on them.

    Raises:
        KubeschedError: the server refuses an object.
    """
    if identity is Identity.KEPT:
        _load_all(api, objects)
    else:
        await _create_all(api, list(objects))


def _load_all(api: LocalApi, objects: Iterable[ApiObject]) -> None:
    store = api.store
    found: dict[tuple[str, str], ApiObject] = {}
    namespaces: set[str] = set()
    uids: dict[tuple[str, str], str] = {}
    number = store.revision
    for each in objects:
        number += 1
        resource = store.catalog.by_type(type(each))
        metadata: ObjectMeta = each.metadata  # type: ignore[attr-defined]
        name = metadata.name
        if resource.namespaced:
            namespaces.add(metadata.namespace)
            name = f"{metadata.namespace}/{name}"
        found[resource.group_resource, name] = each
        uids[resource.group_resource, name] = f"uid-{number}"
    plural = store.catalog.by_type(Namespace).group_resource
    missing: dict[tuple[str, str], ApiObject] = {}
    for name in sorted(namespaces):
        if (plural, name) not in found and store.find(plural, name) is None:
            number += 1
            missing[plural, name] = Namespace(metadata=ObjectMeta(name=name))
            uids[plural, name] = f"uid-{number}"
    documents = {key: _document(each, uids[key]) for key, each in (missing | found).items()}
    _label_pods_of_jobs(documents)
    for key, each in (*missing.items(), *found.items()):
        api.load(type(each), documents[key], keep_deletion=True)


def _label_pods_of_jobs(documents: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Add the labels that pods lack if their job has no selector, as in a file written by hand.

    The server selects the pods of such a job by these labels. Its controller would release other
    pods.
    """
    incomplete = {
        document["metadata"]["uid"]
        for (plural, _), document in documents.items()
        if plural == _JOBS and not document.get("spec", {}).get("selector")
    }
    if not incomplete:
        return
    for key, document in documents.items():
        metadata = document["metadata"]
        for owner in metadata.get("ownerReferences", ()) if key[0] == _PODS else ():
            if owner.get("controller") and owner["uid"] in incomplete:
                labels = {**metadata.get("labels", {}), **own_pod_labels(owner["uid"])}
                documents[key] = {**document, "metadata": {**metadata, "labels": labels}}


def _document(each: ApiObject, uid: str) -> dict[str, Any]:
    """Return an object as JSON; objects without an identity get this uid."""
    kind = kind_of(type(each))
    rules = kind_merge_rules(kind.group, kind.version, kind.kind)
    document: dict[str, Any] = remove_unidentified_items(msgspec.to_builtins(each), rules)
    metadata = {"uid": uid, **document.get("metadata", {})}
    if isinstance(each, PodDisruptionBudget):
        # The cluster's own controller counts again: zero and unknown are the same in our types.
        document.pop("status", None)
    return {**document, "metadata": metadata}


async def _create_all(api: LocalApi, waiting: list[Any]) -> None:
    known = {each.metadata.uid for each in waiting if each.metadata.uid}
    new_uids: dict[str, str] = {}
    while waiting:
        ready = [each for each in waiting if _referenced_uids(each) & known <= new_uids.keys()]
        # Objects that refer to each other have no first one: they are created in their own order.
        for each in ready or waiting:
            created = await _create(api, each, new_uids)
            if each.metadata.uid:
                new_uids[each.metadata.uid] = created
        done = {id(each) for each in ready or waiting}
        waiting = [each for each in waiting if id(each) not in done]


def _referenced_uids(each: Any) -> set[str]:
    """Return the uids of the objects that must be created before this one."""
    uids = {owner.uid for owner in each.metadata.owner_references}
    if isinstance(each, PersistentVolume) and each.spec.claim_ref is not None:
        uids.add(each.spec.claim_ref.uid or "")
    elif isinstance(each, ResourceClaim):
        uids |= {user.uid for user in each.status.reserved_for}
    return uids


def _with_new_uids(each: Any, new_uids: dict[str, str]) -> Any:
    """Rewrite the uids that a volume or a claim refers to.

    The controller would release a volume whose claim has another uid.
    """
    if isinstance(each, PersistentVolume) and (claim := each.spec.claim_ref) is not None:
        claim = msgspec.structs.replace(claim, uid=new_uids.get(claim.uid or "", claim.uid))
        return msgspec.structs.replace(
            each, spec=msgspec.structs.replace(each.spec, claim_ref=claim)
        )
    if isinstance(each, ResourceClaim) and each.status.reserved_for:
        users = tuple(
            msgspec.structs.replace(user, uid=new_uids.get(user.uid, user.uid))
            for user in each.status.reserved_for
        )
        return msgspec.structs.replace(
            each, status=msgspec.structs.replace(each.status, reserved_for=users)
        )
    return each


def _acceptable(each: Any) -> Any:
    """Return the object in the form that a server accepts from a client."""
    if isinstance(each, Pod):
        return as_client_creates(each)
    if isinstance(each, RuntimeClass) and not each.handler:
        return msgspec.structs.replace(each, handler=_ANY_HANDLER)
    if isinstance(each, PersistentVolume) and not _has_source(each.spec):
        source = HostPathVolumeSource(path="/")
        return msgspec.structs.replace(
            each, spec=msgspec.structs.replace(each.spec, host_path=source)
        )
    return _without_addresses(each)


def _has_source(spec: PersistentVolumeSpec) -> bool:
    """Whether a volume says where its data is; captures leave out some of the sources."""
    values = (getattr(spec, field) for field in spec.__struct_fields__)
    return any(type(each).__name__.endswith("VolumeSource") for each in values)


def _without_addresses(each: Any) -> Any:
    """Make a Service headless: its addresses are in the ranges of another cluster.

    Scheduling reads the selector only, and captures have no other field.
    """
    if not isinstance(each, Service):
        return each
    headless = ServiceSpec(selector=each.spec.selector, cluster_ip="None")
    return msgspec.structs.replace(each, spec=headless)


async def _create(api: LocalApi, each: Any, new_uids: dict[str, str]) -> str:
    """Create one object with its status, and return its new uid."""
    each = _acceptable(_with_new_uids(each, new_uids))
    before = each.metadata
    owners = tuple(
        msgspec.structs.replace(owner, uid=new_uids[owner.uid])
        for owner in before.owner_references
        if owner.uid in new_uids
    )
    metadata = ObjectMeta(
        name=before.name,
        namespace=before.namespace,
        labels=before.labels,
        annotations=before.annotations,
        owner_references=owners,
    )
    try:
        created: Any = await api.create(msgspec.structs.replace(each, metadata=metadata))
        status = getattr(each, "status", None)
        if status is not None and created.status != status:
            changed = msgspec.structs.replace(created, status=status)
            await api.update(changed, subresource="status")
    except ApiError as error:
        if error.reason == "AlreadyExists":  # listed twice, or an object that every cluster has
            existing: Any = await api.get(type(each), before.name, before.namespace or None)
            return str(existing.metadata.uid)
        kind = type(each).__name__
        raise KubeschedError(f"{kind} {before.name} of the cluster is refused: {error}") from error
    return str(created.metadata.uid)
