"""Tries remedies on the model with the scheduler's search; those that help become suggestions."""

from __future__ import annotations

from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.explanation import Suggestion
from kubesched.explain.suggestion_edits import edits_of, place_of_change
from kubesched.framework import Remedy

__all__ = ["try_out"]


def try_out(model: ClusterModel, remedy: Remedy, kind: str = "") -> Suggestion | None:
    """Make the change, run the search, undo the change; None if the pod still fits nowhere.

    The suggestion's kind is by default `pod` if only the pod changes, and else `cluster`.
    """
    edits = edits_of(model, remedy)
    place = place_of_change(model, remedy)
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
        command=remedy.command,
        size=round(remedy.size, 3),
        edits=edits,
    )
