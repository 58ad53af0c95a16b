"""Answers as pandas frames: a row per node, or per pod. Needs the extra `pandas`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kubesched.errors import KubeschedError

if TYPE_CHECKING:
    from kubesched.explain.fitting import Fit
    from kubesched.explain.results import Explanation
    from kubesched.explain.whatif.difference import WhatIf

__all__ = ["explanation_frame", "fit_frame", "whatif_frame"]


def explanation_frame(explanation: Explanation) -> Any:
    """A row for each node: whether it fits, what rejects it, and the scores of the best."""
    scores = {score.node: score for score in explanation.scores}
    rows: list[dict[str, Any]] = []
    for group in explanation.groups:
        for node in group.nodes:
            row: dict[str, Any] = {
                "node": node,
                "fits": not group.rejections,
                "rejected_by": ", ".join(dict.fromkeys(each.plugin for each in group.rejections)),
                "reasons": ", ".join(each.reason for each in group.rejections),
            }
            if (score := scores.get(node)) is not None:
                row["total"] = score.total
                row |= {each.plugin: each.points for each in score.plugins}
            rows.append(row)
    return _frame(rows, ["node", "fits", "rejected_by", "reasons"])


def fit_frame(fit: Fit) -> Any:
    """A row for each node that gets copies."""
    rows = [{"node": node, "copies": count} for node, count in fit.nodes.items()]
    return _frame(rows, ["node", "copies"])


def whatif_frame(answer: WhatIf) -> Any:
    """A row for each pod that the changes concern: what becomes of it, from where, to where."""
    rows = [
        {"pod": move.pod, "what": what, "before": move.before, "after": move.after, "reason": ""}
        for what, moves in (
            ("moved", answer.moved),
            ("placed", answer.placed),
            ("new", answer.new),
        )
        for move in moves
    ]
    rows += [
        {"pod": each.pod, "what": what, "before": "", "after": "", "reason": each.reason}
        for what, entries in (("waiting", answer.waiting), ("refused", answer.blocked))
        for each in entries
    ]
    rows += [
        {"pod": pod, "what": "gone", "before": "", "after": "", "reason": ""} for pod in answer.gone
    ]
    return _frame(rows, ["pod", "what", "before", "after", "reason"])


def _frame(rows: list[dict[str, Any]], columns: list[str]) -> Any:
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        missing = KubeschedError("this needs the package pandas")
        missing.add_note("pip install 'kubesched[pandas]'")
        raise missing from error
    return pandas.DataFrame(rows) if rows else pandas.DataFrame(columns=columns)
