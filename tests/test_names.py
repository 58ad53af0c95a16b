"""Names of classes and files are unique in the package, so that a search finds one result."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "kubesched"

# Classes that share a name on purpose: Kubernetes has both, or a public protocol of the framework
# and its implementation, or a public name of two rooms.
SHARED_CLASS_NAMES = {
    "Event": {"api/core.py", "api/events.py"},
    "NodeAffinity": {"api/affinity.py", "scheduler/plugins/node_affinity/plugin.py"},
    "Snapshot": {"framework/handle.py", "explain/snapshot.py"},
    "Status": {"api/meta.py", "framework/status.py"},
}
# The regular shape of a plugin's folder.
SHAPE_OF_A_PLUGIN = {
    "__init__.py",
    "explaining.py",
    "filtering.py",
    "hints.py",
    "plugin.py",
    "scoring.py",
}


def test_a_public_class_name_exists_once() -> None:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in _public_classes(path):
            found[name].add(str(path.relative_to(PACKAGE)))
    repeated = {name: files for name, files in found.items() if len(files) > 1}
    assert repeated == SHARED_CLASS_NAMES


def test_a_file_name_exists_once() -> None:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.name not in SHAPE_OF_A_PLUGIN:
            found[path.name].append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def _public_classes(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name
