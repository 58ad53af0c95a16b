"""Makes a change on the model and runs the scheduler: only what helps becomes a suggestion."""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.api.kinds import kind_of
from kubesched.explain.model import ClusterModel, Removal
from kubesched.explain.results import Edit, Suggestion
from kubesched.explain.suggestions.candidate import Candidate

__all__ = ["try_out"]


def try_out(model: ClusterModel, candidate: Candidate) -> Suggestion | None:
    """Make the change, run the scheduler, undo the change; None if the pod still fits nowhere."""
    edits = _edits(model, candidate)
    with model.changed(candidate.changes):
        node = model.search(candidate.pod).node_name
    if not node:
        return None
    return Suggestion(
        change=candidate.text,
        verified=True,
        node=node,
        kind=candidate.kind,
        parts=candidate.parts,
        command=candidate.command,
        size=round(candidate.size, 3),
        edits=edits,
    )


def _edits(model: ClusterModel, candidate: Candidate) -> tuple[Edit, ...]:
    """The changes as documents; the pod itself is one of them if it has to be another."""
    metadata = candidate.pod.metadata
    before = model.objects.get(Pod, metadata.name, metadata.namespace)
    edits = [] if before is None or before == candidate.pod else [_edit(candidate.pod, "replace")]
    for change in candidate.changes:
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
