"""A page with the results: one file, nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import resources

import msgspec

from kubesched.sim.compare import Comparison
from kubesched.sim.divergence import Divergence
from kubesched.sim.results import RunResult
from kubesched.sim.summary import summary_text
from kubesched.sim.values import format_duration

__all__ = ["report_html"]


def report_html(
    results: Sequence[RunResult],
    comparisons: Sequence[Comparison],
    divergence: Divergence | None = None,
) -> str:
    """The page. Plots can be hovered; configurations are drawn over each other."""
    template = resources.files("kubesched.sim").joinpath("report_page.html").read_text("utf-8")
    data = {
        "runs": [
            {"configuration": each.configuration, "seed": each.seed, "series": each.series}
            for each in results
        ],
    }
    title = results[0].scenario if results else "no runs"
    parts = {
        "@TITLE@": html.escape(title),
        "@SENTENCES@": "".join(f"<p>{html.escape(each.sentence())}.</p>" for each in comparisons),
        "@DIVERGENCE@": _divergence(divergence),
        "@TABLES@": "".join(map(_table, comparisons)),
        "@SUMMARY@": html.escape(summary_text(results)),
        # Nothing in the data may end the script that it stands in.
        "@DATA@": msgspec.json.encode(data).decode().replace("<", "\\u003c"),
    }
    for mark, text in parts.items():
        template = template.replace(mark, text)
    return template


def _divergence(found: Divergence | None) -> str:
    if found is None:
        return ""
    because = "".join(f"<li>{html.escape(line)}</li>" for line in found.because)
    reasons = f"<ul>{because}</ul>" if because else ""
    return f"<p>Where they differ first: {html.escape(found.sentence())}.</p>{reasons}"


def _table(comparison: Comparison) -> str:
    first, second = html.escape(comparison.first), html.escape(comparison.second)
    rows = "".join(
        f"<tr{' class=clear' if each.is_clear else ''}><th>{html.escape(each.measure)}</th>"
        f"<td>{_number(each.measure, each.first)}</td><td>{_number(each.measure, each.second)}</td>"
        f"<td>{_number(each.measure, each.difference)}</td>"
        f"<td>{_number(each.measure, each.low)} … {_number(each.measure, each.high)}</td></tr>"
        for each in comparison.differences
    )
    return (
        f"<table><caption>{second} against {first}, {comparison.seeds} seeds</caption>"
        f"<thead><tr><th></th><th>{first}</th><th>{second}</th><th>difference</th>"
        f"<th>95 % interval</th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _number(measure: str, value: float) -> str:
    if "time to" in measure:
        sign = "-" if value < 0 else ""
        return sign + format_duration(abs(round(value * 1e9)))
    if measure.endswith(("allocated", "used", "stranded", "fragmented", "imbalance")):
        return f"{100 * value:.2f} %"
    return f"{value:,.2f}"
