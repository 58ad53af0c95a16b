"""The fenced blocks of a document: files, commands with their output, Python, and text.

A comment `<!-- not run: reason -->` in front of a block excludes it from the tests. A comment
`<!-- then run: command -->` is a command between two blocks. A reader of the page sees neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(
    r"(?:^[ ]*<!-- not run: (?P<reason>.+?) -->\n)?"
    r"^(?P<indent>[ ]*)(?P<fence>`{3,})(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n"
    r"(?P<text>.*?)^(?P=indent)(?P=fence)[ ]*$",
    re.DOTALL | re.MULTILINE,
)
UNSEEN = re.compile(r"^ *<!-- then run: (.+?) -->$", re.MULTILINE)
HERE_DOCUMENT = re.compile(r"<<-?\s*'?(\w+)'?")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    title: str
    text: str
    reason: str  # why it is not run; empty if it is

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the lines of output that the page shows."""

    line: str
    shown: tuple[str, ...]


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page, named from the repository's root, in their order."""
    text = (ROOT / page).read_text()

    def line(position: int) -> int:
        return text.count("\n", 0, position) + 1

    fenced = [
        Block(
            page,
            line(found.start("fence")),
            found["language"],
            found["title"] or "",
            dedent(found["text"]) if found["indent"] else found["text"],
            found["reason"] or "",
        )
        for found in FENCE.finditer(text)
    ]
    unseen = [
        Block(page, line(found.start()), "console", "", f"$ {found[1]}\n", "")
        for found in UNSEEN.finditer(text)
    ]
    return sorted(fenced + unseen, key=lambda block: block.line)


def commands_of(block: Block) -> list[Command]:
    """Return the commands of a console block: lines after `$`, with what continues them."""
    assert block.text.startswith("$ "), f"{block.place}: a console begins with a command"
    return [_command(lines) for lines in _split(block.text.splitlines())]


def _split(lines: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for line in lines:
        if line.startswith("$ ") and part:
            yield part
            part = []
        part.append(line)
    yield part


def _command(lines: list[str]) -> Command:
    length = 1
    if end := HERE_DOCUMENT.search(lines[0]):
        length = lines.index(end[1]) + 1
    while lines[length - 1].endswith("\\"):
        length += 1
    return Command("\n".join(lines[:length]).removeprefix("$ "), tuple(lines[length:]))


def missing_line(shown: tuple[str, ...], printed: str) -> str | None:
    """Return the first shown line that the output does not have in this order.

    `…` stands for any text, and a line of its own for any lines.
    """
    lines = iter(line.rstrip() for line in printed.splitlines())
    for wanted in shown:
        parts = [re.escape(part) for part in wanted.rstrip().split("…")]
        pattern = re.compile(".*".join(parts))
        if wanted.strip() in ("", "…"):
            continue
        if not any(pattern.fullmatch(line) for line in lines):
            return wanted
    return None
