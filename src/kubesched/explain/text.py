"""Renders an explanation for a terminal: the headline, then suggestions, groups and scores.

Colours are marked with `Style`, so that terminals without colours get the same layout.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

from kubesched.explain.explanation import (
    Explanation,
    NodeScore,
    Rejection,
    Suggestion,
    VerdictGroup,
    Versus,
)
from kubesched.explain.queue_places import queue_lines

__all__ = [
    "Paint",
    "plain",
    "render",
    "render_groups",
    "render_suggestions",
    "unread_lines",
    "wrapped",
]

# Turns (text, style) into text; styles are "head", "good", "bad", "dim".
Paint = Callable[[str, str], str]

_GROUPS_SHOWN = 8
_NAMES_SHOWN = 4


def plain(text: str, _style: str) -> str:
    return text


def render(explanation: Explanation, *, width: int = 100, paint: Paint = plain) -> str:
    """Return the whole explanation, with lines wrapped to the width."""
    is_good = explanation.verdict == "fits"
    lines = _first_lines(explanation, width, paint)
    lines += unread_lines(explanation.unknown, explanation.partial, width)
    if explanation.suggestions:
        lines += ["", paint(f"What would help ({explanation.trials})", "head")]
        lines += render_suggestions(explanation.suggestions, width, paint)
    if explanation.preemption is not None and not is_good:
        lines += [
            "",
            paint("Preemption", "head"),
            *wrapped(explanation.preemption.in_words(), width, "  "),
        ]
    if explanation.scores:
        lines += ["", paint("Best nodes", "head"), *_scores(explanation.scores, width)]
    if explanation.versus is not None:
        lines += ["", *_versus(explanation.versus, width, paint)]
    rejecting = [group for group in explanation.groups if group.rejections]
    if rejecting:
        lines += ["", paint(_heading(rejecting), "head")]
        lines += _groups(rejecting, width, paint)
    if explanation.queue:
        lines += ["", paint("Queue", "head")]
        for line in queue_lines(explanation.queue):
            lines += wrapped(line, width, "  ", "    ")
    if explanation.message:
        lines += ["", paint("In kube-scheduler's words", "dim")]
        lines += wrapped(explanation.message, width, "  ")
    return "\n".join(lines)


def unread_lines(unknown: Sequence[str], partial: Sequence[str], width: int) -> list[str]:
    """Return the limits of the result: kinds that could not be read."""
    lines = []
    if unknown:
        lines += wrapped(
            f"Not read: {', '.join(unknown)}. Rules about them are left out.",
            width,
        )
    if partial:
        fuller = ": nodes may be fuller than it looks" if "Pod" in partial else ""
        kinds = ", ".join(partial)
        lines += wrapped(f"Only of one namespace may be read: {kinds}{fuller}.", width)
    return lines


def _heading(rejecting: Sequence[VerdictGroup]) -> str:
    count = sum(group.count for group in rejecting)
    return f"Why not ({count} node{'' if count == 1 else 's'})"


def _first_lines(explanation: Explanation, width: int, paint: Paint) -> list[str]:
    """Return the first lines: the pod, the reason and the advice."""
    is_good = explanation.verdict == "fits"
    verdict = "PLACED" if explanation.current_node else explanation.verdict.upper()
    start = f"{explanation.pod}: {verdict}" if is_good else f"{explanation.pod} is {verdict}"
    text = f"{start}. {explanation.summary}" if is_good else f"{start}: {explanation.summary}"
    first, *rest = wrapped(_stopped(text), width)
    painted = start.replace(explanation.pod, paint(explanation.pod, "head"), 1).replace(
        verdict, paint(verdict, "good" if is_good else "bad"), 1
    )
    lines = [painted + first.removeprefix(start) if first.startswith(start) else first, *rest]
    if explanation.advice:
        lines += wrapped(explanation.advice, width)
    if explanation.breakdown:
        lines += wrapped(_stopped(explanation.breakdown), width)
    return lines


def _stopped(text: str) -> str:
    """Add a full stop, unless the text ends with a punctuation mark."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def render_groups(
    groups: Sequence[VerdictGroup], *, width: int = 100, paint: Paint = plain
) -> list[str]:
    """Return groups of nodes and their rejections as lines."""
    return _groups([group for group in groups if group.rejections], width, paint)


def render_suggestions(
    suggestions: Iterable[Suggestion], width: int, paint: Paint = plain
) -> list[str]:
    """Return the suggestions as numbered lines, each with its command."""
    lines = []
    for number, each in enumerate(suggestions, start=1):
        text = f"{number}. {each.change}" + (f"  -> {each.node}" if each.node else "")
        lines += wrapped(text, width, "  ", "     ")
        if each.command:
            lines += [paint(line, "dim") for line in _command_lines(each.command)]
    return lines


def _command_lines(command: str) -> list[str]:
    """Break a command behind `|` and `&&`, where a shell continues it; quotes stay whole."""
    lines, start, is_quoted = [], 0, False
    for place, character in enumerate(command):
        if character == "'":
            is_quoted = not is_quoted
        elif not is_quoted and command[place : place + 2] in ("| ", "& "):
            lines.append(command[start : place + 1])
            start = place + 2
    lines.append(command[start:])
    first, *rest = lines
    return [f"     $ {first}", *(f"         {each}" for each in rest)]


def _scores(scores: Sequence[NodeScore], width: int) -> list[str]:
    """Return a table with a column for each of the best nodes that the width allows."""
    plugins = [each.plugin for each in scores[0].plugins]
    columns = [["NODE", "TOTAL", *plugins]]
    used = 2 + max(map(len, columns[0]))
    for score in scores:
        column = [score.node, str(score.total), *(str(each.points) for each in score.plugins)]
        used += 2 + max(map(len, column))
        if used > width and len(columns) > 1:
            break
        columns.append(column)
    return _table(list(zip(*columns, strict=True)))


def _versus(versus: Versus, width: int, paint: Paint) -> list[str]:
    lines = [paint(f"{versus.node} or {versus.other}", "head"), *wrapped(versus.summary, width)]
    if versus.points:
        rows = [("PLUGIN", versus.node, versus.other, "DIFFERENCE")]
        rows += [
            (each.plugin, str(each.chosen), str(each.other), f"{each.difference:+d}")
            for each in versus.points
        ]
        lines += _table(rows)
    for rejection in versus.rejections:
        lines += _rejection(rejection, width)
    return lines


def _groups(groups: Sequence[VerdictGroup], width: int, paint: Paint) -> list[str]:
    lines = []
    for group in groups[:_GROUPS_SHOWN]:
        names = ", ".join(group.nodes[:_NAMES_SHOWN])
        more = f", … ({group.count})" if group.count > _NAMES_SHOWN else ""
        count = f"{group.count} node{'s' if group.count > 1 else ''}"
        lines.append(f"  {count}  {paint(names + more, 'dim')}")
        for rejection in group.rejections:
            lines += _rejection(rejection, width)
    left = groups[_GROUPS_SHOWN:]
    if left:
        hidden = sum(group.count for group in left)
        lines.append(f"  … and {hidden} nodes in {len(left)} more groups (-o json shows all)")
    return lines


def _rejection(rejection: Rejection, width: int) -> list[str]:
    text = f"- {rejection.reason}"
    if rejection.asked:
        text += f"; asks {rejection.asked}"
    if rejection.available:
        text += f", there is at most {rejection.available}"
    if rejection.detail:
        text += f"; {rejection.detail}"
    return wrapped(f"{text}  [{rejection.plugin}]", width, "    ", "      ")


def wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Return the text as lines of at most this width."""
    return textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
