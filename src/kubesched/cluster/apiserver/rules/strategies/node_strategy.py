"""The strategy of nodes. Allocatable resources default to the capacity."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.strategies.canonical_quantities import canonical_amounts
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy
from kubesched.cluster.apiserver.rules.validation.metadata_validation import check_metadata_update
from kubesched.cluster.apiserver.rules.validation.object_validation import (
    check_node,
    check_node_update,
)

__all__ = ["NodeStrategy"]


class NodeStrategy(ResourceStrategy):
    """The rules for nodes."""

    has_status = True
    keeps_status = True

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        status = new.get("status")
        if not status or (old is not None and status is old.get("status")):
            return new
        filled = dict(status)
        if "capacity" in status:
            filled["capacity"] = canonical_amounts(status["capacity"])
            filled.setdefault("allocatable", filled["capacity"])
        if "allocatable" in filled:
            filled["allocatable"] = canonical_amounts(filled["allocatable"])
        return {**new, "status": filled}

    def prepare_status(self, new: Json, old: Json, /) -> Json:
        return {**new, "spec": old.get("spec", {})}

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_node(new)

    def check_change(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return check_node_update(new, old)

    def check_update(self, new: Json, old: Json, /) -> list[FieldProblem]:
        problems = check_metadata_update(new["metadata"], old["metadata"])
        return problems + check_node_update(new, old)

    def check_status(self, new: Json, old: Json, /) -> list[FieldProblem]:
        return self.check_update(new, old)
