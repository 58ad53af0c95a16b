"""The rules for HorizontalPodAutoscalers: defaults and validation of version 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kubesched.cluster.apiserver.rules.errors.field_problems import (
    FieldProblem,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy

__all__ = ["AutoscalerStrategy"]

_UP: Final = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Final = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_SELECTIONS: Final = ("Disabled", "Max", "Min")
_POLICIES: Final = ("Percent", "Pods")
_LONGEST_PERIOD, _LONGEST_WINDOW = 1800, 3600
# The field of the source of a metric, by its type.
_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


class AutoscalerStrategy(ResourceStrategy):
    """Defaults and validates autoscalers."""

    has_status = True

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        spec = {"minReplicas": 1, **new.get("spec", {})}
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        if (behavior := spec.get("behavior")) is not None:
            spec["behavior"] = {
                "scaleUp": _filled(behavior.get("scaleUp"), _UP),
                "scaleDown": _filled(behavior.get("scaleDown"), _DOWN),
            }
        return {**new, "spec": spec}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return list(_problems(new.get("spec") or {}))


def _filled(rules: Json | None, defaults: Json) -> Json:
    given = {key: value for key, value in (rules or {}).items() if value not in (None, [])}
    return {**defaults, **given}


def _problems(spec: Json) -> Iterator[FieldProblem]:
    yield from _replica_problems(spec)
    reference = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        if not reference.get(field):
            yield required(f"spec.scaleTargetRef.{field}")
    for number, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric_problems(metric, f"spec.metrics[{number}]")
    behavior = spec.get("behavior") or {}
    for direction in ("scaleUp", "scaleDown"):
        if direction in behavior:
            yield from _rule_problems(behavior[direction] or {}, f"spec.behavior.{direction}")


def _replica_problems(spec: Json) -> Iterator[FieldProblem]:
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if least < 0 or (least == 0 and not _has_outside_metric(spec)):
        if least == 0:
            text = "must specify at least one Object or External metric to support scaling to zero"
            yield forbidden("spec.metrics", text)
        else:
            yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _has_outside_metric(spec: Json) -> bool:
    return any(each.get("type") in ("Object", "External") for each in spec.get("metrics") or ())


def _metric_problems(metric: Json, path: str) -> Iterator[FieldProblem]:
    kind = metric.get("type")
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
        return
    if kind not in _SOURCES:
        yield not_supported(f"{path}.type", kind, sorted(_SOURCES))
        return
    source = metric.get(_SOURCES[kind])
    where = f"{path}.{_SOURCES[kind]}"
    if not isinstance(source, dict):
        text = "must populate information for the given metric source"
        yield required(where, text)
        return
    if kind in ("Resource", "ContainerResource"):
        if not source.get("name"):
            yield required(f"{where}.name", "must specify a resource name")
        if kind == "ContainerResource" and not source.get("container"):
            yield required(f"{where}.container", "must specify a container")
        yield from _target_problems(source.get("target") or {}, f"{where}.target")


def _target_problems(target: Json, path: str) -> Iterator[FieldProblem]:
    utilization, average = target.get("averageUtilization"), target.get("averageValue")
    if not target.get("type"):
        yield required(f"{path}.type", "must specify a metric target type")
    if utilization is not None and utilization < 1:
        yield invalid(f"{path}.averageUtilization", utilization, "must be greater than 0")
    if utilization is None and average is None:
        text = "must set either a target raw value or a target utilization"
        yield required(f"{path}.averageUtilization", text)
    if utilization is not None and average is not None:
        text = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{path}.averageValue", text)


def _rule_problems(rules: Json, path: str) -> Iterator[FieldProblem]:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        yield invalid(
            f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"
        )
    if window is not None and window > _LONGEST_WINDOW:
        text = f"must be less than or equal to {_LONGEST_WINDOW}"
        yield invalid(f"{path}.stabilizationWindowSeconds", window, text)
    if rules.get("selectPolicy") not in _SELECTIONS:
        yield not_supported(f"{path}.selectPolicy", rules.get("selectPolicy"), _SELECTIONS)
    policies: list[Any] = rules.get("policies") or []
    if not policies:
        yield required(f"{path}.policies", "must specify at least one Policy")
    for number, policy in enumerate(policies):
        where = f"{path}.policies[{number}]"
        if policy.get("type") not in _POLICIES:
            yield not_supported(f"{where}.type", policy.get("type"), _POLICIES)
        if policy.get("value", 0) <= 0:
            yield invalid(f"{where}.value", policy.get("value", 0), "must be greater than zero")
        seconds = policy.get("periodSeconds", 0)
        if seconds <= 0:
            yield invalid(f"{where}.periodSeconds", seconds, "must be greater than zero")
        if seconds > _LONGEST_PERIOD:
            text = f"must be less than or equal to {_LONGEST_PERIOD}"
            yield invalid(f"{where}.periodSeconds", seconds, text)
