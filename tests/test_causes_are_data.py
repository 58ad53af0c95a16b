"""Source code reads causes; it never parses the text of a reason, an event or a condition."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "kubesched"

# The API server's own refusals have reasons and messages, too; they are not about scheduling.
OTHER_TEXTS = "cluster/apiserver/"

# Tests of substrings, and expressions that match texts of the scheduler.
PARSING = re.compile(
    r"""
      \bin\s+(\w+\.)*(reason|message|note)\b(?!s)    # "..." in reason
    | \b(reason|message|note)\.(startswith|endswith|removeprefix|removesuffix|r?partition|split)\(
    | \b(reason|message|note)\b\s*==\s*f?"(?!")[^"]*\s   # reason == "Too many pods"
    | re\.\w+\(.*(nodes\ are\ available|Insufficient|node\(s\))
    """,
    re.VERBOSE,
)
LOOP = re.compile(r"\bfor\s+[\w, ()]+\s+in\s")


def test_no_text_of_a_reason_is_parsed() -> None:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = str(path.relative_to(SOURCE))
        if name.startswith(OTHER_TEXTS):
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            if PARSING.search(line) and not LOOP.search(line):
                found.append(f"{name}:{number}: {line.strip()}")
    assert not found


def test_the_patterns_find_what_was_there() -> None:
    for line in (
        'if "max volume count" in reason:',
        'if "Insufficient" in status.message:',
        'if reason.startswith("Insufficient "):',
        'if reason == "Too many pods":',
        'PARTS = re.compile(r"(\\d+) nodes are available")',
    ):
        assert PARSING.search(line), line
