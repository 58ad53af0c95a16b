"""The result of a run as a page of the documentation, and its total in the README."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tests.conformance.comparison import FamilyCount
from tests.conformance.report import notes, summary

__all__ = ["PAGE", "README_SUM", "claimed", "page", "write_documents"]

_ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = _ROOT / "docs" / "conformance.md"
README: Final = _ROOT / "README.md"
# The total in the README: `**N of M identical**`.
README_SUM: Final = re.compile(r"\*\*\d+ of \d+ identical\*\*")

_HEAD: Final = """\
# How close to the reference

Written by `make conformance`; do not edit. Every step is a decision, a queueing hint, a
configuration, a scenario of pod groups, a sum of requests or a quantity that was recorded from
kube-scheduler v1.36.4 ([tests/goldens](../tests/goldens/README.md)). A step is *identical* if every
recorded field is: rejections with their reasons, scores, the choice, messages, victims; of pod
groups the nodes, conditions and events in the end. It *waits* if it needs a part that is not built
yet, which the last column names. `python -m tests.conformance --show NAME`
prints a scenario with expected and got side by side. One difference that
[differences.md](differences.md) lists is part of what is expected: the hint of InterPodAffinity for
a new node.

| family | steps | identical | differing | waiting | fields that differ, parts that are needed |
|---|---:|---:|---:|---:|---|
"""
_ROW: Final = re.compile(r"^\| (\S+) \| (\d+) \| (\d+) \| \d+ \| \d+ \|", re.MULTILINE)


def page(counts: Iterable[FamilyCount]) -> str:
    counts = list(counts)
    rows = "".join(
        f"| {family.family} | {family.steps} | {family.identical} | {family.differing} "
        f"| {family.waiting} | {notes(family)} |\n"
        for family in counts
    )
    return f"{_HEAD}{rows}\n**{summary(counts)}**\n"


def claimed(text: str) -> Mapping[str, tuple[int, int]]:
    """Return the number of steps and of identical steps per family, read from a page."""
    return {family: (int(steps), int(same)) for family, steps, same in _ROW.findall(text)}


def write_documents(counts: Iterable[FamilyCount]) -> None:
    """Write the page, and its total into the README."""
    counts = list(counts)
    PAGE.write_text(page(counts))
    README.write_text(README_SUM.sub(f"**{summary(counts)}**", README.read_text()))
