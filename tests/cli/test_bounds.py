"""The document lists every bound with the figure that the code compares with."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from kubesched.cli.bounds import BOUNDS, bounds_table

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "reliability.md"
PACKAGE = ROOT / "src" / "kubesched"
OPTIONAL = PACKAGE / "contrib"
TABLE = PACKAGE / "cli" / "bounds.py"

# Public constants with the name of a limit that bound nothing, each with the reason.
NO_BOUNDS = {
    "api.int64.MAX_INT64": "the range of the type int64",
    "foundation.cel.language.cel_values.MAX_INT": "the range of the type int",
    "foundation.cel.language.cel_values.MAX_UINT": "the range of the type uint",
    "framework.plugin.MAX_NODE_SCORE": "the range of scores, part of the plugin contract",
    "scheduler.config.args.MOST_ALLOCATED": "the name of a scoring strategy",
    "scheduler.config.plugin_lists.MAX_NODE_SCORE": "the range of scores, for weights",
}


def test_the_document_has_the_table() -> None:
    assert f"\n\n{bounds_table()}\n\n" in DOCUMENT.read_text(), (
        "print it with: python -m kubesched.cli.bounds"
    )


def test_every_bound_is_listed_once() -> None:
    names = [each.of for each in BOUNDS]
    assert sorted(set(names)) == sorted(names)


def test_every_limit_of_the_package_is_in_the_table() -> None:
    limits, listed = set(_limits()), set(_listed())
    assert limits - listed == NO_BOUNDS.keys(), "add a row to kubesched/cli/bounds.py"


def _limits() -> Iterator[str]:
    """Yield the public constants of all modules that have the name of a limit.

    The command line does not import the optional plugins: their limits are in `docs/contrib/`.
    """
    for path in sorted(set(PACKAGE.rglob("*.py")) - set(OPTIONAL.rglob("*.py"))):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for name in _assigned(ast.parse(path.read_text())):
            if re.match("(MOST|LARGEST|LONGEST|MAX)_", name):
                yield f"{module}.{name}"


def _assigned(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets):
                yield from (each.id for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def _listed() -> Iterator[str]:
    """Yield the constants that rows of the table read."""
    tree = ast.parse(TABLE.read_text())
    modules = {
        alias.name: f"{node.module}.{alias.name}".removeprefix("kubesched.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield f"{modules.get(node.value.id, node.value.id)}.{node.attr}"
