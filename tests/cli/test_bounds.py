"""The document lists every bound with the figure that the code compares with."""

from __future__ import annotations

from pathlib import Path

from kubesched.cli.bounds import BOUNDS, bounds_table

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"


def test_the_document_has_the_table() -> None:
    assert f"\n\n{bounds_table()}\n\n" in DOCUMENT.read_text(), (
        "print it with: python -m kubesched.cli.bounds"
    )


def test_every_bound_is_listed_once() -> None:
    names = [each.of for each in BOUNDS]
    assert sorted(set(names)) == sorted(names)
