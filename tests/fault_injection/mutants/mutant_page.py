"""The page with all mutants and the seeds that detect them: `docs/mutants.md`.

A run writes the page after each mutant, so a run that is interrupted can be resumed. Each row names
the commit that its run was made of.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.fault_injection.mutants.catalog import MUTANTS, Detection

__all__ = ["MutantRow", "current_commit", "detected_rows", "page_of", "read_rows"]

_NONE = "none"
_LONGEST_TEXT = 160
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
_ROW = re.compile(r"\| (?P<name>.+?) \| (?P<seed>\d+|none) \| `(?P<commit>\S+)` \| (?P<text>.*) \|")


class MutantRow(NamedTuple):
    """One row: what a run has found, and the commit of the code that ran."""

    seed: int | None
    commit: str
    text: str

    @classmethod
    def of(cls, found: Detection, commit: str) -> MutantRow:
        # Uids differ between runs of different versions, and say nothing.
        text = _UID.sub("…", found.text[:_LONGEST_TEXT]).replace("|", "\\|").replace("<", "&lt;")
        return cls(found.seed, commit, " ".join(text.split()))


def current_commit() -> str:
    """Return the commit that is checked out, with a `+` if tracked files have changes."""
    folder = Path(__file__).parent

    def git(*args: str) -> str:
        command = ["git", "-C", str(folder), *args]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--short=8", "HEAD") or "unknown"
    is_changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/src", ":/tests")
    return f"{commit}+" if is_changed else commit


def read_rows(page: Path) -> dict[str, MutantRow]:
    """Return the rows of a page by mutant; empty if there is no such page."""
    if not page.exists():
        return {}
    rows = {}
    for line in page.read_text().splitlines():
        if (found := _ROW.fullmatch(line)) and found["seed"]:
            seed = None if found["seed"] == _NONE else int(found["seed"])
            rows[found["name"]] = MutantRow(seed, found["commit"], found["text"])
    return rows


def detected_rows(rows: Mapping[str, MutantRow], names: Iterable[str]) -> dict[str, MutantRow]:
    """Return the rows of these mutants that need no other run."""
    return {name: rows[name] for name in names if name in rows and rows[name].seed is not None}


def page_of(rows: Mapping[str, MutantRow]) -> str:
    """Return the page, with the mutants in the order of the catalog."""
    shown = {name: rows[name] for name in MUTANTS if name in rows}
    count = sum(row.seed is not None for row in shown.values())
    lines = [
        "# Mutants and the seeds that detect them",
        "",
        "`python -m tests.fault_injection --mutants --write docs/mutants.md` writes this page",
        "after each mutant. With `--resume` the run skips mutants that the page has as detected.",
        "[reliability.md](reliability.md#mutants) says what a mutant is. A commit with a `+` had",
        "changes that were not committed yet.",
        "",
        f"{count} of {len(shown)} mutants are detected.",
        "",
        "| mutant | seed | commit | first violation |",
        "|---|---|---|---|",
    ]
    for name, row in shown.items():
        seed = _NONE if row.seed is None else row.seed
        text = row.text or "not detected"
        lines.append(f"| {name} | {seed} | `{row.commit}` | {text} |")
    return "\n".join(lines) + "\n"
