"""How much idle GPU is of no use to the pods of a workload (docs/reference/10 §5, §6).

A fragment of a node is idle GPU that a pod drawn from the workload could not use. Everything
here is a function of arrays with one entry per node state; a node may appear in many states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from examples.gpu_fragmentation.trace import GpuPod

__all__ = ["Amounts", "TypicalPod", "TypicalPods", "typical_pods"]

_COVERED = 0.95  # the share of all pods that the typical ones stand for


class TypicalPod(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A kind of pod, and how popular it is among the typical ones."""

    cpu_milli: int
    gpu_milli: int
    gpu_count: int
    gpu_models: str
    share: float


def typical_pods(pods: Iterable[GpuPod]) -> list[TypicalPod]:
    """The most frequent kinds of pods, which together are 95 % of all."""
    counts = Counter((pod.cpu_milli, pod.milli, pod.count, pod.models) for pod in pods)
    ranked = sorted(((count, key) for key, count in counts.items()), reverse=True)
    wanted = _COVERED * counts.total()
    chosen, covered = [], 0
    for count, key in ranked:
        if covered >= wanted:
            break
        chosen.append((count, key))
        covered += count
    return [TypicalPod(*key, share=count / covered) for count, key in chosen]


class Amounts(NamedTuple):
    """Idle GPU by what keeps a typical pod from using it; float64[state] each, in thousandths."""

    lack_both: NDArray[np.float64]
    lack_gpu: NDArray[np.float64]
    usable: NDArray[np.float64]  # the only part that is no fragment
    lack_cpu: NDArray[np.float64]
    without_gpu: NDArray[np.float64]  # of no use to pods that want no GPU, and that fit
    without_gpu_lack_cpu: NDArray[np.float64]
    no_access: NDArray[np.float64]

    @property
    def fragment(self) -> NDArray[np.float64]:
        """The expected fragment. Scores are cut to integers, so the order of additions counts."""
        total = self.lack_both + self.lack_gpu
        total = total + self.lack_cpu
        total = total + self.without_gpu
        total = total + self.without_gpu_lack_cpu
        return total + self.no_access


class TypicalPods:
    """Typical pods as columns, and models as numbers."""

    def __init__(self, pods: Sequence[TypicalPod]) -> None:
        self._pods = tuple(pods)
        self._cpu = _column([pod.cpu_milli for pod in pods])
        self._milli = _column([pod.gpu_milli for pod in pods])
        self._count = _column([pod.gpu_count for pod in pods])
        self._share = np.array([pod.share for pod in pods], dtype=np.float64)[:, np.newaxis]
        self._wants_gpu = self._count > 0
        # One column per distinct amount: many kinds of pods ask for the same.
        self._amounts, self._amount_of = np.unique(self._milli[:, 0], return_inverse=True)
        self._access: dict[str, NDArray[np.bool_]] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def access(self, model: str) -> NDArray[np.bool_]:
        """bool[typical pod]: whether it may use devices of the model."""
        found = self._access.get(model)
        if found is None:
            allowed = [
                not pod.gpu_models or model in pod.gpu_models.split("|") for pod in self._pods
            ]
            found = self._access[model] = np.array(allowed, dtype=bool)
        return found

    def fragment(
        self,
        cpu: NDArray[np.int64],
        left: NDArray[np.int64],
        access: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """The expected fragment of each state; see `amounts`."""
        return self.amounts(cpu, left, access).fragment

    def amounts(
        self,
        cpu: NDArray[np.int64],
        left: NDArray[np.int64],
        access: NDArray[np.bool_],
    ) -> Amounts:
        """Where idle GPU goes.

        `cpu` is free CPU [state], `left` idle GPU [state, device] (0 for devices that are not
        there), `access` what `access()` says of the state's model [typical pod, state].
        """
        idle = left.sum(axis=1)  # int64[state]
        fits = (
            left[np.newaxis] >= self._amounts[:, np.newaxis, np.newaxis]
        )  # [amount, state, device]
        enough = fits.sum(axis=2)[self._amount_of] >= self._count  # bool[typical pod, state]
        too_small = idle - (left * fits).sum(axis=2)  # int64[amount, state]
        has_cpu = cpu >= self._cpu
        of_gpu = self._wants_gpu & access
        satisfied = of_gpu & enough & has_cpu
        weighted = self._share * idle
        small = self._share * too_small[self._amount_of]
        usable = self._share * (idle - too_small[self._amount_of])
        return Amounts(
            _summed(of_gpu & ~enough & ~has_cpu, weighted),
            _total(np.where(satisfied, small, np.where(of_gpu & ~enough & has_cpu, weighted, 0.0))),
            _summed(satisfied, usable),
            _summed(of_gpu & enough & ~has_cpu, weighted),
            _summed(~self._wants_gpu & has_cpu, weighted),
            _summed(~self._wants_gpu & ~has_cpu, weighted),
            _summed(self._wants_gpu & ~access, weighted),
        )


def _column(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)[:, np.newaxis]


def _summed(where: NDArray[np.bool_], amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    return _total(np.where(where, amounts, 0.0))


def _total(amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum over typical pods in their order, which `sum` does not promise."""
    if not len(amounts):
        return np.zeros(amounts.shape[1])
    total: NDArray[np.float64] = np.add.accumulate(amounts, axis=0)[-1]
    return total
