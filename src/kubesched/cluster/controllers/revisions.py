"""Versions of what a StatefulSet or DaemonSet makes its pods from, kept as ControllerRevisions."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from kubesched.api import Pod, StatefulSet
from kubesched.api.apps import ControllerRevision
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference
from kubesched.cluster.controllers.plans import Action, Create, Delete, Patch

__all__ = [
    "HASH_LABEL",
    "Revisions",
    "mark_of",
    "revisions",
    "surplus_revisions",
    "template_hash",
]

Json = dict[str, Any]

HASH_LABEL = "controller-revision-hash"
"""On pods: from which version they are made."""
_STATEFUL_HASH_LABEL = "controller.kubernetes.io/hash"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10


def template_hash(template: Any) -> str:
    """A name for the content of a template."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_HASH_LENGTH])


class Revisions(NamedTuple):
    current_mark: str
    """What pods bear that are made from what the owner says now."""
    current_name: str
    known: list[ControllerRevision]
    """All of the owner's, oldest first."""
    actions: list[Action]


def mark_of(owner: Any, revision: ControllerRevision) -> str:
    """What pods of a version bear: a StatefulSet's its name, a DaemonSet's only its hash."""
    if isinstance(owner, StatefulSet):
        return revision.metadata.name
    return revision.metadata.labels.get(HASH_LABEL, revision.metadata.name)


def revisions(objects: ObjectIndex, owner: Any, document: Mapping[str, Any]) -> Revisions:
    """The owner's versions, with the writes that make the present one the newest."""
    template = document["spec"].get("template", {})
    # Clients in Go compare this byte for byte with what they would write: keys are sorted.
    data = _sorted({"spec": {"template": {**template, "$patch": "replace"}}})
    mine, actions = claim_objects(objects, owner, ControllerRevision, selector_of(owner))
    known = sorted(mine, key=lambda each: (each.revision, each.metadata.name))
    newest = known[-1].revision if known else 0
    same = [each for each in known if each.data == data]
    if same:
        current = same[-1]
        mark = mark_of(owner, current)
        if current.revision < newest:
            actions.append(Patch(current, {"revision": newest + 1}))
        actions += _relabelled(objects, owner, {mark_of(owner, each) for each in same[:-1]}, mark)
        return Revisions(mark, current.metadata.name, known, actions)
    hashed = template_hash(template)
    name = f"{owner.metadata.name}-{hashed}"
    mark = name if isinstance(owner, StatefulSet) else hashed
    if not known and (borne := _mark_of_pods(objects, owner)):
        mark = borne
        name = borne if isinstance(owner, StatefulSet) else f"{owner.metadata.name}-{borne}"
        hashed = name.removeprefix(f"{owner.metadata.name}-")
    if owner.metadata.deletion_timestamp is None:
        made = _revision(owner, template, name, hashed) | {"data": data, "revision": newest + 1}
        actions.append(Create(ControllerRevision, made, optional=True))
    return Revisions(mark, name, known, actions)


def _revision(owner: Any, template: Mapping[str, Any], name: str, hashed: str) -> Json:
    label = _STATEFUL_HASH_LABEL if isinstance(owner, StatefulSet) else HASH_LABEL
    metadata: Json = {
        "name": name,
        "namespace": owner.metadata.namespace,
        "labels": {**template.get("metadata", {}).get("labels", {}), label: hashed},
        "ownerReferences": [controller_reference(owner)],
    }
    if owner.metadata.annotations:
        metadata["annotations"] = dict(owner.metadata.annotations)
    return {"metadata": metadata}


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(each) for each in value]
    return value


def _relabelled(
    objects: ObjectIndex, owner: Any, others: Collection[str], mark: str
) -> list[Action]:
    """Pods of a version that somebody recorded twice need not be made again."""
    outdated = set(others) - {mark}
    return [
        Patch(pod, {"metadata": {"labels": {HASH_LABEL: mark}}})
        for pod in (objects.controlled(owner.metadata.uid, Pod) if outdated else ())
        if pod.metadata.labels.get(HASH_LABEL) in outdated
    ]


def _mark_of_pods(objects: ObjectIndex, owner: Any) -> str:
    """What an owner from a dump that left its versions behind called the one that its pods have."""
    pods = objects.controlled(owner.metadata.uid, Pod)
    marks = {pod.metadata.labels.get(HASH_LABEL, "") for pod in pods}
    return marks.pop() if len(marks) == 1 else ""


def surplus_revisions(
    owner: Any, known: list[ControllerRevision], in_use: Collection[str]
) -> list[Action]:
    """Deletions of versions beyond the limit, of those that no pod has. `in_use` are marks."""
    limit = owner.spec.revision_history_limit
    spare = [each for each in known if mark_of(owner, each) not in in_use]
    kept = 10 if limit is None else limit
    return [Delete(each) for each in spare[: max(0, len(spare) - kept)]]
