"""The report of a shadow as text and as an HTML document."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from kubesched.explain.rendering.html import html_document
from kubesched.explain.shadow.shadow_entries import (
    AGREEMENTS,
    VERDICT_TEXTS,
    AssumedState,
    ShadowEntry,
    ShadowReport,
    ShadowVerdict,
)

__all__ = ["report_as_html", "report_as_text"]

_STATE_TEXTS = {
    AssumedState.AS_SEEN: "in the state just before the decision was written",
    AssumedState.QUEUE_ORDER: "with the pods in flight in the order of the queue",
    AssumedState.EARLIER: "without the last writes, which had not been received",
    AssumedState.IN_FLIGHT: "with the pods in flight in another order",
    AssumedState.RECORDED: "in the state that the scheduler recorded",
}


def report_as_text(report: ShadowReport, most: int) -> str:
    """Return the report for a terminal, with a limited number of differences."""
    return "\n".join([*_lines(report, most), ""])


def _lines(report: ShadowReport, most: int) -> Iterator[str]:
    yield f"Shadow from {report.since} to {report.until}"
    yield _headline(report)
    for verdict, text in VERDICT_TEXTS.items():
        if count := report.verdicts.get(verdict, 0):
            yield f"  {count:>7}  {_percent(count, report.compared):>7}  {text}"
    if set(report.states) - {AssumedState.AS_SEEN}:
        yield ""
        yield "Compared"
        for state, count in report.states.items():
            yield f"  {count:>7}  {_percent(count, report.compared):>7}  {_state_text(state)}"
    for reason, count in report.not_compared.items():
        yield f"  {count:>7}  not compared: {reason}"
    if report.causes:
        yield ""
        yield "Differences by the plugin that decided"
        for plugin, count in report.causes.items():
            yield f"  {count:>7}  {plugin}"
    if report.differences and most:
        yield ""
        yield f"Last differences, {min(most, len(report.differences))} of {_differing(report)}"
        for entry in report.differences[:most]:
            yield f"  {entry.at}  {entry.pod}: {_difference(entry)}"
            if entry.summary:
                yield f"    {entry.summary.strip()}"


def _headline(report: ShadowReport) -> str:
    if not report.compared:
        return "No decision has been compared yet"
    share = _percent(report.compared - _differing(report), report.compared)
    return f"{share} of {report.compared} decisions are the same or tied"


def _percent(count: int, total: int) -> str:
    # 100 % means exactly all: one difference among many decisions must not be rounded away.
    if count == total:
        return "100 %"
    return f"{min(100 * count / total, 99.99):.2f} %"


def _differing(report: ShadowReport) -> int:
    return sum(count for verdict, count in report.verdicts.items() if verdict not in AGREEMENTS)


def _state_text(state: str) -> str:
    return _STATE_TEXTS.get(AssumedState(state), state)


def _difference(entry: ShadowEntry) -> str:
    if entry.verdict is ShadowVerdict.ONLY_SHADOW:
        return f"placed by the shadow only, on {entry.own_node}"
    if entry.verdict is ShadowVerdict.ONLY_OTHER:
        return f"placed by the other scheduler only, on {entry.node}"
    return f"{entry.node}, the shadow: {entry.own_node}"


def report_as_html(report: ShadowReport, most: int) -> str:
    """Return the report as a document that needs no other file."""
    body = [
        "<h1>Shadow report</h1>",
        f'<p class="dim">{escape(report.since)} to {escape(report.until)}</p>',
        f'<p class="first">{escape(_headline(report))}</p>',
        _table(
            "Decisions",
            (
                (count, text)
                for verdict, text in VERDICT_TEXTS.items()
                if (count := report.verdicts.get(verdict, 0))
            ),
        ),
        _table(
            "States in which they were compared",
            ((count, _state_text(state)) for state, count in report.states.items()),
        ),
        _table("Not compared", ((count, text) for text, count in report.not_compared.items())),
        _table("Differences by plugin", ((count, text) for text, count in report.causes.items())),
    ]
    if report.differences and most:
        body.append("<h2>Last differences</h2>")
        body += [_entry(entry) for entry in report.differences[:most]]
    return html_document("Shadow report", "".join(body))


def _table(title: str, rows: Iterator[tuple[int, str]]) -> str:
    cells = "".join(
        f'<tr><td class="n">{count}</td><td>{escape(text)}</td></tr>' for count, text in rows
    )
    return f"<h2>{escape(title)}</h2><table>{cells}</table>" if cells else ""


def _entry(entry: ShadowEntry) -> str:
    points = "".join(
        f'<tr><td>{escape(each.plugin)}</td><td class="n">{each.chosen}</td>'
        f'<td class="n">{each.other}</td></tr>'
        for each in entry.points
    )
    if points:
        head = (
            f'<tr><th>plugin</th><th class="n">{escape(entry.own_node)}</th>'
            f'<th class="n">{escape(entry.node)}</th></tr>'
        )
        points = f'<div class="wide"><table>{head}{points}</table></div>'
    return (
        f"<p><b>{escape(entry.pod)}</b>: {escape(_difference(entry))} "
        f'<span class="dim">{escape(entry.at)}</span></p>'
        f"<p>{escape(entry.summary.strip())}</p>{points}"
    )
