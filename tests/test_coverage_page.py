"""docs/reference/coverage.md is up to date, and correct about refused and used options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kubesched.scheduler.config.feature_gate_effects import GATE_EFFECTS, GATES_WITHOUT_EFFECT
from kubesched.scheduler.config.feature_gates import FEATURES
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from tests.coverage_page import PAGE, refusal, text_of_page

SCHEDULER = Path(__file__).resolve().parents[1] / "src" / "kubesched" / "scheduler"
# A gate that is read: its name in a call, in a constant, or beside a plugin of the default profile.
READS = (
    re.compile(r'(?:enabled|is_on)\(\s*(?:handle, )?"(\w+)"'),
    re.compile(r'^(?:COMPARISON_OPERATORS|_COMPARISON_OPERATORS)[^=]*= "(\w+)"', re.MULTILINE),
    re.compile(r'^    \("(\w+)", PluginRef', re.MULTILINE),
)
# Read under names that the patterns do not find: constants that are names of plugins too, and
# tables of options.
READ_OTHERWISE = {"AllAlpha", "AllBeta", "NodeDeclaredFeatures"}
# Read by the options of logging, and refused before anything reads them.
IN_TABLES = {"LoggingAlphaOptions", "LoggingBetaOptions"}


def gates_read() -> set[str]:
    found = set(READ_OTHERWISE)
    for path in SCHEDULER.rglob("*.py"):
        text = path.read_text()
        for pattern in READS:
            found.update(pattern.findall(text))
    return found & FEATURES.keys()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == text_of_page(), "run python -m tests.coverage_page"


def test_the_table_has_the_gates_that_code_reads_and_no_others() -> None:
    assert gates_read() | IN_TABLES == set(GATE_EFFECTS)
    assert not GATE_EFFECTS.keys() & GATES_WITHOUT_EFFECT.keys()
    assert FEATURES.keys() >= GATES_WITHOUT_EFFECT.keys()


def test_the_page_has_every_gate_and_every_plugin() -> None:
    page = PAGE.read_text()
    for name in (*FEATURES, *IN_TREE_EXTENSION_POINTS):
        assert f"| {name} |" in page


@pytest.mark.parametrize("value", [True, False])
def test_only_options_that_the_reference_refuses_are_refused(value: bool) -> None:
    for name, feature in FEATURES.items():
        error = refusal(name, value)
        if feature.locked and value != feature.default:
            assert "feature is locked" in error
        elif error:
            assert "depends on features that are disabled" in error, name


def test_every_plugin_is_built() -> None:
    assert IN_TREE_EXTENSION_POINTS.keys() == IN_TREE_PLUGINS.keys()
