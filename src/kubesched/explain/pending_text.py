"""Renders the pending pods of a cluster or a workload for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.explain.pending_report import PendingCause, PendingReport, WaitingPodRow
from kubesched.explain.text import Paint, plain, render_suggestions, unread_lines, wrapped
from kubesched.foundation.util.duration_words import duration_words
from kubesched.scheduler.plugins.helpers.wording import plural

__all__ = ["render_pending"]

_PODS_SHOWN = 10


def render_pending(report: PendingReport, *, width: int = 100, paint: Paint = plain) -> str:
    """Return the report, a line for each pod; with the remedies of each cause for a workload."""
    lines = wrapped(_first_line(report), width)
    if report.note:
        lines += wrapped(report.note, width)
    lines += unread_lines(report.unknown, report.partial, width)
    for cause in report.causes:
        lines += ["", *_cause(cause, width, paint, is_planned=not report.pending)]
        if report.subject and cause.suggestions:
            lines += ["", paint("What would help", "head")]
            lines += render_suggestions(cause.suggestions, width, paint)
    if report.causes and not report.subject:
        example = report.causes[0].pods[0].pod
        lines += ["", *wrapped(f"kubesched explain pod {example} shows a pod in full.", width)]
    return "\n".join(lines)


def _first_line(report: PendingReport) -> str:
    what = f"{report.subject}: " if report.subject else ""
    if report.causes and not report.pending:
        wanted = "it has no pods"
        if report.missing:
            wanted = f"none of its {report.missing} pods exists"
            wanted = "its pod does not exist" if report.missing == 1 else wanted
        return f"{what}{wanted}. Below is the explanation of a pod of its template."
    if not report.pending and not report.pods:
        wants_none = report.subject and not report.causes
        return f"{what}it wants no pods (0 replicas)" if wants_none else f"{what}there are no pods"
    if not report.pending:
        return f"{what}no pod is pending, of {plural(report.pods, 'pod')}"
    verb = "is" if report.pending == 1 else "are"
    causes = plural(len(report.causes), "cause")
    return f"{what}{report.pending} of {plural(report.pods, 'pod')} {verb} pending, {causes}:"


def _cause(cause: PendingCause, width: int, paint: Paint, *, is_planned: bool) -> list[str]:
    count = plural(len(cause.pods), "pod")
    style = "good" if cause.verdict == "fits" else "bad"
    summary = cause.summary if cause.summary.endswith((".", "?", "!")) else f"{cause.summary}."
    lines = wrapped(f"{count}: {summary}", width)
    lines[0] = lines[0].replace(count, paint(count, style), 1)
    if cause.advice:
        lines += wrapped(cause.advice, width)
    return lines if is_planned else [*lines, *_pods(cause.pods)]


def _pods(pods: Sequence[WaitingPodRow]) -> list[str]:
    shown = pods[:_PODS_SHOWN]
    rows = [(each.pod, _since(each), each.owner) for each in shown]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  " + "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if len(pods) > _PODS_SHOWN:
        lines.append(f"  … and {len(pods) - _PODS_SHOWN} more (-o json lists all)")
    return lines


def _since(row: WaitingPodRow) -> str:
    return "" if row.waiting_s is None else duration_words(row.waiting_s)
