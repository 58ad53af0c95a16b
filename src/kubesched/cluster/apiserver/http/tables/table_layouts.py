"""Lookup of the table layout of a resource."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.http.tables.admission_tables import ADMISSION
from kubesched.cluster.apiserver.http.tables.cluster_tables import CLUSTER
from kubesched.cluster.apiserver.http.tables.custom_table import custom_layout
from kubesched.cluster.apiserver.http.tables.other_tables import OTHERS
from kubesched.cluster.apiserver.http.tables.pod_table import PODS
from kubesched.cluster.apiserver.http.tables.storage_tables import STORAGE
from kubesched.cluster.apiserver.http.tables.table import NAME, Column, Layout
from kubesched.cluster.apiserver.http.tables.workload_tables import WORKLOADS
from kubesched.cluster.apiserver.rules.custom import CustomStrategy
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource

__all__ = ["layout_of"]


def _created(data: Mapping[str, Any], _now_ns: int) -> Sequence[Any]:
    return (data["metadata"]["name"], data["metadata"].get("creationTimestamp", ""))


_LAYOUTS: dict[str, Layout] = {
    "Pod": PODS,
    **OTHERS,
    **ADMISSION,
    **CLUSTER,
    **STORAGE,
    **WORKLOADS,
}
_DEFAULT_LAYOUT = Layout((NAME, Column("Created At", type="date")), _created)


def layout_of(resource: Resource) -> Layout:
    if isinstance(resource.strategy, CustomStrategy):
        custom = resource.strategy.custom
        return custom_layout(() if custom is None else custom.columns)
    return _LAYOUTS.get(resource.kind, _DEFAULT_LAYOUT)
