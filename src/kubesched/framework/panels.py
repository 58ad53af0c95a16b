"""What a plugin shows of its own state on the page: panels of rows with meters.

Quotas, groups or measurements are state that pods and nodes do not show. A plugin returns it from
`Plugin.panels`, and the page draws it under "Plugins". Requests of the page call that method, the
scheduling path never does.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = ["MOST_PANEL_ROWS", "Panel", "PanelMark", "PanelMeter", "PanelRow", "Tone"]

# A panel shows so many rows; `Panel.more` is the number of the others.
MOST_PANEL_ROWS: Final = 200

Tone = Literal["", "good", "warm", "bad"]


class PanelMark(msgspec.Struct, frozen=True):
    """A mark on a meter, such as what is guaranteed."""

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
    """One object of the plugin: a quota, a group, a node."""

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
