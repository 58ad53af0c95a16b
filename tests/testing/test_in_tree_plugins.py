"""Every in-tree plugin fulfils the contract for plugins of users."""

from __future__ import annotations

import pytest

from kubesched.scheduler.config import default_profile
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.testing import check_plugin


@pytest.mark.parametrize("name", IN_TREE_PLUGINS)
@pytest.mark.parametrize("seed", [0, 1])
def test_an_in_tree_plugin_fulfils_the_contract(name: str, seed: int) -> None:
    check_plugin(IN_TREE_PLUGINS[name], args=default_profile().args_of(name), seed=seed)
