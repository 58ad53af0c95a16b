"""The registry of in-tree plugins agrees with the configuration's tables."""

from __future__ import annotations

import pytest

from kubesched.framework import ExtensionPoint, extension_points
from kubesched.scheduler.config.args import IN_TREE_ARGS
from kubesched.scheduler.config.plugin_names import EXTENSION_POINTS, IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS


@pytest.mark.parametrize("name", IN_TREE_PLUGINS)
def test_a_plugin_extends_the_points_of_the_reference(name: str) -> None:
    here = {point.value for point in ExtensionPoint}
    assert here <= set(EXTENSION_POINTS)
    want = IN_TREE_EXTENSION_POINTS[name] & here
    assert {point.value for point in extension_points(IN_TREE_PLUGINS[name])} == want


@pytest.mark.parametrize("name", IN_TREE_PLUGINS)
def test_a_plugin_takes_its_arguments_from_files(name: str) -> None:
    assert IN_TREE_PLUGINS[name].name == name
    assert IN_TREE_PLUGINS[name].args_type is IN_TREE_ARGS.get(name)
