"""Nodes: what is allocatable is the capacity, until a kubelet says less."""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.strategies.base import Json, Strategy
from kubesched.cluster.apiserver.rules.strategies.quantities import canonical
from kubesched.cluster.apiserver.rules.validation.metadata import check_metadata_update
from kubesched.cluster.apiserver.rules.validation.objects import check_node, check_node_update
from kubesched.cluster.apiserver.rules.validation.problems import Problem

__all__ = ["NodeStrategy"]


class NodeStrategy(Strategy):
    has_status = True
    keeps_status = True

    def default(self, new: Json, old: Json | None = None, /) -> Json:
        status = new.get("status")
        if not status or (old is not None and status is old.get("status")):
            return new
        filled = dict(status)
        if "capacity" in status:
            filled["capacity"] = canonical(status["capacity"])
            filled.setdefault("allocatable", filled["capacity"])
        if "allocatable" in filled:
            filled["allocatable"] = canonical(filled["allocatable"])
        return {**new, "status": filled}

    def prepare_status(self, new: Json, old: Json, /) -> Json:
        return {**new, "spec": old.get("spec", {})}

    def check_new(self, new: Json, /) -> list[Problem]:
        return check_node(new)

    def check_change(self, new: Json, old: Json, /) -> list[Problem]:
        return check_node_update(new, old)

    def check_update(self, new: Json, old: Json, /) -> list[Problem]:
        problems = check_metadata_update(new["metadata"], old["metadata"])
        return problems + check_node_update(new, old)

    def check_status(self, new: Json, old: Json, /) -> list[Problem]:
        return self.check_update(new, old)
