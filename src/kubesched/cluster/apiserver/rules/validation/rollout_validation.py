"""Validation of update strategies, and of the numbers in the specs of workloads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.validation.container_validation import NEGATIVE

__all__ = [
    "check_daemon_set_rollout",
    "check_deployment_rollout",
    "check_numbers",
    "check_selector_is_set",
    "check_stateful_set_rollout",
]

Json = Mapping[str, Any]

_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def check_numbers(spec: Json, fields: Iterable[str], path: str = "spec") -> Iterator[FieldProblem]:
    """Check that the fields that are set are not negative."""
    for field in fields:
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            yield invalid(f"{path}.{field}", value, NEGATIVE)


def check_selector_is_set(spec: Json, kind: str) -> Iterator[FieldProblem]:
    """Check that a selector does not select everything; `kind` stands in the message."""
    selector = spec.get("selector")
    if isinstance(selector, Mapping) and not any(selector.values()):
        text = f"empty selector is invalid for {kind}"
        yield invalid("spec.selector", dict(selector), text)


def check_deployment_rollout(spec: Json) -> Iterator[FieldProblem]:
    strategy, path = spec.get("strategy") or {}, "spec.strategy"
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            yield forbidden(f"{path}.rollingUpdate", text)
    elif kind == "RollingUpdate":
        yield from _check_shares(rolling or {}, f"{path}.rollingUpdate")
        if rolling and not _amount(rolling, "maxUnavailable") and not _amount(rolling, "maxSurge"):
            text = "may not be 0 when `maxSurge` is 0"
            value = rolling.get("maxUnavailable")
            yield invalid(f"{path}.rollingUpdate.maxUnavailable", value, text)
    else:
        yield not_supported(path, dict(strategy), ("Recreate", "RollingUpdate"))
    deadline, minimum = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= minimum:
        text = "must be greater than minReadySeconds"
        yield invalid("spec.progressDeadlineSeconds", deadline, text)


def check_daemon_set_rollout(spec: Json) -> Iterator[FieldProblem]:
    strategy, path = spec.get("updateStrategy") or {}, "spec.updateStrategy"
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate") or {}
    if kind == "RollingUpdate":
        path += ".rollingUpdate"
        yield from _check_shares(rolling, path)
        surge, unavailable = _amount(rolling, "maxSurge"), _amount(rolling, "maxUnavailable")
        if unavailable and surge:
            text = "may not be set when maxUnavailable is non-zero"
            yield invalid(f"{path}.maxSurge", rolling.get("maxSurge"), text)
        elif not unavailable and not surge:
            yield required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif kind != "OnDelete":
        yield not_supported(path, dict(strategy), ("RollingUpdate", "OnDelete"))


def check_stateful_set_rollout(spec: Json) -> Iterator[FieldProblem]:
    order = spec.get("podManagementPolicy")
    if order not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        yield invalid("spec.podManagementPolicy", order, text)
    strategy, path = spec.get("updateStrategy") or {}, "spec.updateStrategy"
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        if rolling is not None:
            text = "only allowed for updateStrategy 'RollingUpdate'"
            yield invalid(f"{path}.rollingUpdate", dict(rolling), text)
    elif kind == "RollingUpdate":
        path += ".rollingUpdate"
        yield from check_numbers(rolling or {}, ("partition",), path)
        yield from _check_shares(rolling or {}, path)
        most = (rolling or {}).get("maxUnavailable")
        if most is not None and not _amount(rolling or {}, "maxUnavailable"):
            yield invalid(f"{path}.maxUnavailable", most, "cannot be 0")
    else:
        text = "must be 'RollingUpdate' or 'OnDelete'"
        yield invalid(path, dict(strategy), text)
    yield from check_numbers(spec.get("ordinals") or {}, ("start",), "spec.ordinals")


def _check_shares(rolling: Json, path: str) -> Iterator[FieldProblem]:
    """Check the numbers or percentages of pods in a rolling update."""
    for field in ("maxUnavailable", "maxSurge"):
        value, where = rolling.get(field), f"{path}.{field}"
        if isinstance(value, str):
            digits = value.removesuffix("%")
            if not value.endswith("%") or not (digits.isascii() and digits.isdigit()):
                yield invalid(where, value, _PERCENT)
            elif field == "maxUnavailable" and int(digits) > 100:
                yield invalid(where, value, "must not be greater than 100%")
        elif isinstance(value, int) and value < 0:
            yield invalid(where, value, NEGATIVE)


def _amount(rolling: Json, field: str) -> int:
    """Return the number in a number or percentage; 0 if there is none."""
    value = rolling.get(field)
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return int(digits) if digits.isascii() and digits.isdigit() else 0
    return value if isinstance(value, int) else 0
