"""The built page is up to date with its sources. `make ui` builds it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

UI = Path(__file__).resolve().parents[2] / "ui"
# The files that a build depends on, as in ui/vite.config.ts.
SOURCES = (
    "index.html",
    "package-lock.json",
    "package.json",
    "public",
    "src",
    "tsconfig.json",
    "vite.config.ts",
)
# Generated types do not affect the built files.
TYPES_ONLY = ("src/wire.ts",)


def files_in(path: str) -> Iterator[str]:
    if (UI / path).is_dir():
        for name in sorted(each.name for each in (UI / path).iterdir()):
            yield from files_in(f"{path}/{name}")
    else:
        yield path


def test_the_built_files_are_those_of_the_sources() -> None:
    digest = hashlib.sha256()
    for source in SOURCES:
        for path in files_in(source):
            if path not in TYPES_ONLY:
                digest.update(f"{path}\0".encode() + (UI / path).read_bytes() + b"\0")
    static = resources.files("kubesched.dashboard") / "static"
    built_from = (static / "built-from.txt").read_text().strip()
    assert built_from == digest.hexdigest(), "the page is stale: run `make ui`"


def test_the_page_loads_nothing_that_is_not_in_the_package() -> None:
    static = resources.files("kubesched.dashboard") / "static"
    page = (static / "index.html").read_text()
    assert "http://" not in page
    assert "https://" not in page
    for name in ("assets/index.js", "assets/index.css", "icon.svg"):
        assert f"./{name}" in page
        assert (static / name).is_file()
