"""The location of the goldens, and a reader of their files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["GOLDENS", "read_lines"]

GOLDENS = Path(__file__).resolve().parents[1] / "goldens"


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Return the JSON objects of a file with one per line, compressed or not."""
    raw = path.read_bytes()
    content = gzip.decompress(raw) if path.suffix == ".gz" else raw
    for line in content.splitlines():
        yield json.loads(line)
