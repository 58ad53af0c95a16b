"""Objects of another cluster, made again: with their status, and owned as they were."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubesched.api import ApiAccess, ApiError, ObjectMeta, ResourceClaim
from kubesched.api.base import ApiObject
from kubesched.api.volume import PersistentVolume
from kubesched.errors import KubeschedError

__all__ = ["create_as_they_were"]


async def create_as_they_were(api: ApiAccess, objects: Iterable[ApiObject]) -> None:
    """Create objects, those first that others refer to; pods stay on their nodes.

    A server gives out uids of its own, so references to owners, from volumes to their claims and
    from claims for devices to their users are rewritten: a volume whose claim is another one would
    be given back. Owners that are not among the objects are forgotten: nobody would look after what
    they own, or collect it.

    Raises:
        KubeschedError: the server refuses one.
    """
    waiting: list[Any] = list(objects)
    known = {each.metadata.uid for each in waiting if each.metadata.uid}
    new_uids: dict[str, str] = {}
    while waiting:
        ready = [each for each in waiting if _referred(each) & known <= new_uids.keys()]
        # Those that refer to each other have no first one; they are made as they come.
        for each in ready or waiting:
            created = await _create(api, each, new_uids)
            if each.metadata.uid:
                new_uids[each.metadata.uid] = created
        made = {id(each) for each in ready or waiting}
        waiting = [each for each in waiting if id(each) not in made]


def _referred(each: Any) -> set[str]:
    """Uids of the objects that must be there before this one."""
    uids = {owner.uid for owner in each.metadata.owner_references}
    if isinstance(each, PersistentVolume) and each.spec.claim_ref is not None:
        uids.add(each.spec.claim_ref.uid or "")
    elif isinstance(each, ResourceClaim):
        uids |= {user.uid for user in each.status.reserved_for}
    return uids


def _with_new_uids(each: Any, new_uids: dict[str, str]) -> Any:
    """An object that refers to others as they are now."""
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


async def _create(api: ApiAccess, each: Any, new_uids: dict[str, str]) -> str:
    """Create one object, and say its uid."""
    each = _with_new_uids(each, new_uids)
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
        if error.reason == "AlreadyExists":  # given twice, or what every cluster has
            there: Any = await api.get(type(each), before.name, before.namespace or None)
            return str(there.metadata.uid)
        kind = type(each).__name__
        raise KubeschedError(f"{kind} {before.name} of the cluster is refused: {error}") from error
    return str(created.metadata.uid)
