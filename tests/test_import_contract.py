"""The import contract: which parts may import which, and use sockets, clocks or randomness."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
STYLE_GUIDE = SOURCE.parent / "docs" / "style.md"

# Part of the package -> the parts that it may import, besides itself. A module belongs to the
# longest name that fits: `kubesched.scheduler.runtime.ties` to `scheduler.runtime`. `docs/style.md`
# has the same table.
_BASE = frozenset(["errors", "api", "foundation.util", "foundation.metrics"])
_CONTRACT = _BASE | {"framework", "framework.engine", "scheduler.config"}
_BELOW_THE_LOOP = _CONTRACT | {
    "foundation.cel",
    "foundation.client",
    "scheduler.plugins",
    "scheduler.runtime",
    "scheduler.backend",
}
_SCHEDULER = _BELOW_THE_LOOP | {
    "foundation.http",
    "scheduler",
    "scheduler.server",
    "scheduler.process",
}
_EMBEDDED = frozenset(["cluster.apiserver", "cluster.nodes", "cluster.controllers"])
_CLUSTER = _SCHEDULER | _EMBEDDED | {"cluster"}
MAY_IMPORT: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "api": frozenset(["errors"]),
    "foundation.util": frozenset(["errors"]),
    "foundation.http": frozenset(["errors", "foundation.util"]),
    "foundation.metrics": frozenset(["errors", "foundation.util"]),
    "foundation.cel": frozenset(["errors", "api", "foundation.util"]),
    "foundation.client": _BASE,
    "framework.engine": frozenset(["errors", "api", "foundation.util"]),
    "framework": frozenset(["errors", "api", "foundation.util", "framework.engine"]),
    "scheduler.config": frozenset(["errors", "api", "foundation.util"]),
    "scheduler.plugins": (_CONTRACT | {"foundation.cel"}) - {"foundation.metrics"},
    "scheduler.runtime": _CONTRACT,
    "scheduler.backend": _CONTRACT - {"scheduler.config"},
    "scheduler.server": _BASE | {"foundation.client", "foundation.http", "scheduler.config"},
    "scheduler": _BELOW_THE_LOOP,
    "scheduler.process": _BELOW_THE_LOOP | {"scheduler", "scheduler.server", "foundation.http"},
    "cluster.apiserver": _BASE | {"foundation.cel", "foundation.http"},
    "cluster.nodes": _BASE | {"foundation.client", "cluster.apiserver"},
    "cluster.controllers": _BASE | {"foundation.client", "cluster.apiserver", "cluster.nodes"},
    "cluster": _SCHEDULER | _EMBEDDED,
    "testing": _CLUSTER,
    "explain": _CLUSTER,
    "plan": _CLUSTER | {"explain"},
    "sim": _CLUSTER | {"testing", "explain", "plan"},
    "dashboard": _CLUSTER | {"explain", "plan", "sim"},
    "cli": _CLUSTER | {"explain", "plan", "sim", "dashboard"},
    # Like the plugins of other packages: no part of the package imports them.
    "contrib": frozenset(["errors", "api", "framework"]),
}

# Inside scheduler/plugins/, one plugin's folder may import only itself and these.
PLUGINS = ("kubesched", "scheduler", "plugins")
SHARED_BY_PLUGINS = frozenset(["helpers"])
REGISTRY = "registry"

# Cycles that are still to be taken apart: sets of modules, or of folders, that import each other.
KNOWN_MODULE_CYCLES: list[set[str]] = []
KNOWN_FOLDER_CYCLES: list[set[str]] = []

NETWORK = frozenset(["aiohttp"])
MAY_USE_NETWORK = frozenset(["foundation.client", "foundation.http", "testing"])

MAY_READ_CLOCKS = frozenset(["foundation.util", "cli"])
FORBIDDEN_CALLS = {
    "time": frozenset(
        ["time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"]
    ),
    "random": frozenset(
        [
            "betavariate",
            "choice",
            "choices",
            "expovariate",
            "gauss",
            "getrandbits",
            "normalvariate",
            "randbytes",
            "randint",
            "random",
            "randrange",
            "sample",
            "seed",
            "shuffle",
            "triangular",
            "uniform",
        ]
    ),
}


def violations(source: Path) -> list[str]:
    """Check every module below `source`/kubesched; return `file:line: complaint` lines."""
    found = []
    for path in sorted((source / "kubesched").rglob("*.py")):
        module = path.relative_to(source).with_suffix("").parts
        tree = ast.parse(path.read_text(), filename=str(path))
        for line, complaint in sorted({*_imports(module, tree), *_calls(module, tree)}):
            found.append(f"{path.relative_to(source)}:{line}: {complaint}")
    return found


def _imports(module: tuple[str, ...], tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Report forbidden imports anywhere, in functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "relative imports are not used here"
                continue
            # `from kubesched.foundation import client` imports a folder, too.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            complaint = _complaint(module, tuple(name.split(".")))
            if complaint:
                yield node.lineno, complaint


def part_of(module: tuple[str, ...]) -> str | None:
    """Return the part of the contract to which a module belongs.

    `module` begins with the package.
    """
    for end in (3, 2):
        name = ".".join(module[1:end])
        if len(module) >= end and name in MAY_IMPORT:
            return name
    return None


def _complaint(module: tuple[str, ...], imported: tuple[str, ...]) -> str | None:
    part = part_of(module)
    if imported[0] in NETWORK and part not in MAY_USE_NETWORK:
        return f"{part} may not import {imported[0]}"
    if imported[0] != "kubesched" or len(imported) < 2:
        return None
    target = part_of(imported)
    if len(module) == 2 and part is None:
        # The package's own modules may import anything but the parts for tests.
        return f"kubesched/{module[1]}.py may not import testing" if target == "testing" else None
    if part is None:
        return f"{module[1]} is not a part of the contract"
    if target is None:
        whole = (SOURCE / "kubesched" / imported[1]).is_dir()
        return f"{part} may not import {imported[1]} as a whole" if whole else None
    if target == part:
        return _between_plugins(module, imported)
    return None if target in MAY_IMPORT[part] else f"{part} may not import {target}"


def _between_plugins(module: tuple[str, ...], imported: tuple[str, ...]) -> str | None:
    if module[:3] != PLUGINS or len(imported) < 4 or module[3] in (REGISTRY, "__init__"):
        return None
    own, other = module[3], imported[3]
    if other == own or (other in SHARED_BY_PLUGINS and own != other):
        return None
    return f"plugins.{own} may not import plugins.{other}"


def _calls(module: tuple[str, ...], tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Report clocks and random generators that are not passed in."""
    part = part_of(module)
    if part in MAY_READ_CLOCKS:
        return
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in FORBIDDEN_CALLS:
                    aliases[alias.asname or alias.name] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module in FORBIDDEN_CALLS:
            for alias in node.names:
                if alias.name in FORBIDDEN_CALLS[node.module]:
                    yield node.lineno, f"{part} may not use {node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            origin = aliases.get(node.value.id, "")
            if node.attr in FORBIDDEN_CALLS.get(origin, ()):
                yield node.lineno, f"{part} may not use {origin}.{node.attr}"


def imported_modules(source: Path) -> dict[str, set[str]]:
    """For each module of the package, the modules it imports, for type checkers too."""
    names: dict[str, Path] = {}
    for path in sorted((source / "kubesched").rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    found: dict[str, set[str]] = {}
    for name, path in names.items():
        found[name] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                wanted = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            else:
                continue
            for each in wanted:
                module = each if each in names else each.rpartition(".")[0]
                if module in names and module != name:
                    found[name].add(module)
    return found


def folder_graph(modules: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the graph of folders: a folder represents the modules directly in it.

    A folder's `__init__.py` counts as one of them, and the package's own lazy imports do not count.
    """
    folders = {name for name in modules if (SOURCE / name.replace(".", "/")).is_dir()}

    def folder(name: str) -> str:
        return name if name in folders else name.rpartition(".")[0]

    graph: dict[str, set[str]] = {}
    for name, imported in modules.items():
        if folder(name) != "kubesched":
            others = {folder(other) for other in imported} - {folder(name), "kubesched"}
            graph.setdefault(folder(name), set()).update(others)
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The sets of nodes that can reach each other (Kosaraju's algorithm, by reachability)."""
    reach = {name: _reachable(name, graph) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        group = {other for other in reach[name] if name in reach.get(other, ())}
        if group and group not in found:
            found.append(group)
    return found


def _reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for other in graph.get(waiting.pop(), ()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return seen


def test_the_plugins_of_the_package_fulfil_the_contract() -> None:
    found = violations(SOURCE)
    assert not found, "\n" + "\n".join(found)


def test_every_folder_is_in_the_contract() -> None:
    package = SOURCE / "kubesched"
    for path in package.glob("*/**/*.py"):
        module = ("kubesched", *path.relative_to(package).with_suffix("").parts)
        assert part_of(module) or path.name == "__init__.py", path


def test_the_contract_has_no_cycles() -> None:
    order = graphlib.TopologicalSorter(MAY_IMPORT)
    assert set(order.static_order()) == set(MAY_IMPORT)


def test_no_modules_import_each_other() -> None:
    assert _sorted(cycles(imported_modules(SOURCE))) == _sorted(KNOWN_MODULE_CYCLES)


def test_no_folders_import_each_other() -> None:
    graph = folder_graph(imported_modules(SOURCE))
    assert _sorted(cycles(graph)) == _sorted(KNOWN_FOLDER_CYCLES)


def _sorted(groups: list[set[str]]) -> list[list[str]]:
    return sorted(sorted(group) for group in groups)


def test_cycles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a", "d"}}
    assert _sorted(cycles(graph)) == [["b", "c"], ["d"]]


def test_the_contract_is_the_table_of_the_style_guide() -> None:
    above: list[str] = []
    for line in STYLE_GUIDE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = cells[0].strip("`").removesuffix("/").removesuffix(".py").replace("/", ".")
        if len(cells) != 3 or not cells[0].startswith("`") or name not in MAY_IMPORT:
            continue
        plain = cells[2].replace("`", "").replace("/", ".").replace(".,", ",")
        allowed, _, but = plain.removesuffix(".").partition(" but ")
        if allowed == "all of the above":
            want = set(above) - {each.removesuffix(".") for each in but.split(" and ")}
        else:
            want = {each.strip().removesuffix(".") for each in allowed.split(",")}
            want = {_full_name(each) for each in want - {"stdlib"}} | ({"errors"} - {name})
        assert MAY_IMPORT[name] == want, name
        above.append(name)
    assert set(above) == set(MAY_IMPORT)


def _full_name(short: str) -> str:
    """Expand a short name: `util` is `foundation.util` in the table."""
    if short in MAY_IMPORT:
        return short
    (full,) = [name for name in MAY_IMPORT if name.endswith("." + short)]
    return full


PLANTED = {
    "an import upwards": (
        "kubesched/api/pod.py",
        "from kubesched.framework import Status",
        "kubesched/api/pod.py:1: api may not import framework",
    ),
    "an import sideways": (
        "kubesched/scheduler/runtime/run.py",
        "import kubesched.scheduler.backend.cache",
        "kubesched/scheduler/runtime/run.py:1: scheduler.runtime may not import scheduler.backend",
    ),
    "an import of a whole folder": (
        "kubesched/framework/engine/table.py",
        "from kubesched.foundation import client",
        "kubesched/framework/engine/table.py:1: framework.engine may not import foundation.client",
    ),
    "an import for type checkers only": (
        "kubesched/foundation/util/heap.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kubesched.api import Pod",
        "kubesched/foundation/util/heap.py:3: foundation.util may not import api",
    ),
    "an import inside a function": (
        "kubesched/scheduler/plugins/fit/plugin.py",
        "def f():\n    from kubesched.foundation.client.informer import Informer",
        "kubesched/scheduler/plugins/fit/plugin.py:2: "
        "scheduler.plugins may not import foundation.client",
    ),
    "one plugin using another": (
        "kubesched/scheduler/plugins/fit/plugin.py",
        "from kubesched.scheduler.plugins.image_locality.plugin import ImageLocality",
        "kubesched/scheduler/plugins/fit/plugin.py:1: "
        "plugins.fit may not import plugins.image_locality",
    ),
    "a part using what wires it": (
        "kubesched/cluster/nodes/kubelet.py",
        "from kubesched.cluster import embedded_cluster",
        "kubesched/cluster/nodes/kubelet.py:1: cluster.nodes may not import cluster",
    ),
    "a part using the loop": (
        "kubesched/scheduler/runtime/kubelet.py",
        "from kubesched.scheduler.cycles.failure import FailureHandler",
        "kubesched/scheduler/runtime/kubelet.py:1: scheduler.runtime may not import scheduler",
    ),
    "a helper using a plugin": (
        "kubesched/scheduler/plugins/helpers/spread.py",
        "from kubesched.scheduler.plugins.fit.plugin import Fit",
        "kubesched/scheduler/plugins/helpers/spread.py:1: "
        "plugins.helpers may not import plugins.fit",
    ),
    "a plugin using the registry": (
        "kubesched/scheduler/plugins/fit/plugin.py",
        "from kubesched.scheduler.plugins.registry import REGISTRY",
        "kubesched/scheduler/plugins/fit/plugin.py:1: plugins.fit may not import plugins.registry",
    ),
    "the command line using test helpers": (
        "kubesched/cli/main.py",
        "from kubesched.testing import make_pod",
        "kubesched/cli/main.py:1: cli may not import testing",
    ),
    "a relative import": (
        "kubesched/api/pod.py",
        "from . import meta",
        "kubesched/api/pod.py:1: relative imports are not used here",
    ),
    "a scheduler that opens connections": (
        "kubesched/scheduler/extender.py",
        "import aiohttp.web",
        "kubesched/scheduler/extender.py:1: scheduler may not import aiohttp",
    ),
    "a clock that was not handed in": (
        "kubesched/scheduler/backend/queue.py",
        "import time\nnow = time.monotonic()",
        "kubesched/scheduler/backend/queue.py:2: scheduler.backend may not use time.monotonic",
    ),
    "a clock under another name": (
        "kubesched/scheduler/backend/queue.py",
        "import time as t\ndef f():\n    return t.time()",
        "kubesched/scheduler/backend/queue.py:3: scheduler.backend may not use time.time",
    ),
    "a clock imported by name": (
        "kubesched/scheduler/backend/queue.py",
        "from time import perf_counter_ns",
        "kubesched/scheduler/backend/queue.py:1: "
        "scheduler.backend may not use time.perf_counter_ns",
    ),
    "dice that were not handed in": (
        "kubesched/scheduler/select.py",
        "import random\npick = random.choice([1, 2])",
        "kubesched/scheduler/select.py:2: scheduler may not use random.choice",
    ),
    "a folder outside the contract": (
        "kubesched/misc/things.py",
        "from kubesched.foundation.util.heap import KeyedHeap",
        "kubesched/misc/things.py:1: misc is not a part of the contract",
    ),
}


@pytest.mark.parametrize(("file", "code", "want"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, code: str, want: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(code)
    assert violations(tmp_path) == [want]


ALLOWED = {
    "downwards": (
        "kubesched/framework/status.py",
        "from kubesched.foundation.util.ints import div_trunc",
    ),
    "within a folder": ("kubesched/api/pod.py", "from kubesched.api.meta import ObjectMeta"),
    "a plugin and its helpers": (
        "kubesched/scheduler/plugins/fit/plugin.py",
        "from kubesched.scheduler.plugins.helpers.spread import f\n"
        "from kubesched.scheduler.plugins.fit.scoring import g",
    ),
    "a module and the parts beside it": (
        "kubesched/cluster/embedded_cluster.py",
        "from kubesched.cluster.nodes.kubelet import FakeKubelet",
    ),
    "the registry and all plugins": (
        "kubesched/scheduler/plugins/registry.py",
        "from kubesched.scheduler.plugins.fit.plugin import Fit",
    ),
    "a generator that is handed in": (
        "kubesched/scheduler/select.py",
        "import random\ndef pick(dice: random.Random) -> int:\n    return dice.randrange(6)",
    ),
    "the package's version": (
        "kubesched/scheduler/server/statusz.py",
        "from kubesched import __version__",
    ),
    "a clock at the bottom": (
        "kubesched/foundation/util/clock.py",
        "import time\nnow = time.time_ns()",
    ),
    "the network at the edge": ("kubesched/foundation/client/http.py", "import aiohttp"),
}


@pytest.mark.parametrize(("file", "code"), ALLOWED.values(), ids=ALLOWED)
def test_allowed_imports_pass(tmp_path: Path, file: str, code: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(code)
    assert violations(tmp_path) == []
