"""Panels with which a plugin shows its own state on the page: rows with meters.

Quotas, groups or measurements are state that pods and nodes do not show. A plugin returns panels
from `Plugin.panels`, and the page draws them under "Plugins". Only requests of the page call that
method, never the scheduling path.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = ["MOST_PANEL_ROWS", "Panel", "PanelMark", "PanelMeter", "PanelRow", "Tone"]

# The maximum number of rows of a panel; `Panel.more` is the number of omitted rows.
MOST_PANEL_ROWS: Final = 200

Tone = Literal["", "good", "warm", "bad"]


class PanelMark(msgspec.Struct, frozen=True):
    """A mark on a meter, such as a guaranteed amount."""

    share: float  # of the meter's width, from 0 to 1
    text: str


class PanelMeter(msgspec.Struct, frozen=True):
    """A bar."""

    name: str
    share: float  # how much of it is filled, from 0 to 1
    text: str  # such as `6 of 8`
    marks: tuple[PanelMark, ...] = ()
    tone: Tone = ""


class PanelRow(msgspec.Struct, frozen=True):
    """One object of the plugin, such as a quota, a group or a node."""

    name: str
    state: str = ""  # in a word or two
    tone: Tone = ""
    text: str = ""  # a sentence
    meters: tuple[PanelMeter, ...] = ()
    pods: tuple[str, ...] = ()  # as namespace/name: the page links to them
    node: str = ""  # the page links to it


class Panel(msgspec.Struct, frozen=True):
    """A table of the plugin's objects."""

    title: str
    summary: str = ""
    tone: Tone = ""
    rows: tuple[PanelRow, ...] = ()
    more: int = 0
