"""Tries remedies on the model with the scheduler's search; those that help become suggestions."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.api import Pod
from kubesched.api.base import ApiObject
from kubesched.api.kinds import by_api_version_kind
from kubesched.api.pod_facts import controller_of
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.edit_commands import command_of_edits
from kubesched.explain.explanation import Edit, Suggestion
from kubesched.explain.owner_templates import template_owner
from kubesched.explain.suggestion_edits import edits_of, place_of_change
from kubesched.framework import Remedy, Removal

__all__ = ["moves_siblings", "try_out"]


def try_out(model: ClusterModel, remedy: Remedy, kind: str = "") -> Suggestion | None:
    """Make the change, run the search, undo the change; None if the pod still fits nowhere.

    The suggestion's kind is by default `pod` if only the pod changes, and else `cluster`.
    """
    edits = edits_of(model, remedy)
    place = place_of_change(model, remedy)
    command = remedy.command or _command(model, remedy, edits)
    with model.changed(remedy.changes):
        node = model.search(remedy.pod).node_name
    if not node:
        return None
    return Suggestion(
        change=f"{remedy.text}{place}",
        verified=True,
        node=node,
        kind=kind or ("cluster" if remedy.changes else "pod"),
        parts=remedy.parts,
        command=command,
        size=round(remedy.size, 3),
        edits=edits,
    )


def moves_siblings(pod: Pod, remedy: Remedy, model: ClusterModel) -> bool:
    """Whether a remedy deletes pods of the pod's own controller, which recreates them."""
    own = controller_of(pod)
    if own is None:
        return False
    for change in remedy.changes:
        if isinstance(change, Removal) and change.kind is Pod:
            moved = model.objects.get(Pod, change.name, change.namespace)
            controller = None if moved is None else controller_of(moved)
            if controller is not None and controller.uid == own.uid:
                return True
    return False


def _command(model: ClusterModel, remedy: Remedy, edits: Sequence[Edit]) -> str:
    """Return a command that makes the edits.

    Empty if none can, or the pod is not in the cluster.
    """
    metadata = remedy.pod.metadata
    is_there = model.objects.get(Pod, metadata.name, metadata.namespace) is not None
    if not edits or not (is_there or template_owner(model.objects, remedy.pod)):
        return ""
    return command_of_edits([(each, _object_of(model, each)) for each in edits])


def _object_of(model: ClusterModel, edit: Edit) -> ApiObject | None:
    kind = by_api_version_kind(edit.api_version, edit.kind)
    return None if kind is None else model.objects.get(kind.type, edit.name, edit.namespace)
