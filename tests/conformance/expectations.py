"""The part of a recorded step that can be compared while some plugins are missing.

A step in which a missing plugin took part counts as needing that plugin. The rest of the step is
still compared: scores of other plugins, totals without the missing part, messages without the part
of PostFilter.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from typing import Any, Final, NamedTuple

from kubesched.api import DeviceClass, Pod
from kubesched.api.pod_requests import pod_requested
from kubesched.scheduler.config import default_plugins
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.testing import FakeObjects

__all__ = [
    "DEVICE_ALLOCATION",
    "Expectation",
    "expectation",
    "missing_plugins",
    "needs_devices",
]

# DynamicResources is there, but does not allocate yet.
DEVICE_ALLOCATION: Final = "device allocation"

_POST_FILTER: Final = ("DynamicResources", "DefaultPreemption")
_AFTER_POST_FILTER: Final = ("postFilter", "nominated", "victims", "chosenAfterPreemption")
_NO_NEW_CLAIMS: Final = "no new claims to deallocate"


class Expectation(NamedTuple):
    """The fields to compare, and the plugins that the rest needs."""

    fields: dict[str, Any]
    needs: tuple[str, ...]


def missing_plugins() -> frozenset[str]:
    """Default plugins that are not in the registry."""
    names = default_plugins(DEFAULT_FEATURE_GATES).enabled_names()
    return frozenset(names - IN_TREE_PLUGINS.keys())


def needs_devices(pod: Pod, objects: FakeObjects) -> bool:
    """Whether a pod needs devices that must be allocated."""
    if pod.spec.resource_claims:
        return True
    served = {each.spec.extended_resource_name for each in objects.list(DeviceClass)}
    return any(name in served for name in pod_requested(pod).scalar)


def expectation(recorded: Mapping[str, Any], missing: frozenset[str]) -> Expectation:
    """Reduce a recorded step to the answers of existing plugins."""
    fields = {key: value for key, value in recorded.items() if key != "pod"}
    blockers = _blocking_plugins(recorded) & missing
    if blockers:
        # Whether a node passes is everything: without that verdict nothing can be compared.
        return Expectation({}, tuple(sorted(blockers)))
    needs = set(recorded.get("scores", {})) & missing
    _without_scores(fields, needs)
    if "postFilter" in fields:
        needs |= _without_post_filter(fields, missing)
    if "allocations" in fields and "DynamicResources" in missing:
        del fields["allocations"]
        needs.add("DynamicResources")
    return Expectation(fields, tuple(sorted(needs)))


def _blocking_plugins(recorded: Mapping[str, Any]) -> set[str]:
    """The plugins that rejected the pod, or the pod on some node."""
    found = {status["plugin"] for status in recorded.get("rejected", {}).values()}
    found |= set(recorded.get("unschedulablePlugins", ()))
    for single in ("gated", "absentNodes"):
        if single in recorded:
            found.add(recorded[single]["plugin"])
    return found


def _without_scores(fields: dict[str, Any], absent: set[str]) -> None:
    if not absent:
        return
    scores = fields["scores"]
    fields["scores"] = {name: score for name, score in scores.items() if name not in absent}
    fields["total"] = {
        node: total - sum(scores[name][node] for name in absent)
        for node, total in fields["total"].items()
    }
    if any(len(set(scores[name].values())) > 1 for name in absent):
        # The missing scores may have decided.
        fields.pop("best")
        fields.pop("chosen")


def _without_post_filter(fields: dict[str, Any], missing: frozenset[str]) -> set[str]:
    """Remove the messages of missing PostFilter plugins; return those plugins."""
    absent = missing.intersection(_POST_FILTER)
    status = fields["postFilter"]
    if not absent:
        return set()
    said_no_more = status["code"] == "Success" or _NO_NEW_CLAIMS in status["reasons"]
    if absent == {"DynamicResources"} and said_no_more:
        # The missing plugin gave only its own reason, so the part of preemption can be compared.
        if status["code"] != "Success":
            reasons = [reason for reason in status["reasons"] if reason != _NO_NEW_CLAIMS]
            fields["message"] = fields["message"].replace(f"{_NO_NEW_CLAIMS}, ", "")
            fields["postFilter"] = {**status, "plugin": "DefaultPreemption", "reasons": reasons}
        return set(absent)
    fields["message"] = _without_suffix(fields["message"], status["reasons"])
    for field in _AFTER_POST_FILTER:
        fields.pop(field, None)
    return set(absent)


def _without_suffix(message: str, reasons: list[str]) -> str:
    """The FitError alone: the reasons were recorded sorted, the text has them in any order."""
    for order in permutations(reasons):
        suffix = f" {', '.join(order)}"
        if order and message.endswith(suffix):
            return message.removesuffix(suffix)
    return message
