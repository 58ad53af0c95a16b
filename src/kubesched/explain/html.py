"""An explanation as one HTML file that needs nothing else."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from kubesched.explain.queue_places import queue_lines

if TYPE_CHECKING:
    from kubesched.explain.fitting import Fit
    from kubesched.explain.results import Explanation, NodeGroup, NodeScore, Versus
    from kubesched.explain.whatif.difference import WhatIf

__all__ = ["explanation_html", "explanation_page", "fit_html", "whatif_html"]

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;
color:#1b1f24;background:#fff;overflow-wrap:anywhere}
h1{font-size:1.3rem;line-height:1.3}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}
p{margin:.4rem 0}.first{font-size:1.05rem}.fits{color:#116329}.pending{color:#a40e26}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}
td,th{padding:.25rem .9rem .25rem 0;text-align:left;border-bottom:1px solid #d8dee4;
vertical-align:top;overflow-wrap:normal}td.n,th.n{text-align:right;white-space:nowrap}
ol,ul{padding-left:1.4rem;margin:.3rem 0}li{margin:.25rem 0}
code{background:#f2f4f6;padding:.1rem .3rem;border-radius:4px;font-size:.85rem}.dim{color:#57606a}
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
    parts.append(f"<p class=first>{escape(explanation.summary)}</p>")
    parts += [
        f"<p>{escape(text)}</p>" for text in (explanation.advice, explanation.breakdown) if text
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
    if explanation.preemption is not None and explanation.verdict == "pending":
        words = explanation.preemption.in_words()
        parts.append(f"<h2>Preemption</h2><p>{escape(words)}</p>")
    if explanation.scores:
        parts.append("<h2>Best nodes</h2>" + _scores(explanation.scores))
    if explanation.versus is not None:
        parts.append(_versus(explanation.versus))
    rejecting = [group for group in explanation.groups if group.rejections]
    if rejecting:
        count = sum(group.count for group in rejecting)
        heading = f"Why not ({count} node{'' if count == 1 else 's'})"
        parts.append(f"<h2>{heading}</h2><div class=wide><table>")
        parts += map(_group, rejecting)
        parts.append("</table></div>")
    if explanation.queue:
        places = "".join(f"<li>{escape(line)}</li>" for line in queue_lines(explanation.queue))
        parts.append(f"<h2>Queue</h2><ul>{places}</ul>")
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
        f"<tr><td class=n>{group.count}</td><td class=dim>{escape(group.example)}</td>"
        f"<td>{'<br>'.join(reasons)}</td></tr>"
    )


def _scores(scores: tuple[NodeScore, ...]) -> str:
    """A row for each plugin, a column for each node: plugins have long names."""
    head = "".join(f"<th class=n>{escape(score.node)}</th>" for score in scores)
    totals = "".join(f"<td class=n><b>{score.total}</b></td>" for score in scores)
    rows = "".join(
        f"<tr><td>{escape(plugin.plugin)}</td>"
        + "".join(f"<td class=n>{score.plugins[place].points}</td>" for score in scores)
        + "</tr>"
        for place, plugin in enumerate(scores[0].plugins)
    )
    return (
        f"<div class=wide><table><tr><th></th>{head}</tr>"
        f"<tr><td><b>total</b></td>{totals}</tr>{rows}</table></div>"
    )


def _versus(versus: Versus) -> str:
    rows = "".join(
        f"<tr><td>{escape(each.plugin)}</td><td class=n>{each.chosen}</td>"
        f"<td class=n>{each.other}</td><td class=n>{each.difference:+d}</td></tr>"
        for each in versus.points
    )
    table = ""
    if rows:
        names = f"<th class=n>{escape(versus.node)}</th><th class=n>{escape(versus.other)}</th>"
        table = (
            f"<div class=wide><table><tr><th></th>{names}<th class=n>difference</th></tr>"
            f"{rows}</table></div>"
        )
    heading = escape(f"{versus.node} or {versus.other}")
    return f"<h2>{heading}</h2><p>{escape(versus.summary)}</p>{table}"


def fit_html(fit: Fit) -> str:
    """How many copies fit, for a notebook."""
    wanted = "" if fit.asked is None else f" of {fit.asked}"
    rows = "".join(
        f"<tr><td>{escape(node)}</td><td>{count}</td></tr>" for node, count in fit.nodes.items()
    )
    stopped = "".join(_group(group) for group in fit.stopped_by if group.rejections)
    return (
        f"<h1>{escape(', '.join(fit.pods))}: {fit.fits}{wanted} fit</h1>"
        f"<table><tr><th>node</th><th>copies</th></tr>{rows}</table>"
        + (f"<h2>What stops the next one</h2><table>{stopped}</table>" if stopped else "")
    )


def whatif_html(answer: WhatIf) -> str:
    """What changes come to, for a notebook."""
    moves = "".join(
        f"<tr><td>{escape(each.pod)}</td><td>{escape(each.before)}</td>"
        f"<td>{escape(each.after)}</td></tr>"
        for each in (*answer.moved, *answer.placed, *answer.new)
    )
    waiting = "".join(
        f"<tr><td>{escape(each.pod)}</td><td>{escape(each.reason)}</td></tr>"
        for each in (*answer.waiting, *answer.blocked)
    )
    return (
        f"<h1>{escape(answer.summary)}</h1>"
        f"<table><tr><th>pod</th><th>before</th><th>after</th></tr>{moves}</table>"
        + (f"<h2>Waiting or refused</h2><table>{waiting}</table>" if waiting else "")
    )
