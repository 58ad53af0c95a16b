"""ControllerRevisions: the versions of the pod template of a StatefulSet or DaemonSet.

The label value that pods of a version have is called its mark here.
"""

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
    "delete_surplus_revisions",
    "mark_of",
    "plan_revisions",
    "template_hash",
]

Json = dict[str, Any]

# A label of pods: the mark of the version that they were created from.
HASH_LABEL = "controller-revision-hash"
_STATEFUL_HASH_LABEL = "controller.kubernetes.io/hash"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10


def template_hash(template: Any) -> str:
    """Return a hash of a template's content, for use in names and labels."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_HASH_LENGTH])


class Revisions(NamedTuple):
    """The revisions of an owner."""

    current_mark: str  # the label value of pods of the present template
    current_name: str
    existing: list[ControllerRevision]  # oldest first
    actions: list[Action]


def mark_of(owner: Any, revision: ControllerRevision) -> str:
    """Return the mark of a revision: its name for a StatefulSet, its hash for a DaemonSet."""
    if isinstance(owner, StatefulSet):
        return revision.metadata.name
    return revision.metadata.labels.get(HASH_LABEL, revision.metadata.name)


def plan_revisions(objects: ObjectIndex, owner: Any, document: Mapping[str, Any]) -> Revisions:
    """Return the owner's revisions, and the writes that make the present template the newest."""
    template = document["spec"].get("template", {})
    # Go clients compare these bytes with their own encoding, which has sorted keys.
    data = _sorted({"spec": {"template": {**template, "$patch": "replace"}}})
    claimed, actions = claim_objects(objects, owner, ControllerRevision, selector_of(owner))
    existing = sorted(claimed, key=lambda each: (each.revision, each.metadata.name))
    newest = existing[-1].revision if existing else 0
    same = [each for each in existing if each.data == data]
    if same:
        current = same[-1]
        mark = mark_of(owner, current)
        if current.revision < newest:
            actions.append(Patch(current, {"revision": newest + 1}))
        actions += _relabel_pods(objects, owner, {mark_of(owner, each) for each in same[:-1]}, mark)
        return Revisions(mark, current.metadata.name, existing, actions)
    hashed = template_hash(template)
    name = f"{owner.metadata.name}-{hashed}"
    mark = name if isinstance(owner, StatefulSet) else hashed
    if not existing and (pod_mark := _mark_of_pods(objects, owner)):
        mark = pod_mark
        name = pod_mark if isinstance(owner, StatefulSet) else f"{owner.metadata.name}-{pod_mark}"
        hashed = name.removeprefix(f"{owner.metadata.name}-")
    if owner.metadata.deletion_timestamp is None:
        revision = _revision(owner, template, name, hashed)
        revision |= {"data": data, "revision": newest + 1}
        actions.append(Create(ControllerRevision, revision, optional=True))
    return Revisions(mark, name, existing, actions)


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


def _relabel_pods(
    objects: ObjectIndex, owner: Any, same_marks: Collection[str], mark: str
) -> list[Action]:
    """Relabel pods of equal revisions with one mark, so that they are not created again."""
    outdated = set(same_marks) - {mark}
    return [
        Patch(pod, {"metadata": {"labels": {HASH_LABEL: mark}}})
        for pod in (objects.controlled(owner.metadata.uid, Pod) if outdated else ())
        if pod.metadata.labels.get(HASH_LABEL) in outdated
    ]


def _mark_of_pods(objects: ObjectIndex, owner: Any) -> str:
    """Return the mark that all pods of an owner have, for an owner without revisions.

    An owner from a cluster dump may have lost its revisions. Its pods are not created again.
    """
    pods = objects.controlled(owner.metadata.uid, Pod)
    marks = {pod.metadata.labels.get(HASH_LABEL, "") for pod in pods}
    return marks.pop() if len(marks) == 1 else ""


def delete_surplus_revisions(
    owner: Any, existing: list[ControllerRevision], in_use: Collection[str]
) -> list[Action]:
    """Delete unused revisions beyond the history limit. `in_use` has the marks of pods."""
    limit = owner.spec.revision_history_limit
    unused = [each for each in existing if mark_of(owner, each) not in in_use]
    most = 10 if limit is None else limit
    return [Delete(each) for each in unused[: max(0, len(unused) - most)]]
