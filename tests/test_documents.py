"""The configurations in documents and examples are valid."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from kubesched.scheduler.config import complete_configuration, load_configuration
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins
from kubesched.testing import check_plugin, make_node, make_pod, make_view, run_score

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```yaml\n(apiVersion: kubescheduler.*?)^```", re.DOTALL | re.MULTILINE)
CONFIGURATIONS = {
    f"{path.relative_to(ROOT)} #{number}": text
    for path in sorted((ROOT / "docs").glob("*.md"))
    for number, text in enumerate(BLOCK.findall(path.read_text()), start=1)
} | {
    str(path.relative_to(ROOT)): path.read_text()
    for path in sorted((ROOT / "examples").glob("*.yaml"))
    if "kind: KubeSchedulerConfiguration" in path.read_text()
}


@pytest.mark.parametrize("text", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_configuration_that_is_shown_works(text: str) -> None:
    plugins = out_of_tree_plugins([str(ROOT / "examples" / "spare_nodes.py")])
    configuration = load_configuration(text, known_args=plugins.known_args())
    complete_configuration(configuration, {**IN_TREE_EXTENSION_POINTS, **plugins.implemented()})


def test_the_worked_examples_are_there() -> None:
    assert sum(name.startswith("docs/configuration.md") for name in CONFIGURATIONS) == 3


def test_the_test_that_the_plugin_guide_shows_passes_on_the_example() -> None:
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "docs/plugins.md").read_text(), re.S | re.M
    )
    (shown,) = [block for block in blocks if "def test_contract" in block]
    example = (ROOT / "examples" / "spare_nodes.py").read_text()
    module = types.ModuleType("guide")
    sys.modules["guide"] = module  # msgspec looks annotations up there
    try:
        exec(compile(example + shown, "guide", "exec"), module.__dict__)
        tests = [value for name, value in vars(module).items() if name.startswith("test_")]
        assert len(tests) == 2
        for test in tests:
            test()
    finally:
        del sys.modules["guide"]


def test_the_plugins_of_the_howto_fulfil_the_contract() -> None:
    text = (ROOT / "docs/howto/write-a-plugin.md").read_text()
    module = types.ModuleType("howto")
    sys.modules["howto"] = module
    try:
        for block in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M):
            exec(compile(block, "howto", "exec"), module.__dict__)
        cheapest = module.__dict__["CheapestNodes"]
        check_plugin(cheapest)
        prices = {"a": "0.25", "b": "0.5", "c": "cheap", "d": None}
        nodes = [
            make_node(name, labels={} if price is None else {"example.com/price": price})
            for name, price in prices.items()
        ]
        # 100 minus the share of the highest price, which is 10 for nodes without a number.
        assert run_score(cheapest(), make_pod("p"), make_view(*nodes)) == [98, 95, 0, 0]
    finally:
        del sys.modules["howto"]


def test_decision_records_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert [name[:4] for name in names] == [f"{number:04}" for number in range(1, len(names) + 1)]
    for name in names:
        title = (ROOT / "docs" / "decisions" / name).read_text().splitlines()[0]
        assert title.startswith(f"# {name[:4]}. "), name


def test_the_files_that_the_architecture_names_exist() -> None:
    """A name without its folder is in a folder that the same section has named before."""
    bases = [ROOT / "src/kubesched", ROOT]
    text = (ROOT / "docs/architecture.md").read_text()
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        folders = list(bases)
        for name in re.findall(r"`([\w/*]+(?:\.py|\.ts|/))`", section):
            found = [path for folder in folders for path in folder.glob(name.rstrip("/"))]
            assert found, f"{section.splitlines()[0]}: {name}"
            folders += [path if path.is_dir() else path.parent for path in found]
