"""The panel of measured load on the page: its age, and the nodes with the highest load."""

from __future__ import annotations

from kubesched.contrib.trimaran.load_sources import LoadReport, NodeLoad
from kubesched.framework import MOST_PANEL_ROWS, Panel, PanelMark, PanelMeter, PanelRow
from kubesched.framework.panels import Tone

__all__ = ["load_panel"]

_SECOND_NS = 10**9


def load_panel(
    report: LoadReport, source: str, problem: str, *, is_current: bool, now_ns: int
) -> Panel:
    """Return the age of the report, and its nodes ordered by CPU load."""
    title = f"Measured load from {source}"
    failed = f" The last reading failed: {problem}" if problem else ""
    if not report.nodes:
        text = "No metrics have been read, so all nodes have the score 0."
        return Panel(title, f"{text}{failed}", "bad" if problem else "warm")
    age_s = max(now_ns - report.end_ns, 0) // _SECOND_NS
    summary = f"{len(report.nodes)} nodes, {age_s} s old.{failed}"
    if not is_current:
        summary = f"The metrics are {age_s} s old, so they are not used.{failed}"
    ordered = sorted(report.nodes.items(), key=lambda item: (-(item[1].cpu_mean or 0.0), item[0]))
    rows = tuple(_row(name, load) for name, load in ordered[:MOST_PANEL_ROWS])
    tone: Tone = "bad" if not is_current else "warm" if problem else ""
    return Panel(title, summary, tone, rows, len(ordered) - len(rows))


def _row(name: str, load: NodeLoad) -> PanelRow:
    meters = [
        _meter("cpu", load.cpu_mean, load.cpu_deviation),
        _meter("memory", load.memory_mean, load.memory_deviation),
    ]
    return PanelRow(name, node=name, meters=tuple(each for each in meters if each is not None))


def _meter(name: str, mean: float | None, deviation: float) -> PanelMeter | None:
    if mean is None:
        return None
    text = f"{mean:.0f} %"
    marks: tuple[PanelMark, ...] = ()
    if deviation:
        text = f"{mean:.0f} ± {deviation:.0f} %"
        marks = (PanelMark(min((mean + deviation) / 100, 1.0), "mean and deviation"),)
    return PanelMeter(name, min(max(mean / 100, 0.0), 1.0), text, marks)
