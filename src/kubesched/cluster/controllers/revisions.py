"""Versions of what a StatefulSet or DaemonSet makes its pods from, kept as ControllerRevisions."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from kubesched.api import Pod
from kubesched.api.apps import ControllerRevision
from kubesched.cluster.controllers.adoption import claimed, selector_of
from kubesched.cluster.controllers.cluster_view import View, controller_reference
from kubesched.cluster.controllers.plans import Action, Create, Delete, Patch

__all__ = ["HASH_LABEL", "Revisions", "revisions", "surplus_revisions", "template_hash"]

Json = dict[str, Any]

HASH_LABEL = "controller-revision-hash"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10


def template_hash(template: Any) -> str:
    """A name for the content of a template."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_HASH_LENGTH])


class Revisions(NamedTuple):
    current_hash: str
    """Of what the owner says now."""
    current_name: str
    known: list[ControllerRevision]
    """All of the owner's, oldest first."""
    actions: list[Action]


def revisions(view: View, owner: Any, document: Mapping[str, Any]) -> Revisions:
    """The owner's versions, with the writes that make the present one the newest."""
    template = document["spec"].get("template", {})
    data = {"spec": {"template": {**template, "$patch": "replace"}}}
    mine, actions = claimed(view, owner, ControllerRevision, selector_of(owner))
    known = sorted(mine, key=lambda each: (each.revision, each.metadata.name))
    newest = known[-1].revision if known else 0
    same = [each for each in known if each.data == data]
    if same:
        current = same[-1]
        mark = current.metadata.labels.get(HASH_LABEL, current.metadata.name)
        if current.revision < newest:
            actions.append(Patch(current, {"revision": newest + 1}))
        return Revisions(mark, current.metadata.name, known, actions)
    mark = (not known and _mark_of_pods(view, owner)) or template_hash(template)
    name = mark if mark.startswith(f"{owner.metadata.name}-") else f"{owner.metadata.name}-{mark}"
    if owner.metadata.deletion_timestamp is None:
        labels = {**template.get("metadata", {}).get("labels", {}), HASH_LABEL: mark}
        made = {
            "metadata": {
                "name": name,
                "namespace": owner.metadata.namespace,
                "labels": labels,
                "ownerReferences": [controller_reference(owner)],
            },
            "data": data,
            "revision": newest + 1,
        }
        actions.append(Create(ControllerRevision, made, optional=True))
    return Revisions(mark, name, known, actions)


def _mark_of_pods(view: View, owner: Any) -> str:
    """What an owner from a dump that left its versions behind called the one that its pods have."""
    pods = view.controlled(owner.metadata.uid, Pod)
    marks = {pod.metadata.labels.get(HASH_LABEL, "") for pod in pods}
    return marks.pop() if len(marks) == 1 else ""


def surplus_revisions(
    owner: Any, known: list[ControllerRevision], in_use: Collection[str]
) -> list[Action]:
    """Deletions of versions beyond the limit, of those that no pod has. `in_use` are hashes."""
    limit = owner.spec.revision_history_limit
    spare = [each for each in known if each.metadata.labels.get(HASH_LABEL) not in in_use]
    kept = 10 if limit is None else limit
    return [Delete(each) for each in spare[: max(0, len(spare) - kept)]]
