"""The strategies of ingresses, ingress classes and endpoint slices."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem, immutable
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import (
    Json,
    ObjectLookup,
    ResourceStrategy,
)
from kubesched.cluster.apiserver.rules.validation.ingress_validation import (
    check_endpoint_slice,
    check_ingress,
    check_ingress_class,
)

__all__ = ["EndpointSliceStrategy", "IngressClassStrategy", "IngressStrategy"]

_CLASSES = "ingressclasses.networking.k8s.io"
_DEFAULT_CLASS = "ingressclass.kubernetes.io/is-default-class"
_CLASS = "kubernetes.io/ingress.class"


class IngressStrategy(ResourceStrategy):
    """The rules for ingresses, which no component serves."""

    has_status = True
    counts_generations = True

    def admit(self, new: Json, cluster: ObjectLookup, /) -> Json:
        """Set the default class: the newest one, if several are marked."""
        spec = new.get("spec") or {}
        if spec.get("ingressClassName") or _CLASS in (new["metadata"].get("annotations") or {}):
            return new
        marked = [
            each["metadata"]
            for each in cluster.all(_CLASSES)
            if (each["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"
        ]
        if not marked:
            return new
        marked.sort(key=lambda each: each["name"])
        newest = max(marked, key=lambda each: each.get("creationTimestamp") or "")
        return {**new, "spec": {**spec, "ingressClassName": newest["name"]}}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return list(check_ingress(new))


class IngressClassStrategy(ResourceStrategy):
    """The rules for ingress classes, whose controller is immutable."""

    counts_generations = True

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        spec = new.get("spec") or {}
        parameters = spec.get("parameters")
        if not isinstance(parameters, dict) or parameters.get("scope"):
            return new
        return {**new, "spec": {**spec, "parameters": {**parameters, "scope": "Cluster"}}}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return list(check_ingress_class(new))

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        controller = (new.get("spec") or {}).get("controller")
        if controller == (old.get("spec") or {}).get("controller"):
            return []
        return [immutable("spec.controller", controller)]


class EndpointSliceStrategy(ResourceStrategy):
    """The rules for endpoint slices, whose address type is immutable."""

    counts_generations = True

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        ports = new.get("ports")
        if not ports or (old is not None and ports is old.get("ports")):
            return new
        return {**new, "ports": [{"name": "", "protocol": "TCP", **port} for port in ports]}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return list(check_endpoint_slice(new))

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        if new.get("addressType") == old.get("addressType"):
            return []
        return [immutable("addressType", new.get("addressType"))]
