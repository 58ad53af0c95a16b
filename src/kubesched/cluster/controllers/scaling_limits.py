"""Limits on the changes of an autoscaler: stabilization and scaling policies.

Pure functions of values; the state of an autoscaler between two decisions is a `ScalingHistory`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kubesched.foundation.util.clock import SECOND

__all__ = ["Limited", "ScalingHistory", "limit_replicas"]

Json = Mapping[str, Any]

_DEFAULT_DOWN_SECONDS: Final = 300
# Without a behavior the number may double, and may always grow to this number.
_GROWTH_FACTOR, _GROWTH_MINIMUM = 2, 4


class _Change(NamedTuple):
    """A change of the number of replicas."""

    at_ns: int
    amount: int


class ScalingHistory:
    """Earlier recommendations and changes of one autoscaler."""

    def __init__(self) -> None:
        self.recommendations: list[_Change] = []
        self.ups: list[_Change] = []
        self.downs: list[_Change] = []

    def record(self, before: int, after: int, now_ns: int, longest_seconds: int) -> None:
        """Record a change that was made. Changes before the longest period are dropped."""
        first_ns = now_ns - longest_seconds * SECOND
        self.ups = [each for each in self.ups if each.at_ns > first_ns]
        self.downs = [each for each in self.downs if each.at_ns > first_ns]
        if after > before:
            self.ups.append(_Change(now_ns, after - before))
        elif after < before:
            self.downs.append(_Change(now_ns, before - after))


class Limited(NamedTuple):
    """A number of replicas after all limits, and the conditions that explain it."""

    replicas: int
    able: tuple[str, str]  # reason and message of AbleToScale
    limited: tuple[str, str, str]  # status, reason and message of ScalingLimited


_READY = ("ReadyForNewScale", "recommended size matches current size")
_TOO_FEW = (
    "True",
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
)
_TOO_MANY = (
    "True",
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
)
_UP_LIMIT = (
    "True",
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_DOWN_LIMIT = (
    "True",
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)
_WITHIN = ("False", "DesiredWithinRange", "the desired count is within the acceptable range")


def limit_replicas(
    desired: int,
    current: int,
    bounds: tuple[int, int],
    behavior: Json | None,
    history: ScalingHistory,
    now_ns: int,
) -> Limited:
    """Return the number of replicas that the policies allow now, for the `desired` number."""
    if behavior is None:
        stable, able = _stabilized(desired, history, now_ns)
        return _bounded(stable, current, bounds, able)
    stable, able = _stabilized_by_rules(desired, current, behavior, history, now_ns)
    return _limited_by_rates(stable, current, bounds, behavior, history, now_ns, able)


def _stabilized(desired: int, history: ScalingHistory, now_ns: int) -> tuple[int, tuple[str, str]]:
    """Return the highest recommendation of the last minutes."""
    recent = _recent(history, _DEFAULT_DOWN_SECONDS, now_ns)
    highest = max([desired, *(each.amount for each in recent)])
    history.recommendations = [*recent, _Change(now_ns, desired)]
    return highest, _READY if highest == desired else _DOWN_STABILIZED


_DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, applying the highest recent "
    "recommendation",
)
_UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)


def _stabilized_by_rules(
    desired: int, current: int, behavior: Json, history: ScalingHistory, now_ns: int
) -> tuple[int, tuple[str, str]]:
    up_seconds = _window(behavior.get("scaleUp"), 0)
    down_seconds = _window(behavior.get("scaleDown"), _DEFAULT_DOWN_SECONDS)
    ups = _recent(history, up_seconds, now_ns)
    downs = _recent(history, down_seconds, now_ns)
    lowest = min([desired, *(each.amount for each in ups)])
    highest = max([desired, *(each.amount for each in downs)])
    kept = _recent(history, max(up_seconds, down_seconds), now_ns)
    history.recommendations = [*kept, _Change(now_ns, desired)]
    stable = max(lowest, current)
    stable = min(stable, highest)
    if stable == desired:
        return stable, _READY
    return stable, _UP_STABILIZED if desired >= current else _DOWN_STABILIZED


def _window(rules: Json | None, default: int) -> int:
    seconds = (rules or {}).get("stabilizationWindowSeconds")
    return default if seconds is None else int(seconds)


def _recent(history: ScalingHistory, seconds: int, now_ns: int) -> list[_Change]:
    first_ns = now_ns - seconds * SECOND
    return [each for each in history.recommendations if each.at_ns > first_ns]


def _bounded(desired: int, current: int, bounds: tuple[int, int], able: tuple[str, str]) -> Limited:
    least, most = bounds
    growth = max(_GROWTH_FACTOR * current, _GROWTH_MINIMUM)
    if desired < least:
        return Limited(least, able, _TOO_FEW)
    if desired > min(most, growth):
        return Limited(min(most, growth), able, _UP_LIMIT if growth < most else _TOO_MANY)
    return Limited(desired, able, _WITHIN)


def _limited_by_rates(
    desired: int,
    current: int,
    bounds: tuple[int, int],
    behavior: Json,
    history: ScalingHistory,
    now_ns: int,
    able: tuple[str, str],
) -> Limited:
    least, most = bounds
    if desired > current:
        limit = max(current, _up_limit(current, behavior.get("scaleUp") or {}, history, now_ns))
        if desired > min(most, limit):
            return Limited(min(most, limit), able, _UP_LIMIT if limit < most else _TOO_MANY)
    elif desired < current:
        rules = behavior.get("scaleDown") or {}
        limit = min(current, _down_limit(current, rules, history, now_ns))
        if desired < max(least, limit):
            return Limited(max(least, limit), able, _DOWN_LIMIT if limit > least else _TOO_FEW)
    return Limited(desired, able, _WITHIN)


def _period_start(current: int, policy: Json, history: ScalingHistory, now_ns: int) -> int:
    """Return the number of replicas at the beginning of a policy's period."""
    first_ns = now_ns - int(policy.get("periodSeconds", 0)) * SECOND
    added = sum(each.amount for each in history.ups if each.at_ns > first_ns)
    deleted = sum(each.amount for each in history.downs if each.at_ns > first_ns)
    return current - added + deleted


def _up_limit(current: int, rules: Json, history: ScalingHistory, now_ns: int) -> int:
    policies: Sequence[Json] = rules.get("policies") or ()
    if rules.get("selectPolicy") == "Disabled" or not policies:
        return current
    limits: list[int] = []
    for policy in policies:
        start = _period_start(current, policy, history, now_ns)
        if policy.get("type") == "Pods":
            limits.append(start + int(policy["value"]))
        else:
            limits.append(math.ceil(start * (1 + policy["value"] / 100)))
    return min(limits) if rules.get("selectPolicy") == "Min" else max(limits)


def _down_limit(current: int, rules: Json, history: ScalingHistory, now_ns: int) -> int:
    policies: Sequence[Json] = rules.get("policies") or ()
    if rules.get("selectPolicy") == "Disabled" or not policies:
        return current
    limits: list[int] = []
    for policy in policies:
        start = _period_start(current, policy, history, now_ns)
        if policy.get("type") == "Pods":
            limits.append(start - int(policy["value"]))
        else:
            limits.append(int(start * (1 - policy["value"] / 100)))
    return max(limits) if rules.get("selectPolicy") == "Min" else min(limits)
