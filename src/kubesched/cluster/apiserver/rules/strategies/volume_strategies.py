"""The strategies of persistent volumes, claims, storage classes and CSI drivers."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.strategies.canonical_quantities import canonical_amounts
from kubesched.cluster.apiserver.rules.strategies.core_strategies import StatusStrategy
from kubesched.cluster.apiserver.rules.strategies.limit_ranges import check_claim_limits
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import (
    Json,
    ObjectLookup,
    ResourceStrategy,
)
from kubesched.cluster.apiserver.rules.validation.object_validation import (
    check_claim,
    check_claim_update,
    check_storage_class,
    check_storage_class_update,
    check_volume,
)

__all__ = [
    "CSIDriverStrategy",
    "PersistentVolumeClaimStrategy",
    "PersistentVolumeStrategy",
    "StorageClassStrategy",
]

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class PersistentVolumeStrategy(StatusStrategy):
    """The rules for persistent volumes."""

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        filled = {
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
            **spec,
        }
        if capacity := spec.get("capacity"):
            filled["capacity"] = canonical_amounts(capacity)
        return {**new, "spec": filled}

    def prepare_create(self, new: Json, _stamp: str, /) -> Json:
        return {**new, "status": {"phase": "Pending"}}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_volume(new)


class PersistentVolumeClaimStrategy(StatusStrategy):
    """The rules for persistent volume claims."""

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        spec = new.get("spec", {})
        if old is not None and spec is old.get("spec"):
            return new
        filled = {"volumeMode": "Filesystem", **spec}
        if requests := spec.get("resources", {}).get("requests"):
            filled["resources"] = {**spec["resources"], "requests": canonical_amounts(requests)}
        return {**new, "spec": filled}

    def admit(self, new: Json, cluster: ObjectLookup, /) -> Json:
        """Set the default class of a claim without one; the newest if there are several."""
        spec = new["spec"]
        check_claim_limits(
            new, cluster.in_namespace("limitranges", new["metadata"].get("namespace", ""))
        )
        if spec.get("storageClassName") is not None:
            return new
        defaults = [
            candidate
            for candidate in cluster.all("storageclasses")
            if candidate["metadata"].get("annotations", {}).get(_DEFAULT_CLASS) == "true"
        ]
        if not defaults:
            return new
        defaults.sort(key=lambda candidate: candidate["metadata"]["name"])
        newest = max(defaults, key=lambda candidate: candidate["metadata"]["creationTimestamp"])
        return {**new, "spec": {**spec, "storageClassName": newest["metadata"]["name"]}}

    def prepare_create(self, new: Json, _stamp: str, /) -> Json:
        return {**new, "status": {"phase": "Pending"}}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_claim(new)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_claim_update(new, old)


class StorageClassStrategy(ResourceStrategy):
    """The rules for storage classes."""

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        if new.get("reclaimPolicy") and new.get("volumeBindingMode"):
            return new
        return {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", **new}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_storage_class(new)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_storage_class_update(new, old)


class CSIDriverStrategy(ResourceStrategy):
    """The rules for CSI drivers."""

    unconditional_update = False

    def default(self, new: Json, _old: Json | None = None, /) -> Json:
        spec = {
            "attachRequired": True,
            "podInfoOnMount": False,
            "storageCapacity": False,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "requiresRepublish": False,
            "volumeLifecycleModes": ["Persistent"],
            **new.get("spec", {}),
        }
        return new if spec == new.get("spec") else {**new, "spec": spec}
