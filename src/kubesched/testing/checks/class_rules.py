"""Rules about the plugin class: its name, its extension points, its methods."""

from __future__ import annotations

import inspect
import re

from kubesched.framework import extension_points, overrides
from kubesched.testing.checks.trial import Trial

__all__ = ["check_class"]

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?")

# Methods that the scheduler calls only if the plugin also has another method.
_NEEDS = {
    "filter_nodes": "filter",
    "score_nodes": "score",
    "normalize_score": "score",
    "add_pod": "pre_filter",
    "remove_pod": "pre_filter",
    "pre_bind_pre_flight": "pre_bind",
    "normalize_placement_scores": "score_placement",
}
_PAIRS = (("add_pod", "remove_pod"),)
_ASYNC = ("pre_bind", "bind", "post_bind")
_SYNC = (
    "sort_key",
    "pre_enqueue",
    "pre_filter",
    "add_pod",
    "remove_pod",
    "filter",
    "filter_nodes",
    "post_filter",
    "pre_score",
    "score",
    "score_nodes",
    "normalize_score",
    "reserve",
    "unreserve",
    "permit",
    "pre_bind_pre_flight",
    "events_to_register",
    "generate_placements",
    "score_placement",
    "normalize_placement_scores",
)


def check_class(trial: Trial) -> None:
    plugin = trial.plugin
    if not isinstance(plugin.name, str) or not _NAME.fullmatch(plugin.name):
        trial.fail("a plugin has a legal name", f"name is {plugin.name!r}")
    if not extension_points(plugin):
        trial.fail("a plugin extends a point", "no method of an extension point is overridden")
    for method, needed in _NEEDS.items():
        if overrides(plugin, method) and not overrides(plugin, needed):
            trial.fail("methods belong together", f"{method} is there and {needed} is not")
    for one, other in _PAIRS:
        if overrides(plugin, one) != overrides(plugin, other):
            trial.fail("methods belong together", f"only one of {one} and {other} is there")
    for method in _ASYNC:
        if not inspect.iscoroutinefunction(getattr(plugin, method)):
            trial.fail("only binding may wait", f"{method} must be async")
    for method in _SYNC:
        if inspect.iscoroutinefunction(getattr(plugin, method)):
            trial.fail("only binding may wait", f"{method} must not be async")
