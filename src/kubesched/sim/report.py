"""The HTML report of a simulation: one self-contained file."""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib import resources

import msgspec

import kubesched
from kubesched.api.time import format_time
from kubesched.foundation.util.clock import SECOND
from kubesched.sim.compare import Comparison, Difference
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
    """Return the page. Each plot shows all configurations, with values on hover."""
    template = resources.files("kubesched.sim").joinpath("report_page.html").read_text("utf-8")
    data = {
        "runs": [
            {
                "configuration": each.configuration,
                "seed": each.seed,
                "series": each.series,
                "time_to_bind": each.time_to_bind,
                "time_to_run": each.time_to_run,
                "by_priority": each.by_priority,
            }
            for each in results
        ],
        "start_s": (results[0].start_ns if results else 0) // SECOND,
    }
    title = results[0].scenario if results else "no runs"
    parts = {
        "@TITLE@": html.escape(title),
        "@FACTS@": html.escape(_facts(results)),
        "@SENTENCES@": "".join(
            f'<p class="lead">{html.escape(each.sentence())}.</p>' for each in comparisons
        ),
        "@DIVERGENCE@": _divergence(divergence),
        "@TABLES@": "".join(map(_table, comparisons)),
        "@SUMMARY@": html.escape(summary_text(results)),
        # The data must not contain `</script>`.
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
    sentence = html.escape(found.sentence())
    return f'<div class="first">Where they differ first: {sentence}.{reasons}</div>'


def _facts(results: Sequence[RunResult]) -> str:
    if not results:
        return "no run is finished"
    first = results[0]
    names = list(dict.fromkeys(each.configuration for each in results))
    seeds = len({each.seed for each in results})
    parts = (
        f"{format_duration(round(first.virtual_s * 1e9))} from {format_time(first.start_ns)}",
        f"{', '.join(names)}",
        f"{len(results)} {'run' if len(results) == 1 else 'runs'}",
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}",
        f"{sum(each.counts.get('created', 0) for each in results):,} pods",
        f"kubesched {kubesched.__version__}",
    )
    return " · ".join(parts)


def _table(comparison: Comparison) -> str:
    first, second = html.escape(comparison.first), html.escape(comparison.second)
    rows = "".join(
        f"<tr{' class=clear' if each.is_clear else ''}><th>{html.escape(each.measure)}</th>"
        f"<td>{_number(each.measure, each.first)}</td><td>{_number(each.measure, each.second)}</td>"
        f"<td>{_number(each.measure, each.difference)}</td>"
        f"<td>{_number(each.measure, each.low)} … {_number(each.measure, each.high)}</td>"
        f"<td>{_bar(each)}</td></tr>"
        for each in comparison.differences
    )
    return (
        f"<table><caption>{second} against {first}, {comparison.seeds} seeds</caption>"
        f"<thead><tr><th></th><th>{first}</th><th>{second}</th><th>difference</th>"
        f"<th>95 % interval</th><th></th></tr></thead><tbody>{rows}</tbody></table>"
    )


def _bar(each: Difference) -> str:
    """Return an SVG of the interval around zero, scaled to its larger end."""
    reach = max(abs(each.low), abs(each.high))
    if not reach:
        return ""
    place = {name: 60 + 55 * getattr(each, name) / reach for name in ("low", "high", "difference")}
    width = max(place["high"] - place["low"], 1)
    return (
        '<svg width="120" height="14" viewBox="0 0 120 14" aria-hidden="true">'
        '<path d="M60 0V14" class="axis"/>'
        f'<rect x="{place["low"]:.1f}" y="5" width="{width:.1f}" height="4" rx="2" '
        f'fill="{"#2f6fd0" if each.is_clear else "#9aa7b5"}" opacity=".55"/>'
        f'<circle cx="{place["difference"]:.1f}" cy="7" r="3.5" '
        f'fill="{"#2f6fd0" if each.is_clear else "#9aa7b5"}"/></svg>'
    )


def _number(measure: str, value: float) -> str:
    if "time to" in measure:
        sign = "-" if value < 0 else ""
        return sign + format_duration(abs(round(value * 1e9)))
    if measure.endswith(("allocated", "used", "stranded", "fragmented", "imbalance")):
        return f"{100 * value:.2f} %"
    return f"{value:,.2f}"
