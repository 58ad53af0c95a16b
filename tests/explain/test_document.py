"""Screens in docs/explain.md equal the output; UPDATE_SNAPSHOTS=1 rewrites them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kubesched.explain import Snapshot
from kubesched.explain.text import render
from kubesched.foundation.util.clock import ManualClock
from tests.explain.causes import CAUSES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "explain.md"
SCREEN = re.compile(r"<!-- (screen|first lines): (.*?) -->\n```text\n(.*?)```\n", re.DOTALL)


def screen(kind: str, name: str) -> str:
    cause = CAUSES[name]
    answer = Snapshot([*cause.objects, cause.pod], clock=ManualClock()).explain(cause.pod)
    text = render(answer, width=100)
    return text if kind == "screen" else text.partition("\n\n")[0]


def test_screens_are_what_is_printed() -> None:
    text = DOCUMENT.read_text()
    made = SCREEN.sub(
        lambda match: (
            f"<!-- {match[1]}: {match[2]} -->\n```text\n{screen(match[1], match[2])}\n```\n"
        ),
        text,
    )
    if os.environ.get("UPDATE_SNAPSHOTS"):
        DOCUMENT.write_text(made)
    assert len(SCREEN.findall(text)) > 12
    assert made == text or os.environ.get("UPDATE_SNAPSHOTS")
