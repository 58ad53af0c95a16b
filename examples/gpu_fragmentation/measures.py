"""From placements to the curves of the published tables (docs/reference/10 §9, §10)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from examples.gpu_fragmentation.fragmentation import TypicalPods
from examples.gpu_fragmentation.trace import DEVICE_MILLI, GpuNode, GpuPod

__all__ = ["Curves", "Placed", "curves"]

_CELLS = 131  # 0 to 130 % of the cluster's GPU have arrived
_AT_ONCE = 4096  # states that one call evaluates


class Placed(msgspec.Struct, frozen=True):
    """The placement of a pod: a node by its index, and devices of it; or no node."""

    node: int
    devices: tuple[int, ...]


class Curves(msgspec.Struct, frozen=True):
    """One value for each percent of the cluster's GPU that has been requested so far.

    None where no pod arrived, which happens in small clusters only.
    """

    gpu_allocation: list[float | None]  # % of the cluster's GPU
    fragment_amount: list[float | None]  # % of the cluster's GPU
    fragment_ratio: list[float | None]  # % of the idle GPU


def curves(
    nodes: Sequence[GpuNode],
    pods: Sequence[GpuPod],
    placed: Sequence[Placed | None],
    typical: TypicalPods,
) -> Curves:
    """Replay the placements and measure after each arrival."""
    capacity = sum(node.devices for node in nodes) * DEVICE_MILLI
    used = np.cumsum([pod.need if where else 0 for pod, where in zip(pods, placed, strict=True)])
    arrived = np.cumsum([pod.need for pod in pods])
    fragment = _fragment_after_each(nodes, pods, placed, typical)
    ratio = np.round(100 * fragment / np.maximum(capacity - used, 1), 2)
    percent = np.round(arrived * 100 / capacity).astype(np.int64)
    allocated = np.round(used * 100 / capacity, 2)
    return Curves(
        _cells(percent, allocated),
        _cells(percent, 100 * np.round(fragment, 2) / capacity),
        _cells(percent, ratio),
    )


def _fragment_after_each(
    nodes: Sequence[GpuNode],
    pods: Sequence[GpuPod],
    placed: Sequence[Placed | None],
    typical: TypicalPods,
) -> NDArray[np.float64]:
    """Return float64[arrival]: the fragment of the whole cluster. A placement changes one node."""
    width = max(node.devices for node in nodes)
    cpu = [node.cpu_milli for node in nodes]
    left = [[DEVICE_MILLI] * node.devices + [0] * (width - node.devices) for node in nodes]
    changed = list(range(len(nodes)))  # the node of each state; first all of them as they begin
    cpus, lefts = list(cpu), [list(each) for each in left]
    for pod, where in zip(pods, placed, strict=True):
        if where is None:
            continue
        cpu[where.node] -= pod.cpu_milli
        for device in where.devices:
            left[where.node][device] -= pod.milli
        changed.append(where.node)
        cpus.append(cpu[where.node])
        lefts.append(list(left[where.node]))
    access = np.stack([typical.access(node.model) for node in nodes], axis=1)
    of_state = _fragments(typical, np.array(cpus), np.array(lefts), access[:, changed])
    now = of_state[: len(nodes)].copy()
    after, state = np.zeros(len(pods)), len(nodes)
    total = now.sum()
    for place, where in enumerate(placed):
        if where is not None:
            now[where.node] = of_state[state]
            state += 1
            total = now.sum()
        after[place] = total
    return after


def _fragments(
    typical: TypicalPods,
    cpu: NDArray[np.int64],
    left: NDArray[np.int64],
    access: NDArray[np.bool_],
) -> NDArray[np.float64]:
    parts = [slice(start, start + _AT_ONCE) for start in range(0, len(cpu), _AT_ONCE)]
    return np.concatenate(
        [typical.fragment(cpu[part], left[part], access[:, part]) for part in parts]
    )


def _cells(percent: NDArray[np.int64], values: NDArray[np.float64]) -> list[float | None]:
    """The mean of each percent; with its neighbours if nothing arrived at it."""
    cells: list[float | None] = []
    for cell in range(_CELLS):
        near = percent == cell
        if not near.any():
            near = abs(percent - cell) <= 1
        cells.append(round(float(values[near].mean()), 2) if near.any() else None)
    return cells
