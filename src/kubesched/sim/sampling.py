"""Samples of a run: utilization, waste and waiting pods at one moment.

Idle amounts are *stranded* on nodes where no kind of pod of the workload fits. They are
*fragmented* in the share that a pod drawn from the workload cannot use: the measure of
docs/reference/10 §6 for plain resources.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.sim.observer import NodeState, Observer

__all__ = ["Series", "momentary", "sample"]

Row = dict[str, float]


class Series:
    """A table stored by columns; a column that is added later starts with zeros."""

    def __init__(self) -> None:
        self.columns: dict[str, list[float]] = {"time": []}
        self.digests: list[str] = []

    def __len__(self) -> int:
        return len(self.columns["time"])

    def add(self, row: Row, digest: str) -> None:
        rows = len(self)
        for name, value in row.items():
            column = self.columns.setdefault(name, [0.0] * rows)
            column.append(round(value, 6))
        for column in self.columns.values():
            if len(column) == rows:
                column.append(0.0)
        self.digests.append(digest)


def sample(observer: Observer, now_ns: int, start_ns: int, prices: Any) -> Row:
    """Return all numbers of the cluster at this moment."""
    nodes = list(observer.nodes.values())
    row = _counts(observer, now_ns, start_ns)
    for reason, count in observer.pending_reasons().items():
        row[f"pending: {reason}"] = count
    if observer.groups.is_used:
        row["groups placed"] = observer.groups.placed
        row["groups waiting"] = observer.groups.waiting
    if any(prices.values()):
        row["cost"] = _cost(observer, now_ns, prices)
    resources = sorted({name for node in nodes for name in node.allocatable} - {"pods"})
    if not nodes:
        return row
    groups = sorted({node.group for node in nodes})
    waste = _waste(observer, nodes, resources)
    row |= _usage("", nodes, resources, waste, [True] * len(nodes))
    if len(groups) > 1:
        for group in groups:
            member = [node.group == group for node in nodes]
            row |= _usage(f"{group}: ", nodes, resources, waste, member)
    row |= _balance(nodes, resources)
    return row


def momentary(observer: Observer, now_ns: int, start_ns: int) -> Row:
    """Return the numbers that need no pass over the nodes, for a row after every change."""
    row = _counts(observer, now_ns, start_ns)
    for name in sorted(observer.total):
        if name != "pods" and (total := observer.total[name]):
            row[f"{name} allocated"] = observer.allocated.get(name, 0) / total
            row[f"{name} used"] = observer.used.get(name, 0) / total
    return row


def _counts(observer: Observer, now_ns: int, start_ns: int) -> Row:
    return {
        "time": (now_ns - start_ns) / 1e9,
        "nodes": len(observer.nodes),
        "pending": len(observer.waiting),
        "bound": observer.counts["bound"],
        "preempted": observer.counts["preempted"],
        "evicted": observer.counts["evicted"],
        "failed": observer.counts["failed"],
    }


def _usage(
    prefix: str,
    nodes: Sequence[NodeState],
    resources: Sequence[str],
    waste: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]],
    member: Sequence[bool],
) -> Row:
    row: Row = {}
    chosen = [node for node, is_member in zip(nodes, member, strict=True) if is_member]
    mask = np.array(member)
    for name in resources:
        total = sum(node.allocatable.get(name, 0) for node in chosen)
        if not total:
            continue
        allocated = sum(node.requested[name] for node in chosen)
        used = sum(node.used[name] for node in chosen)
        stranded, fragmented = waste[name]
        row[f"{prefix}{name} total"] = total
        row[f"{prefix}{name} allocated"] = allocated / total
        row[f"{prefix}{name} used"] = used / total
        row[f"{prefix}{name} stranded"] = float(stranded[mask].sum()) / total
        row[f"{prefix}{name} fragmented"] = float(fragmented[mask].sum()) / total
    return row


def _waste(
    observer: Observer, nodes: Sequence[NodeState], resources: Sequence[str]
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return by resource the stranded amount, and the expected fragment, on each node."""
    allocatable = np.array(
        [[node.allocatable.get(name, 0) for name in resources] for node in nodes], dtype=np.float64
    )
    requested = np.array(
        [[node.requested[name] for name in resources] for node in nodes], dtype=np.float64
    )
    idle = np.maximum(allocatable - requested, 0)  # [node, resource]
    ranked = observer.kinds.ranked()
    fits_any = np.zeros(len(nodes), dtype=bool)
    unusable = np.zeros(len(nodes))
    total = sum(count for _, count in ranked)
    for kind, count in ranked:
        wanted = dict(kind)
        need = np.array([wanted.get(name, 0) for name in resources], dtype=np.float64)
        fits = (idle >= need).all(axis=1)
        fits_any |= fits
        unusable += (count / total) * ~fits
    if not ranked:
        fits_any[:] = True
    return {
        name: (np.where(fits_any, 0.0, idle[:, place]), unusable * idle[:, place])
        for place, name in enumerate(resources)
    }


def _balance(nodes: Sequence[NodeState], resources: Sequence[str]) -> Row:
    """How far zones are apart: the largest minus the smallest share that is allocated."""
    zones: dict[str, list[NodeState]] = {}
    for node in nodes:
        if node.zone:
            zones.setdefault(node.zone, []).append(node)
    row: Row = {}
    if len(zones) < 2:
        return row
    for name in resources:
        shares = []
        for members in zones.values():
            total = sum([node.allocatable.get(name, 0) for node in members])
            if total:
                used = sum([node.requested[name] for node in members])
                shares.append(used / total)
        if len(shares) > 1:
            row[f"{name} zone imbalance"] = max(shares) - min(shares)
    return row


def _cost(observer: Observer, now_ns: int, prices: dict[str, float]) -> float:
    total = sum(
        duration_ns * prices.get(group, 0.0) for group, duration_ns in observer.node_seconds.items()
    )
    for node in observer.nodes.values():
        total += (now_ns - node.since_ns) * prices.get(node.group, 0.0)
    return float(total) / 3.6e12
