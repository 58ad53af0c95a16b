"""The page of mutants is written row by row, and read again when a run is resumed."""

from __future__ import annotations

from pathlib import Path

from tests.fault_injection.mutants.catalog import MUTANTS, Detection
from tests.fault_injection.mutants.mutant_page import (
    MutantRow,
    detected_rows,
    page_of,
    read_rows,
)

FIRST, SECOND, THIRD = list(MUTANTS)[:3]


def test_a_page_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = {
        FIRST: MutantRow(7, "0123abcd", "p1 waits"),
        SECOND: MutantRow(None, "0123abcd+", "the code never reads Cache.nodes"),
    }
    page = tmp_path / "mutants.md"
    page.write_text(page_of(rows))
    assert read_rows(page) == rows
    assert "1 of 2 mutants are detected." in page.read_text()


def test_there_are_no_rows_without_a_page(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "missing.md") == {}


def test_only_detected_mutants_need_no_other_run() -> None:
    rows = {FIRST: MutantRow(7, "a", "p1 waits"), SECOND: MutantRow(None, "a", "")}
    assert detected_rows(rows, [FIRST, SECOND, THIRD]) == {FIRST: rows[FIRST]}


def test_a_violation_cannot_break_the_table() -> None:
    uid = "3dd2b462-137f-4b1b-9860-437ce43d966e"
    row = MutantRow.of(Detection(3, f"pod {uid} | <b>\nis lost"), "a")
    assert row.text == "pod … \\| &lt;b> is lost"
