"""The panel of groups on the page: how many pods have a node, and why the others wait."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api import pod_key
from kubesched.contrib.coscheduling.gangs import Gang, Gangs
from kubesched.framework import Panel, PanelMark, PanelMeter, PanelRow
from kubesched.framework.panels import Tone

__all__ = ["group_panel"]

_PODS_SHOWN = 5
# Waiting groups come first.
_ORDER = {"bad": 0, "warm": 1, "": 2, "good": 3}


def group_panel(
    gangs: Gangs, phase_of: Callable[[str], str], reason_of: Callable[[Gang], str]
) -> Panel:
    """Return a row for each group.

    `phase_of` returns the phase in a group's status by its key, `reason_of` why it was rejected.
    """
    rows = [_row(gang, phase_of(gang.key), reason_of(gang)) for gang in gangs]
    rows.sort(key=lambda row: (_ORDER[row.tone], row.name))
    waiting = sum(1 for row in rows if row.tone in ("bad", "warm"))
    if not rows:
        return Panel("Pod groups", "There is no PodGroup.")
    summary = "All of them are placed." if not waiting else f"{waiting} of {len(rows)} wait."
    return Panel("Pod groups", summary, rows=tuple(rows))


def _row(gang: Gang, phase: str, reason: str) -> PanelRow:
    state, tone, text = _state(gang, phase, reason)
    least = 0 if gang.spec is None else gang.spec.min_member
    width = max(least, len(gang.members), 1)
    share = f"{gang.placed} of {least}" if least else str(gang.placed)
    meter = PanelMeter(
        "pods with a node",
        min(gang.placed / width, 1.0),
        share,
        (PanelMark(least / width, f"minMember {least}"),) if 0 < least < width else (),
    )
    pending = sorted(map(pod_key, gang.pending()))[:_PODS_SHOWN]
    return PanelRow(gang.key, state, tone, text, (meter,), tuple(pending))


def _state(gang: Gang, phase: str, reason: str) -> tuple[str, Tone, str]:
    """Return the state of a group in a word or two, its tone, and a sentence."""
    if gang.spec is None:
        return "no PodGroup", "bad", "Its pods name a PodGroup that does not exist."
    if phase in ("Finished", "Failed") and not gang.members:
        return phase.lower(), "good" if phase == "Finished" else "bad", ""
    least = gang.spec.min_member
    if gang.is_complete:
        late = len(gang.pending())
        return "placed", "good", f"{late} further pods wait." if late else ""
    if gang.waiting:
        missing = least - gang.placed
        text = f"{len(gang.waiting)} pods hold a node until {missing} more have one."
        return "holds nodes", "warm", text
    if gang.ungated < least:
        gated = f" {len(gang.gated)} are held back by scheduling gates." if gang.gated else ""
        return "incomplete", "warm", f"{gang.ungated} of the {least} pods it needs exist.{gated}"
    return "waits", "warm", reason
