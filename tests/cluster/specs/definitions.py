"""Definitions of custom resources for specs, equal to those of the suite's helpers."""

from __future__ import annotations

from typing import Any

from tests.cluster.specs.spec_runner import Json, Spec

__all__ = ["DEFINITIONS", "Defined", "define"]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Defined:
    """A custom resource, in a scenario's namespace or for the whole cluster."""

    def __init__(self, spec: Spec, group: str, plural: str, *, namespaced: bool) -> None:
        self._spec, self.group, self.plural = spec, group, plural
        self.kind = plural.removesuffix("s").capitalize()
        self._home = f"/namespaces/{spec.namespace}" if namespaced else ""
        self.definition = f"{DEFINITIONS}/{plural}.{group}"

    def path(self, name: str = "", version: str = "v1") -> str:
        home = f"/apis/{self.group}/{version}{self._home}/{self.plural}"
        return f"{home}/{name}" if name else home

    def create(self, name: str, version: str = "v1", **more: Any) -> Json:
        return self._spec.send("POST", self.path(version=version), self.document(name, **more))

    def document(self, name: str, version: str = "v1", **more: Any) -> Json:
        metadata = {"name": name, **more.pop("metadata", {})}
        head = {"apiVersion": f"{self.group}/{version}", "kind": self.kind}
        return {**head, "metadata": metadata, **more}

    def delete(self, name: str, **options: Any) -> Json:
        return self._spec.send("DELETE", self.path(name), options or None)

    def list(self) -> list[Json]:
        items: list[Json] = self._spec.send("GET", self.path())["items"]
        return items


def define(
    spec: Spec,
    schema: Json = ANYTHING,
    *,
    plural: str = "noxus",
    namespaced: bool = True,
    labels: Json | None = None,
    versions: tuple[str, ...] = ("v1",),
    **more: Any,
) -> Defined:
    """Have a resource served, of a group of the scenario's own."""
    defined = Defined(spec, f"{spec.namespace}.example.com", plural, namespaced=namespaced)
    names = {"plural": plural, "singular": plural.removesuffix("s"), "kind": defined.kind}
    body = {
        "metadata": {"name": f"{plural}.{defined.group}", "labels": labels or {}},
        "spec": {
            "group": defined.group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {**names, "listKind": f"{defined.kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": {"openAPIV3Schema": schema},
                    **more,
                }
                for version in versions
            ],
        },
    }
    spec.send("POST", DEFINITIONS, body)
    return defined
