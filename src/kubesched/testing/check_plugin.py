"""Checks that a plugin fulfils the plugin contract, on random clusters.

Call `check_plugin` from a test:

    def test_the_plugin_fulfils_the_contract() -> None:
        check_plugin(SpareNodes)

The rules: the plugin has a legal name and extends a point. Methods raise nothing, do not mutate
their arguments, and return what their extension point allows. Filter and Score return the same for
one node as for many. Parts of the pod, pods on nodes, other nodes and objects that `reads` does not
declare do not affect the result, nor do pods that the plugin ignores. Normalised scores are within
0..100. Placements are parts of the parent. A cloned state is independent. Registered events are
well-formed, and their hints return.
"""

from __future__ import annotations

from typing import Any

from kubesched.framework import Plugin
from kubesched.testing.checks.class_rules import check_class
from kubesched.testing.checks.declared_reads import check_reads
from kubesched.testing.checks.filter_and_score import (
    check_dry_runs,
    check_filter,
    check_score,
)
from kubesched.testing.checks.group_placements import check_placements
from kubesched.testing.checks.ignored_pods import check_ignored_pods
from kubesched.testing.checks.making_room import check_post_filter
from kubesched.testing.checks.placing import check_placing
from kubesched.testing.checks.queueing import check_queueing
from kubesched.testing.checks.trial import PluginFactory, Trial

__all__ = ["check_plugin"]


def check_plugin(
    plugin_factory: PluginFactory | type[Plugin],
    *,
    seed: int = 0,
    rounds: int = 30,
    args: Any = None,
) -> None:
    """Run all checks of the plugin contract.

    The factory is the plugin class, or a function of (args, handle). Without `args` the plugin gets
    the defaults of its `args_type`. The message of a failure names the seed that repeats it.

    Raises:
        PluginError: the plugin violates a rule.
    """
    args_type = getattr(plugin_factory, "args_type", None)
    if args is None and args_type is not None:
        args = args_type()
    for number in range(rounds):
        trial = Trial(plugin_factory, args, seed, number)
        check_class(trial)
        check_queueing(trial)
        check_filter(trial)
        check_score(trial)
        check_reads(trial)
        check_dry_runs(trial)
        check_ignored_pods(trial)
        check_post_filter(trial)
        check_placing(trial)
        check_placements(trial)
