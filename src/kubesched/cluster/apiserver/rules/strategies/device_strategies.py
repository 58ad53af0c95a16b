"""The strategies of resource claims, resource claim templates and resource slices."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem, immutable
from kubesched.cluster.apiserver.rules.strategies.core_strategies import StatusStrategy
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy
from kubesched.cluster.apiserver.rules.validation.object_validation import check_allocation

__all__ = ["ResourceClaimStrategy", "ResourceClaimTemplateStrategy", "ResourceSliceStrategy"]


class ResourceClaimStrategy(StatusStrategy):
    """The rules for resource claims, whose spec is immutable."""

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        return {**new, "spec": _default_claim(spec)}

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        if new.get("spec") == old.get("spec"):
            return []
        return [immutable("spec", new.get("spec"))]

    def check_status(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return super().check_status(new, old) + check_allocation(new, old)


class ResourceClaimTemplateStrategy(ResourceStrategy):
    """The rules for resource claim templates, whose spec is immutable."""

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        inner = _default_claim(spec.get("spec", {}))
        return {**new, "spec": {**spec, "spec": inner}}

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        if new.get("spec") == old.get("spec"):
            return []
        return [immutable("spec", new.get("spec"))]


class ResourceSliceStrategy(ResourceStrategy):
    """The rules for resource slices."""

    counts_generations = True


def _default_claim(spec: Json) -> Json:
    devices = spec.get("devices")
    if not devices or not devices.get("requests"):
        return spec
    requests = [_default_request(request) for request in devices["requests"]]
    return {**spec, "devices": {**devices, "requests": requests}}


def _default_request(request: Json) -> Json:
    filled = dict(request)
    if exactly := request.get("exactly"):
        filled["exactly"] = _default_amount(exactly)
    if choices := request.get("firstAvailable"):
        filled["firstAvailable"] = [_default_amount(choice) for choice in choices]
    return filled


def _default_amount(request: Json) -> Json:
    filled = dict(request)
    if not filled.get("allocationMode"):
        filled["allocationMode"] = "ExactCount"
    if filled["allocationMode"] == "ExactCount" and not filled.get("count"):
        filled["count"] = 1
    if tolerations := request.get("tolerations"):
        filled["tolerations"] = [{"operator": "Equal", **each} for each in tolerations]
    return filled
