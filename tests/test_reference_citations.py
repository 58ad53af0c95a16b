"""Citations of the reference chapters name sections that exist: docs/reference/NN §SECTION."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = {
    path.name[:2]: path.read_text()
    for path in sorted((ROOT / "docs" / "reference").glob("[0-9][0-9]-*.md"))
}
CITING = ("src", "tests", "benchmarks", "examples", "docs", "deploy")

# A heading's number, or that of a paragraph that begins with it in bold: `## 3.`, `**10.2 Title`.
HEADING = re.compile(r"^(?:#+ |\*\*)(\d+(?:\.\d+)*)\.? ", re.MULTILINE)
# Words and marks that may occur between the sections of one citation, also across line ends.
_BETWEEN = r"(?:,|;|\s|#|and|to|of|rows? [\d, -]+|cases? [\d-]+(?: to \d+| and \d+)*)*"
CITATION = re.compile(rf"docs/reference/(\d\d)((?:{_BETWEEN}(?:\d\d )?§\d+(?:\.\d+)*)*)")
SECTION = re.compile(r"(?:(\d\d) )?§(\d+(?:\.\d+)*)")
OTHER_SOURCE = re.compile(r"RFC \d+, §[\d.]+")


def citations(text: str) -> Iterator[tuple[str, str]]:
    """Return chapter and section of each citation; a chapter alone has an empty section."""
    for match in CITATION.finditer(text):
        chapter = match[1]
        sections = SECTION.findall(match[2])
        if not sections:
            yield chapter, ""
        for other, section in sections:
            chapter = other or chapter
            yield chapter, section


def citing_files() -> list[Path]:
    found = [
        path
        for folder in CITING
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".md", ".yaml") and path != Path(__file__)
    ]
    own = (ROOT / "docs" / "reference", ROOT / "tests" / "goldens")
    return [path for path in found if not any(path.is_relative_to(folder) for folder in own)]


def test_every_citation_has_its_heading() -> None:
    sections = {number: set(HEADING.findall(text)) for number, text in CHAPTERS.items()}
    seen, missing = 0, []
    for path in citing_files():
        for chapter, section in citations(path.read_text()):
            seen += 1
            if section not in sections.get(chapter, ()) and (section or chapter not in sections):
                missing.append(f"{path.relative_to(ROOT)}: {chapter} §{section}")
    assert missing == []
    assert seen > 200


def test_no_section_is_cited_without_its_chapter() -> None:
    loose = []
    for path in citing_files():
        text = OTHER_SOURCE.sub("", CITATION.sub("", path.read_text()))
        if path.name == "style.md":
            continue  # refers to its own sections
        loose += [
            f"{path.relative_to(ROOT)}: {line.strip()}" for line in text.splitlines() if "§" in line
        ]
    assert loose == []


EXAMPLES = {
    "one": ("(docs/reference/04 §11).", [("04", "11")]),
    "several of a chapter": ("docs/reference/02 §8.2, §8.3", [("02", "8.2"), ("02", "8.3")]),
    "of two chapters": ("docs/reference/01 §6, 03 §4.1", [("01", "6"), ("03", "4.1")]),
    "over a line's end": ("# docs/reference/06\n# §3.8", [("06", "3.8")]),
    "a range": ("docs/reference/04 §3 to §6.", [("04", "3"), ("04", "6")]),
    "rows of a table": ("docs/reference/01 §7; §17 rows 25-47", [("01", "7"), ("01", "17")]),
    "a chapter": ("see docs/reference/09.", [("09", "")]),
}


@pytest.mark.parametrize(("text", "want"), EXAMPLES.values(), ids=EXAMPLES)
def test_citations_are_found(text: str, want: list[tuple[str, str]]) -> None:
    assert list(citations(text)) == want
