"""An explanation as one HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubesched.explain.results import Explanation, NodeGroup, NodeScore

__all__ = ["explanation_html", "explanation_page"]

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;
color:#1b1f24;background:#fff}
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:1.6rem}
.fits{color:#116329}.pending{color:#a40e26}
table{border-collapse:collapse;font-size:.9rem}td,th{padding:.25rem .7rem;text-align:left;
border-bottom:1px solid #d8dee4;vertical-align:top}
code{background:#f2f4f6;padding:.1rem .3rem;border-radius:4px}.dim{color:#57606a}
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}
.fits{color:#56d364}.pending{color:#ff8182}code{background:#21262d}td,th{border-color:#30363d}
.dim{color:#9198a1}}
"""


def explanation_page(explanation: Explanation) -> str:
    """A whole document."""
    title = escape(f"{explanation.pod}: {explanation.verdict}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style></head>"
        f"<body>{explanation_html(explanation)}</body></html>\n"
    )


def explanation_html(explanation: Explanation) -> str:
    """The part of a document that a notebook shows."""
    parts = [
        f'<h1>{escape(explanation.pod)}: <span class="{escape(explanation.verdict)}">'
        f"{escape(explanation.verdict)}</span></h1>"
    ]
    parts += [
        f"<p>{escape(text)}</p>"
        for text in (explanation.summary, explanation.advice, explanation.breakdown)
        if text
    ]
    if explanation.suggestions:
        parts.append("<h2>What would help (each tried out)</h2><ol>")
        for each in explanation.suggestions:
            command = f"<br><code>{escape(each.command)}</code>" if each.command else ""
            parts.append(
                f"<li>{escape(each.change)} <span class=dim>→ {escape(each.node)}</span>"
                f"{command}</li>"
            )
        parts.append("</ol>")
    if explanation.preemption is not None and explanation.preemption.message:
        parts.append(f"<h2>Preemption</h2><p>{escape(explanation.preemption.message)}</p>")
    if explanation.scores:
        parts.append("<h2>Best nodes</h2>" + _scores(explanation.scores))
    rejecting = [group for group in explanation.groups if group.rejections]
    if rejecting:
        parts.append(f"<h2>Why not ({explanation.nodes} nodes)</h2><table>")
        parts += map(_group, rejecting)
        parts.append("</table>")
    if explanation.message:
        parts.append(f"<p class=dim>{escape(explanation.message)}</p>")
    return "".join(parts)


def _group(group: NodeGroup) -> str:
    reasons = []
    for each in group.rejections:
        text = f"<b>{escape(each.plugin)}</b>: {escape(each.reason)}"
        if each.asked:
            text += f"; asks {escape(each.asked)}"
        if each.available:
            text += f", at most {escape(each.available)}"
        if each.detail:
            text += f"; {escape(each.detail)}"
        reasons.append(text)
    return (
        f"<tr><td>{group.count}</td><td class=dim>{escape(group.example)}</td>"
        f"<td>{'<br>'.join(reasons)}</td></tr>"
    )


def _scores(scores: tuple[NodeScore, ...]) -> str:
    head = "".join(f"<th>{escape(each.plugin)}</th>" for each in scores[0].plugins)
    rows = "".join(
        f"<tr><td>{escape(score.node)}</td><td>{score.total}</td>"
        + "".join(f"<td>{each.score}&times;{each.weight}</td>" for each in score.plugins)
        + "</tr>"
        for score in scores
    )
    return f"<table><tr><th>node</th><th>total</th>{head}</tr>{rows}</table>"
