"""The import contract: who may import whom, who may touch the network, time and chance."""

from __future__ import annotations

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
STYLE_GUIDE = SOURCE.parent / "docs" / "style.md"

# Folder -> what it may import of kubesched, besides itself.
_BELOW_SCHEDULER = frozenset(
    [
        "util",
        "metrics",
        "cel",
        "api",
        "config",
        "client",
        "engine",
        "framework",
        "plugins",
        "runtime",
        "backend",
    ]
)
_SERVICES = frozenset(["scheduler", "server", "apiserver", "cluster"])
_SIM = _BELOW_SCHEDULER | _SERVICES | {"testing", "explain"}
MAY_IMPORT: dict[str, frozenset[str]] = {
    "util": frozenset(),
    "metrics": frozenset(["util"]),
    "cel": frozenset(["api", "util"]),
    "api": frozenset(["util"]),
    "config": frozenset(["api", "util"]),
    "client": frozenset(["api", "metrics", "util"]),
    "engine": frozenset(["api", "util"]),
    "framework": frozenset(["engine", "api", "util"]),
    "plugins": frozenset(["framework", "engine", "config", "api", "cel", "util"]),
    "runtime": frozenset(["framework", "engine", "config", "api", "metrics", "util"]),
    "backend": frozenset(["framework", "engine", "api", "metrics", "util"]),
    "scheduler": _BELOW_SCHEDULER,
    "server": frozenset(["client", "config", "api", "metrics", "util"]),
    "apiserver": frozenset(["api", "cel", "metrics", "util"]),
    "cluster": frozenset(["apiserver", "client", "api", "metrics", "util"]),
    "testing": _BELOW_SCHEDULER | _SERVICES,
    "explain": _BELOW_SCHEDULER | _SERVICES,
    "sim": _SIM,
    "dashboard": (_SIM | {"sim"}) - {"testing"},
    "cli": (_SIM | {"sim", "dashboard"}) - {"testing"},
}

# Folder -> its subfolders -> which of the others each may import. Modules beside them may import
# all of them, and none of them imports such a module.
INSIDE: dict[str, dict[str, frozenset[str]]] = {
    "apiserver": {
        "rules": frozenset(),
        "store": frozenset(["rules"]),
        "http": frozenset(["store", "rules"]),
    },
    "server": {
        "options": frozenset(),
        "endpoints": frozenset(["options"]),
        "access": frozenset(["endpoints", "options"]),
        "serving": frozenset(["access", "endpoints", "options"]),
    },
    "cluster": {
        "nodes": frozenset(),
        "controllers": frozenset(["nodes"]),
    },
}

# Inside plugins/, one plugin's folder may import only itself and these.
SHARED_BY_PLUGINS = frozenset(["helpers"])
REGISTRY = "registry"

NETWORK = frozenset(["aiohttp"])
MAY_USE_NETWORK = frozenset(["client", "apiserver", "server", "testing", "dashboard"])

MAY_READ_CLOCKS = frozenset(["util", "cli"])
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
    """Complain about imports, wherever they stand: in functions and for type checkers too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "relative imports are not used here"
                continue
            # `from kubesched import client` names a folder as much as `import kubesched.client`.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            complaint = _complaint(module, tuple(name.split(".")))
            if complaint:
                yield node.lineno, complaint


def _complaint(module: tuple[str, ...], imported: tuple[str, ...]) -> str | None:
    folder = module[1]
    if imported[0] in NETWORK and folder not in MAY_USE_NETWORK:
        return f"{folder} may not import {imported[0]}"
    if imported[0] != "kubesched" or len(imported) < 2:
        return None
    target = imported[1]
    if target not in MAY_IMPORT:
        return None  # a name of the package itself, such as __version__
    if len(module) == 2:
        return _of_the_package(module[1], target)
    if folder not in MAY_IMPORT:
        return f"{folder} is not a folder of the contract"
    if target == folder:
        if folder in INSIDE:
            return _between_subfolders(module, imported)
        return _between_plugins(module, imported) if folder == "plugins" else None
    if target not in MAY_IMPORT[folder]:
        return f"{folder} may not import {target}"
    return None


def _of_the_package(name: str, target: str) -> str | None:
    """The package's own modules: the public face may show anything but what is for tests."""
    return f"kubesched/{name}.py may not import {target}" if target == "testing" else None


def _between_subfolders(module: tuple[str, ...], imported: tuple[str, ...]) -> str | None:
    folder, own = module[1:3]
    subfolders = INSIDE[folder]
    if own not in subfolders:
        if len(module) > 3:
            return f"{folder}.{own} is not a subfolder of the contract"
        return None
    if len(imported) < 3:
        return f"{folder}.{own} may not import {folder} as a whole"
    other = imported[2]
    if other == own or other in subfolders[own]:
        return None
    return f"{folder}.{own} may not import {folder}.{other}"


def _between_plugins(module: tuple[str, ...], imported: tuple[str, ...]) -> str | None:
    if len(imported) < 3 or module[2] in (REGISTRY, "__init__"):
        return None
    own, other = module[2], imported[2]
    if other == own or (other in SHARED_BY_PLUGINS and own != other):
        return None
    return f"plugins.{own} may not import plugins.{other}"


def _calls(module: tuple[str, ...], tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Complain about clocks and dice that were not handed in."""
    folder = module[1]
    if folder in MAY_READ_CLOCKS:
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
                    yield node.lineno, f"{folder} may not use {node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            origin = aliases.get(node.value.id, "")
            if node.attr in FORBIDDEN_CALLS.get(origin, ()):
                yield node.lineno, f"{folder} may not use {origin}.{node.attr}"


def test_the_package_keeps_the_contract() -> None:
    found = violations(SOURCE)
    assert not found, "\n" + "\n".join(found)


def test_every_folder_is_in_the_contract() -> None:
    package = SOURCE / "kubesched"
    folders = {path.relative_to(package).parts[0] for path in package.glob("*/**/*.py")}
    assert folders <= set(MAY_IMPORT)


def test_the_contract_has_no_circles() -> None:
    for folder, below in MAY_IMPORT.items():
        for other in below:
            assert folder not in MAY_IMPORT[other], f"{folder} and {other} import each other"


@pytest.mark.parametrize("folder", INSIDE)
def test_the_subfolders_have_no_circles(folder: str) -> None:
    order = graphlib.TopologicalSorter(INSIDE[folder])
    assert set(order.static_order()) == set(INSIDE[folder])


@pytest.mark.parametrize("folder", INSIDE)
def test_every_subfolder_is_in_the_contract(folder: str) -> None:
    package = SOURCE / "kubesched" / folder
    assert {path.parent.name for path in package.glob("*/__init__.py")} == set(INSIDE[folder])


def test_the_contract_is_the_table_of_the_style_guide() -> None:
    above: list[str] = []
    for line in STYLE_GUIDE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 3 or not cells[0].strip("`").endswith("/"):
            continue
        folder = cells[0].strip("`/")
        allowed, _, but = cells[2].replace("`", "").replace("/", "").partition(" but ")
        if allowed == "all of the above":
            assert MAY_IMPORT[folder] == set(above) - {but}, folder
        else:
            assert MAY_IMPORT[folder] == set(allowed.split(", ")) - {"stdlib"}, folder
        above.append(folder)
    assert set(above) == set(MAY_IMPORT)


PLANTED = {
    "an import upwards": (
        "kubesched/api/pod.py",
        "from kubesched.framework import Status",
        "kubesched/api/pod.py:1: api may not import framework",
    ),
    "an import sideways": (
        "kubesched/runtime/run.py",
        "import kubesched.backend.cache",
        "kubesched/runtime/run.py:1: runtime may not import backend",
    ),
    "an import of a whole folder": (
        "kubesched/engine/table.py",
        "from kubesched import client",
        "kubesched/engine/table.py:1: engine may not import client",
    ),
    "an import for type checkers only": (
        "kubesched/util/heap.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from kubesched.api import Pod",
        "kubesched/util/heap.py:3: util may not import api",
    ),
    "an import inside a function": (
        "kubesched/plugins/fit/plugin.py",
        "def f():\n    from kubesched.client.informer import Informer",
        "kubesched/plugins/fit/plugin.py:2: plugins may not import client",
    ),
    "one plugin using another": (
        "kubesched/plugins/fit/plugin.py",
        "from kubesched.plugins.image_locality.plugin import ImageLocality",
        "kubesched/plugins/fit/plugin.py:1: plugins.fit may not import plugins.image_locality",
    ),
    "a subfolder using one above it": (
        "kubesched/apiserver/store/paging.py",
        "from kubesched.apiserver.http.rendering import encode",
        "kubesched/apiserver/store/paging.py:1: apiserver.store may not import apiserver.http",
    ),
    "a subfolder using a module beside it": (
        "kubesched/cluster/nodes/kubelet.py",
        "from kubesched.cluster import embedded_cluster",
        "kubesched/cluster/nodes/kubelet.py:1: "
        "cluster.nodes may not import cluster.embedded_cluster",
    ),
    "a subfolder nobody agreed on": (
        "kubesched/cluster/things/kubelet.py",
        "from kubesched.cluster.nodes.kubelet import FakeKubelet",
        "kubesched/cluster/things/kubelet.py:1: cluster.things is not a subfolder of the contract",
    ),
    "a helper using a plugin": (
        "kubesched/plugins/helpers/spread.py",
        "from kubesched.plugins.fit.plugin import Fit",
        "kubesched/plugins/helpers/spread.py:1: plugins.helpers may not import plugins.fit",
    ),
    "a plugin using the registry": (
        "kubesched/plugins/fit/plugin.py",
        "from kubesched.plugins.registry import REGISTRY",
        "kubesched/plugins/fit/plugin.py:1: plugins.fit may not import plugins.registry",
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
        "kubesched/backend/queue.py",
        "import time\nnow = time.monotonic()",
        "kubesched/backend/queue.py:2: backend may not use time.monotonic",
    ),
    "a clock under another name": (
        "kubesched/backend/queue.py",
        "import time as t\ndef f():\n    return t.time()",
        "kubesched/backend/queue.py:3: backend may not use time.time",
    ),
    "a clock imported by name": (
        "kubesched/backend/queue.py",
        "from time import perf_counter_ns",
        "kubesched/backend/queue.py:1: backend may not use time.perf_counter_ns",
    ),
    "dice that were not handed in": (
        "kubesched/scheduler/select.py",
        "import random\npick = random.choice([1, 2])",
        "kubesched/scheduler/select.py:2: scheduler may not use random.choice",
    ),
    "a folder nobody agreed on": (
        "kubesched/misc/things.py",
        "from kubesched.util.heap import KeyedHeap",
        "kubesched/misc/things.py:1: misc is not a folder of the contract",
    ),
}


@pytest.mark.parametrize(("file", "code", "want"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, code: str, want: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(code)
    assert violations(tmp_path) == [want]


ALLOWED = {
    "downwards": ("kubesched/framework/status.py", "from kubesched.util.ints import div_trunc"),
    "within a folder": ("kubesched/api/pod.py", "from kubesched.api.meta import ObjectMeta"),
    "a plugin and its helpers": (
        "kubesched/plugins/fit/plugin.py",
        "from kubesched.plugins.helpers.spread import f\n"
        "from kubesched.plugins.fit.scoring import g",
    ),
    "a subfolder and one below it": (
        "kubesched/apiserver/http/rendering.py",
        "from kubesched.apiserver.store.paging import Page",
    ),
    "a module and the subfolders beside it": (
        "kubesched/cluster/embedded_cluster.py",
        "from kubesched.cluster.nodes.kubelet import FakeKubelet",
    ),
    "the registry and all plugins": (
        "kubesched/plugins/registry.py",
        "from kubesched.plugins.fit.plugin import Fit",
    ),
    "a generator that is handed in": (
        "kubesched/scheduler/select.py",
        "import random\ndef pick(dice: random.Random) -> int:\n    return dice.randrange(6)",
    ),
    "the package's version": ("kubesched/server/statusz.py", "from kubesched import __version__"),
    "a clock at the bottom": ("kubesched/util/clock.py", "import time\nnow = time.time_ns()"),
    "the network at the edge": ("kubesched/client/http.py", "import aiohttp"),
}


@pytest.mark.parametrize(("file", "code"), ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_passes(tmp_path: Path, file: str, code: str) -> None:
    planted = tmp_path / file
    planted.parent.mkdir(parents=True)
    planted.write_text(code)
    assert violations(tmp_path) == []
