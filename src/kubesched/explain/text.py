"""An explanation for a terminal: what matters first, then groups, help, scores.

Colours are marked with `Style`, so that the same layout serves terminals without them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence

from kubesched.explain.results import (
    Explanation,
    NodeGroup,
    NodeScore,
    Preemption,
    Rejection,
    Suggestion,
    Versus,
)

__all__ = ["Paint", "plain", "render", "render_groups"]

# Turns (text, style) into text; styles are "head", "good", "bad", "dim".
Paint = Callable[[str, str], str]

_GROUPS_SHOWN = 8
_NAMES_SHOWN = 4


def plain(text: str, _style: str) -> str:
    return text


def render(explanation: Explanation, *, width: int = 100, paint: Paint = plain) -> str:
    """The whole explanation, no line longer than the width where words can be broken."""
    is_good = explanation.verdict == "fits"
    lines = [
        f"{paint(explanation.pod, 'head')}: "
        f"{paint(explanation.verdict.upper(), 'good' if is_good else 'bad')}",
        *_wrapped(explanation.summary + ".", width),
    ]
    if explanation.unknown:
        lines += _wrapped(
            f"Not allowed to read {', '.join(explanation.unknown)}: rules about them are left out.",
            width,
        )
    if explanation.suggestions:
        lines += ["", paint("What would help (each tried out)", "head")]
        lines += _suggestions(explanation.suggestions, width, paint)
    if explanation.preemption is not None and not is_good:
        lines += ["", paint("Preemption", "head"), *_preemption(explanation.preemption, width)]
    if explanation.scores:
        lines += ["", paint("Best nodes", "head"), *_scores(explanation.scores)]
    if explanation.versus is not None:
        lines += ["", *_versus(explanation.versus, width, paint)]
    rejecting = [group for group in explanation.groups if group.rejections]
    if rejecting:
        lines += ["", paint(f"Why not ({explanation.nodes} nodes)", "head")]
        lines += _groups(rejecting, width, paint)
    if explanation.queue:
        lines += ["", paint("Queue", "head")]
        lines += [f"  {key}: {value}" for key, value in explanation.queue.items()]
    if explanation.message:
        lines += ["", paint("In kube-scheduler's words", "dim")]
        lines += _wrapped(explanation.message, width, "  ")
    return "\n".join(lines)


def render_groups(
    groups: Sequence[NodeGroup], *, width: int = 100, paint: Paint = plain
) -> list[str]:
    """Groups of nodes and what rejects each, as lines."""
    return _groups([group for group in groups if group.rejections], width, paint)


def _suggestions(suggestions: Iterable[Suggestion], width: int, paint: Paint) -> list[str]:
    lines = []
    for number, each in enumerate(suggestions, start=1):
        text = f"{number}. {each.change}  -> {each.node}"
        lines += _wrapped(text, width, "  ", "     ")
        if each.command:
            lines.append("     " + paint(f"$ {each.command}", "dim"))
    return lines


def _preemption(preemption: Preemption, width: int) -> list[str]:
    if preemption.possible:
        victims = ", ".join(preemption.victims) or "nobody"
        return _wrapped(f"would evict {victims} on {preemption.node}", width, "  ")
    text = preemption.message or "not possible"
    if preemption.priority_needed is not None:
        text += f" From priority {preemption.priority_needed} on, it could make room."
    return _wrapped(text, width, "  ")


def _scores(scores: Sequence[NodeScore]) -> list[str]:
    plugins = [each.plugin for each in scores[0].plugins]
    rows = [("NODE", "TOTAL", *plugins)]
    weights = {each.plugin: each.weight for each in scores[0].plugins}
    rows += [
        (
            score.node,
            str(score.total),
            *(
                f"{each.score}x{weights[each.plugin]}" if each.weight != 1 else str(each.score)
                for each in score.plugins
            ),
        )
        for score in scores
    ]
    return _table(rows)


def _versus(versus: Versus, width: int, paint: Paint) -> list[str]:
    lines = [paint(f"{versus.node} or {versus.other}", "head"), *_wrapped(versus.summary, width)]
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


def _groups(groups: Sequence[NodeGroup], width: int, paint: Paint) -> list[str]:
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
    return _wrapped(f"{text}  [{rejection.plugin}]", width, "    ", "      ")


def _wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
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
