"""The six policies, as plugins (docs/reference/10 §7, §8), with integer scores from 0 to 100."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from examples.gpu_fragmentation.devices import (
    DEVICE,
    MOST_DEVICES,
    Request,
    States,
    request_of,
)
from examples.gpu_fragmentation.fragmentation import TypicalPod, TypicalPods
from examples.gpu_fragmentation.sharing import GpuPolicy, cpu_of
from kubesched.api import Pod
from kubesched.framework import (
    SUCCESS,
    CycleState,
    Handle,
    NodeInfo,
    NodeView,
    Plugin,
    PodInfo,
    Reads,
    Status,
)

__all__ = ["POLICIES", "BestFit", "DotProd", "Fgd", "GpuClustering", "GpuPacking", "Random"]

# Amounts are divided by those of the largest machine.
_MAX_CPU, _MAX_GPU = 128_000, 8_000
_NOTHING = np.zeros(0, dtype=np.int64)
_EARLIER = np.tri(MOST_DEVICES, k=-1, dtype=bool)  # [device, device before it]


class Random(GpuPolicy):
    """Any node that fits, and any device that fits on it."""

    name = "GpuRandom"
    reads = Reads()  # the choice depends on all nodes that fit, and on random numbers

    def pre_score(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        chosen = self.handle.random.randrange(len(nodes))
        state.write(self.name, nodes.names[chosen])
        return SUCCESS

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 100 if node.name == state.read(self.name) else 0

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        chosen = nodes.table.row_of[str(state.read(self.name))]
        return 100 * (nodes.rows == chosen).astype(np.int64)

    def choose_device(self, request: Request, cpu: int, state: States) -> int:
        fitting = np.flatnonzero(state.left[0] >= request.milli).tolist()
        return int(self.handle.random.choice(fitting))


class DotProd(GpuPolicy):
    """Choose the node whose free amounts are least aligned with the request of the pod."""

    name = "GpuDotProd"

    def score_states(self, request: Request, cpu: int, states: States) -> NDArray[np.int64]:
        of_cpu = (states.cpu / _MAX_CPU) * (cpu / _MAX_CPU)
        of_gpu = (states.idle / _MAX_GPU) * (request.need / _MAX_GPU)
        return _cut(100 * (1 - (of_cpu + of_gpu) / 2))


class GpuClustering(GpuPolicy):
    """A node where pods of the same kind are, best of all no others."""

    name = "GpuClustering"

    def score_states(self, request: Request, cpu: int, states: States) -> NDArray[np.int64]:
        if not request.count:
            return np.zeros(len(states.cpu), dtype=np.int64)
        fullness = 25 * (_MAX_GPU - states.idle) // _MAX_GPU
        same = states.kinds[:, request.kind]
        others = states.kinds.sum(axis=1) - same
        bonus = np.where(
            same > 0,
            np.where(others > 0, 50, 75),
            np.where(others > 0, 0, 25),
        )
        score: NDArray[np.int64] = fullness + bonus
        return score


class GpuPacking(GpuPolicy):
    """Prefer devices in use to idle ones, and nodes in use to idle ones."""

    name = "GpuPacking"

    def score_states(self, request: Request, cpu: int, states: States) -> NDArray[np.int64]:
        if not request.count:
            return np.zeros(len(states.cpu), dtype=np.int64)
        beyond = 2 * DEVICE  # sorts behind all devices that fit
        fitting = np.where(states.left >= request.milli, states.left, beyond)
        taken = np.sort(fitting, axis=1)[:, : request.count]
        whole = (taken == DEVICE).sum(axis=1)
        used = (taken * 100 // DEVICE).sum(axis=1) // 10
        score = np.where(whole > 0, np.maximum(50 - whole, 33), np.maximum(100 - used, 50))
        is_idle = states.idle == states.devices * DEVICE
        return np.where(is_idle, 33 - states.devices, score)


class BestFit(GpuPolicy):
    """The node on which the least is left."""

    name = "GpuBestFit"

    def score_states(self, request: Request, cpu: int, states: States) -> NDArray[np.int64]:
        of_cpu = 0.5 * (states.cpu - cpu) / _MAX_CPU
        of_gpu = 0.5 * (states.idle - request.need) / _MAX_GPU
        return _cut(100 * (1 - (of_cpu + of_gpu)))

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        lowest, highest = int(scores.min()), int(scores.max())
        if lowest == highest:
            return np.zeros_like(scores)
        return (scores - lowest) * 100 // (highest - lowest)


class FgdArgs(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The pods to expect, which decide what a fragment is."""

    typical_pods: tuple[TypicalPod, ...] = ()


class Fgd(GpuPolicy):
    """The node, and the device, where the expected fragment grows least or shrinks most."""

    name = "GpuFGD"
    args_type = FgdArgs

    def __init__(self, args: FgdArgs | None = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._typical = TypicalPods((args or FgdArgs()).typical_pods)
        self._access = np.zeros((len(self._typical), 0), dtype=bool)  # [typical pod, model]
        # What was worked out for pods that ask for the same: int64[state], -1 where nothing was.
        self._kept: dict[tuple[int, int, int], NDArray[np.int64]] = {}
        self._epoch = -1

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        request, cpu = request_of(pod), cpu_of(pod)
        numbers = self.ledger.numbers(nodes)
        if self._epoch != self.ledger.epoch:
            self._kept.clear()
            self._epoch = self.ledger.epoch
        key = (cpu, request.count, request.milli)
        kept = self._kept.get(key, _NOTHING)
        if len(kept) < self.ledger.state_count:
            room = 2 * self.ledger.state_count - len(kept)
            kept = self._kept[key] = np.pad(kept, (0, room), constant_values=-1)
        scores = kept.take(numbers)
        if np.count_nonzero(scores < 0):
            unknown = np.unique(numbers[scores < 0])
            kept[unknown] = self.score_states(request, cpu, self.ledger.numbered(unknown))
            scores = kept.take(numbers)
        return scores

    def score_states(self, request: Request, cpu: int, states: States) -> NDArray[np.int64]:
        if request.is_share:
            return self._share_scores(request, cpu, states).max(axis=1)
        left = states.left
        if request.count:
            takes = left >= request.milli
            takes &= takes.cumsum(axis=1) <= request.count
            left = left - request.milli * takes
        return self._scores(states, states.cpu - cpu, left)

    def choose_device(self, request: Request, cpu: int, state: States) -> int:
        return int(self._share_scores(request, cpu, state)[0].argmax())

    def _share_scores(self, request: Request, cpu: int, states: States) -> NDArray[np.int64]:
        """Return int64[node, device], for a pod that shares a device.

        -1 where it need not be evaluated.

        Of devices with equal free parts, the first represents all.
        """
        fits = states.left >= request.milli
        same = states.left[:, :, np.newaxis] == states.left[:, np.newaxis, :]
        fits &= ~(same & _EARLIER).any(axis=2)
        rows, devices = fits.nonzero()
        left = states.left[rows]
        left[np.arange(len(rows)), devices] -= request.milli
        before = States(*(column[rows] for column in states))
        scores = np.full(fits.shape, -1, dtype=np.int64)
        scores[rows, devices] = self._scores(before, before.cpu - cpu, left)
        return scores

    def _scores(
        self, before: States, cpu: NDArray[np.int64], left: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return the score of a step between two states: 50 if the fragment does not change."""
        access = self._access_of(before)
        fragments = self._typical.fragment(
            np.concatenate((before.cpu, cpu)),
            np.concatenate((before.left, left)),
            np.concatenate((access, access), axis=1),
        )
        lost = fragments[: len(cpu)] - fragments[len(cpu) :]
        return _cut(100 * (1 / (1 + np.exp(-lost / 1000))))

    def _access_of(self, states: States) -> NDArray[np.bool_]:
        models = self.ledger.models
        if self._access.shape[1] != len(models):
            self._access = np.stack([self._typical.access(model) for model in models], axis=1)
        return self._access.take(states.model, axis=1)


def _cut(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Truncate to integers, as the published runs do; this decides many ties."""
    return scores.astype(np.int64).clip(0, 100)  # machines may be larger than those divided by


# By the names of the published results.
POLICIES: Mapping[str, type[Plugin]] = {
    "Random": Random,
    "DotProd": DotProd,
    "GpuClustering": GpuClustering,
    "GpuPacking": GpuPacking,
    "BestFit": BestFit,
    "FGD": Fgd,
}
