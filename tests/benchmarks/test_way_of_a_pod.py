"""The number of files that a pod passes through on its way to a node is small."""

from __future__ import annotations

import asyncio

from benchmarks.way_of_a_pod import files_on_the_way

MOST_FILES = 36


def test_a_pod_passes_through_few_files() -> None:
    files = asyncio.run(files_on_the_way())
    assert "scheduler/search/cached_search.py" in files
    assert len(files) <= MOST_FILES, "\n".join(files)
