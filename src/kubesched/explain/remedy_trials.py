"""Tries remedies on the model with the scheduler's search; those that help become suggestions."""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.api.kinds import kind_of
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.explanation import Edit, Suggestion
from kubesched.framework import Remedy, Removal

__all__ = ["try_out"]


def try_out(model: ClusterModel, remedy: Remedy, kind: str = "") -> Suggestion | None:
    """Make the change, run the search, undo the change; None if the pod still fits nowhere.

    The suggestion's kind is by default `pod` if only the pod changes, and else `cluster`.
    """
    edits = _edits(model, remedy)
    with model.changed(remedy.changes):
        node = model.search(remedy.pod).node_name
    if not node:
        return None
    return Suggestion(
        change=remedy.text,
        verified=True,
        node=node,
        kind=kind or ("cluster" if remedy.changes else "pod"),
        parts=remedy.parts,
        command=remedy.command,
        size=round(remedy.size, 3),
        edits=edits,
    )


def _edits(model: ClusterModel, remedy: Remedy) -> tuple[Edit, ...]:
    """Return the changes as documents; the pod is one of them if it is changed."""
    metadata = remedy.pod.metadata
    before = model.objects.get(Pod, metadata.name, metadata.namespace)
    edits = [] if before is None or before == remedy.pod else [_edit(remedy.pod, "replace")]
    for change in remedy.changes:
        if isinstance(change, Removal):
            kind = kind_of(change.kind)
            edits.append(
                Edit(
                    action="delete",
                    kind=kind.kind,
                    api_version=kind.api_version,
                    name=change.name,
                    namespace=change.namespace,
                )
            )
        else:
            named: Any = change
            there = model.objects.get(type(named), named.metadata.name, named.metadata.namespace)
            edits.append(_edit(named, "create" if there is None else "replace"))
    return tuple(edits)


def _edit(changed: Any, action: str) -> Edit:
    kind = kind_of(type(changed))
    return Edit(
        action=action,
        kind=kind.kind,
        api_version=kind.api_version,
        name=changed.metadata.name,
        namespace=changed.metadata.namespace,
        document={
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            **msgspec.to_builtins(changed),
        },
    )
