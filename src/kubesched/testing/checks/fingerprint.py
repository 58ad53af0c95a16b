"""Fingerprints of a plugin's arguments, to detect mutations by a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from kubesched.api import Pod
from kubesched.framework import NodeInfo, NodeView
from kubesched.framework.engine import LabelColumn, NodeTable

__all__ = ["difference", "fingerprint"]

_encoder = msgspec.json.Encoder(order="deterministic")


def fingerprint(pod: Pod, view: NodeView) -> dict[str, Any]:
    """Return a value for everything that a plugin could mutate: the pod, nodes, columns."""
    found: dict[str, Any] = {"the pod": _encoder.encode(pod)}
    for info in view:
        found[f"NodeInfo of {info.name}"] = _node_info(info)
        if info.node is not None:
            found[f"node {info.name}"] = _encoder.encode(info.node)
    found.update(_columns(view.table))
    return found


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Name what has changed; empty if nothing has. A new column may appear: reading creates it."""
    changed = [name for name, value in before.items() if after.get(name) != value]
    return ", ".join(changed)


def _node_info(info: NodeInfo) -> tuple[Any, ...]:
    return (
        tuple(id(pod_info) for pod_info in info.pods),
        tuple(_encoder.encode(pod_info.pod) for pod_info in info.pods),
        len(info.pods_with_affinity),
        len(info.pods_with_required_anti_affinity),
        sorted(map(repr, info.used_ports)),
        _amounts(info.requested),
        _amounts(info.allocatable),
        info.nonzero_cpu,
        info.nonzero_memory,
        info.allowed_pod_number,
        dict(info.image_states),
        dict(info.pvc_ref_counts),
    )


def _amounts(resources: Any) -> tuple[int, int, int, dict[str, int]]:
    return (
        resources.milli_cpu,
        resources.memory,
        resources.ephemeral_storage,
        dict(resources.scalar),
    )


def _columns(table: NodeTable) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(table).items():
        if isinstance(value, np.ndarray) and not name.startswith("_"):  # private arrays are views
            found[f"column {name}"] = (value.shape, value.tobytes())
        elif isinstance(value, dict):
            for key, column in value.items():
                if isinstance(column, LabelColumn):
                    found[f"column of label {key}"] = (column.ids.shape, column.ids.tobytes())
                elif isinstance(column, np.ndarray):
                    found[f"column {name}[{key}]"] = (column.shape, column.tobytes())
    return found
