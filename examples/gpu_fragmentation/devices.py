"""Shared GPUs: the requests of pods, the free part of each device, and the allocations.

A pod requests GPUs by annotations; a node offers them by allocatable amounts and a label. The
allocated devices of a pod are in an annotation as well, written before it is bound. Therefore the
state of a node follows from its pods, and a restarted scheduler can recompute it (docs/reference/10
§4).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import NodeInfo, NodeView

__all__ = [
    "DEVICE",
    "GPU_COUNT",
    "GPU_INDEX",
    "GPU_MILLI",
    "GPU_MODEL",
    "MOST_DEVICES",
    "Ledger",
    "Request",
    "States",
    "request_of",
]

GPU_MILLI = "alibabacloud.com/gpu-milli"  # of each device; on nodes of all together
GPU_COUNT = "alibabacloud.com/gpu-count"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
GPU_INDEX = "alibabacloud.com/gpu-index"  # the devices a pod was given: "0" or "2-5-7"

DEVICE = 1000
_KINDS = 8  # pods that share a device, and those that request 1, 2, 4, 8, ... whole ones
MOST_DEVICES = 8  # of a node
_MAX_STATES = 1 << 17  # the limit of states, after which their numbers start again


class Request(NamedTuple):
    """The GPU request of a pod: `milli` of each of `count` devices."""

    count: int
    milli: int
    models: frozenset[str]  # empty: any

    @property
    def need(self) -> int:
        return self.count * self.milli

    @property
    def is_share(self) -> bool:
        return self.count == 1 and self.milli < DEVICE

    @property
    def kind(self) -> int:
        """Return 0 for pods that share a device, else a kind per power of two of devices."""
        return 0 if self.is_share else min(self.count.bit_length(), _KINDS - 1)


def request_of(pod: Pod) -> Request:
    annotations = pod.metadata.annotations
    return _request(
        annotations.get(GPU_COUNT, "0"),
        annotations.get(GPU_MILLI, "0"),
        annotations.get(GPU_MODEL, ""),
    )


@functools.lru_cache(maxsize=4096)
def _request(count: str, milli: str, models: str) -> Request:
    number = int(count)
    if not number:
        return Request(0, 0, frozenset())
    return Request(number, min(int(milli), DEVICE), frozenset(filter(None, models.split("|"))))


class States(NamedTuple):
    """The states of some nodes, an entry each."""

    cpu: NDArray[np.int64]  # free
    left: NDArray[np.int64]  # [node, device]; 0 for a device that is not there
    devices: NDArray[np.int64]  # how many there are
    model: NDArray[np.int64]  # a number for each model
    kinds: NDArray[np.int64]  # [node, kind]: pods with GPU

    @property
    def idle(self) -> NDArray[np.int64]:
        total: NDArray[np.int64] = self.left.sum(axis=1)
        return total


class Ledger:
    """The allocated devices by pod, and the free part of the devices of each node.

    Nodes with equal states, except for the order of their devices, have the same state number.
    There are far fewer states than pairs of node and pod.
    """

    def __init__(self) -> None:
        # by uid, until the informer has the annotation
        self._reserved: dict[str, tuple[int, ...]] = {}
        self._position = -1
        self._state = np.zeros(0, dtype=np.intp)  # [row]
        self._kinds = np.zeros((0, _KINDS), dtype=np.int64)  # [row, kind]
        self._numbers: dict[tuple[int, ...], int] = {}
        self._states = np.zeros(
            (64, 3 + MOST_DEVICES), dtype=np.int64
        )  # cpu, devices, model, left...
        self.models: list[str] = []
        self.epoch = 0  # grows when state numbers start again

    def reserve(self, pod: Pod, devices: Iterable[int]) -> None:
        self._reserved[pod.metadata.uid] = tuple(devices)

    def reserved(self, pod: Pod) -> tuple[int, ...]:
        return self._reserved.get(pod.metadata.uid, ())

    def release(self, pod: Pod) -> None:
        self._reserved.pop(pod.metadata.uid, None)

    def state_of(self, node: NodeInfo, without: Pod | None = None) -> States:
        """Return the state of one node from its pods, optionally with one pod removed."""
        left, kinds = self._count(node)
        cpu = node.allocatable.milli_cpu - node.requested.milli_cpu
        if without is not None and node.has_pod(without.metadata.uid):
            cpu += next(
                known.requested.milli_cpu
                for known in node.pods
                if known.uid == without.metadata.uid
            )
        return States(
            np.array([cpu], dtype=np.int64),
            np.array([left], dtype=np.int64),
            np.array([_devices(node)], dtype=np.int64),
            np.array([self._model(node)], dtype=np.int64),
            np.array([kinds], dtype=np.int64),
        )

    def states(self, nodes: NodeView) -> States:
        """The states of many nodes, with devices in any order."""
        numbers = self.numbers(nodes)
        return self._at(numbers, self._kinds.take(nodes.rows, axis=0))

    def numbered(self, numbers: NDArray[np.intp]) -> States:
        """The states with these numbers; nothing is known of the pods there."""
        return self._at(numbers, np.zeros((len(numbers), _KINDS), dtype=np.int64))

    def numbers(self, nodes: NodeView) -> NDArray[np.intp]:
        """The state number of each node."""
        self._catch_up(nodes)
        return self._state.take(nodes.rows)

    @property
    def state_count(self) -> int:
        return len(self._numbers)

    def _at(self, numbers: NDArray[np.intp], kinds: NDArray[np.int64]) -> States:
        found = self._states.take(numbers, axis=0)
        return States(found[:, 0], found[:, 3:], found[:, 1], found[:, 2], kinds)

    def _catch_up(self, nodes: NodeView) -> None:
        table = nodes.table
        changed = table.changes.since(self._position) if self._position >= 0 else None
        if changed is None or len(self._state) != table.capacity or self._is_full():
            self._state = np.zeros(table.capacity, dtype=np.intp)
            self._kinds = np.zeros((table.capacity, _KINDS), dtype=np.int64)
            self._numbers.clear()
            self.epoch += 1
            changed = nodes.whole.rows
        for row in changed.tolist():
            if table.is_live[row]:
                self._note(row, nodes.info_at(row))
        self._position = table.changes.position

    def _is_full(self) -> bool:
        return len(self._numbers) > _MAX_STATES

    def _note(self, row: int, node: NodeInfo) -> None:
        left, self._kinds[row] = self._count(node)
        cpu = node.allocatable.milli_cpu - node.requested.milli_cpu
        state = (cpu, _devices(node), self._model(node), *sorted(left, reverse=True))
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._numbers)
            if number == len(self._states):
                self._states = np.concatenate((self._states, np.zeros_like(self._states)))
            self._states[number] = state
        self._state[row] = number

    def _count(self, node: NodeInfo) -> tuple[list[int], list[int]]:
        """Return the free part of each device, and the number of pods of each kind."""
        devices = _devices(node)
        left = [DEVICE] * devices + [0] * (MOST_DEVICES - devices)
        kinds = [0] * _KINDS
        for known in node.pods:
            request = request_of(known.pod)
            given = self._given(known.pod) if request.count else ()
            if given:
                kinds[request.kind] += 1
                for device in given:
                    left[device] -= request.milli
        return left, kinds

    def _given(self, pod: Pod) -> tuple[int, ...]:
        written = pod.metadata.annotations.get(GPU_INDEX)
        if written is None:
            return self._reserved.get(pod.metadata.uid, ())
        self._reserved.pop(pod.metadata.uid, None)
        return tuple(map(int, written.split("-")))

    def _model(self, node: NodeInfo) -> int:
        model = node.labels.get(GPU_MODEL, "")
        if model not in self.models:
            self.models.append(model)
        return self.models.index(model)


def _devices(node: NodeInfo) -> int:
    return min(node.allocatable.scalar.get(GPU_COUNT, 0), MOST_DEVICES)
