"""The amount of idle GPU that the pods of a workload cannot use (docs/reference/10 §5, §6).

A fragment of a node is idle GPU that a pod drawn from the workload could not use. The functions
take arrays with one entry per node state; a node may occur in many states.
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

_COVERED = 0.95  # the share of all pods that the typical ones represent


# Why idle GPU is of no use to a typical pod. Where everything fits, devices with too little left
# are still of no use, which counts as lack of GPU.
_LACK_BOTH, _LACK_GPU, _LACK_CPU, _WITHOUT_GPU, _WITHOUT_GPU_LACK_CPU, _NO_ACCESS = range(6)
_REASONS = 6
_EACH_REASON = np.arange(_REASONS)[:, np.newaxis, np.newaxis]
_SATISFIED = 15  # 8: requests GPU, 4: may use the model, 2: enough devices, 1: enough CPU
_REASON_OF = np.array(
    [
        *[_WITHOUT_GPU_LACK_CPU, _WITHOUT_GPU] * 4,
        *[_NO_ACCESS] * 4,
        *[_LACK_BOTH, _LACK_GPU, _LACK_CPU, _LACK_GPU],
    ]
)


class TypicalPod(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A kind of pod, and its share among the typical ones."""

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
    """Idle GPU by the reason why a typical pod cannot use it.

    Float64[state] each, in thousandths.
    """

    lack_both: NDArray[np.float64]
    lack_gpu: NDArray[np.float64]
    usable: NDArray[np.float64]  # the only part that is no fragment
    lack_cpu: NDArray[np.float64]
    without_gpu: NDArray[np.float64]  # not usable by pods that fit but request no GPU
    without_gpu_lack_cpu: NDArray[np.float64]
    no_access: NDArray[np.float64]

    @property
    def fragment(self) -> NDArray[np.float64]:
        """The expected fragment."""
        return _fragment(
            self.lack_both,
            self.lack_gpu,
            self.lack_cpu,
            self.without_gpu,
            self.without_gpu_lack_cpu,
            self.no_access,
        )


class TypicalPods:
    """Typical pods as columns, and models as numbers."""

    def __init__(self, pods: Sequence[TypicalPod]) -> None:
        self._pods = tuple(pods)
        self._cpu = _column([pod.cpu_milli for pod in pods])
        self._milli = _column([pod.gpu_milli for pod in pods])
        self._count = _column([pod.gpu_count for pod in pods])
        self._share = np.array([pod.share for pod in pods], dtype=np.float64)[:, np.newaxis]
        self._wants_gpu = self._count > 0
        self._wanting = 8 * self._wants_gpu.astype(np.int64)
        # One column per distinct amount, because many kinds of pods request the same.
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
        """Return the expected fragment of each state; see `amounts`."""
        return _fragment(*self._sums(*self._facts(cpu, left), access))

    def amounts(
        self,
        cpu: NDArray[np.int64],
        left: NDArray[np.int64],
        access: NDArray[np.bool_],
    ) -> Amounts:
        """Return the idle GPU by reason.

        `cpu` is free CPU [state], `left` idle GPU [state, device] (0 for absent devices), `access`
        the result of `access()` for the state's model [typical pod, state].
        """
        idle, too_small, enough, has_cpu = self._facts(cpu, left)
        satisfied = self._wants_gpu & access & enough & has_cpu
        usable = self._share * (idle - too_small)
        sums = self._sums(idle, too_small, enough, has_cpu, access)
        return Amounts(
            sums[_LACK_BOTH],
            sums[_LACK_GPU],
            _total(np.where(satisfied, usable, 0.0)),
            *(sums[reason] for reason in range(_LACK_CPU, _REASONS)),
        )

    def _facts(
        self, cpu: NDArray[np.int64], left: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the idle GPU [state], and values per [typical pod, state].

        These are the idle GPU on devices that are too small, and whether there are enough devices
        and CPU.
        """
        idle = left.sum(axis=1)
        fits = left >= self._amounts[:, np.newaxis, np.newaxis]  # bool[amount, state, device]
        too_small = idle - (left * fits).sum(axis=2)  # int64[amount, state]
        enough = fits.sum(axis=2)[self._amount_of] >= self._count
        return idle, too_small[self._amount_of], enough, cpu >= self._cpu

    def _sums(
        self,
        idle: NDArray[np.int64],
        too_small: NDArray[np.int64],
        enough: NDArray[np.bool_],
        has_cpu: NDArray[np.bool_],
        access: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """float64[reason, state]: idle GPU by why a typical pod cannot use it, expected."""
        facts = self._wanting + 4 * access + 2 * enough + has_cpu  # int64[typical pod, state]
        reasons = _REASON_OF.take(facts)
        unusable = self._share * np.where(facts == _SATISFIED, too_small, idle)
        # Added one by one in the order of the typical pods; zeros in between change nothing.
        apart = np.where(reasons == _EACH_REASON, unusable, 0.0)
        return _total(apart, axis=1)


def _column(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)[:, np.newaxis]


def _total(amounts: NDArray[np.float64], axis: int = 0) -> NDArray[np.float64]:
    """Return the sum over typical pods in their order, which `sum` does not guarantee."""
    if not amounts.shape[axis]:
        return amounts.sum(axis=axis)
    return np.add.accumulate(amounts, axis=axis).take(-1, axis=axis)


def _fragment(
    lack_both: NDArray[np.float64],
    lack_gpu: NDArray[np.float64],
    lack_cpu: NDArray[np.float64],
    without_gpu: NDArray[np.float64],
    without_gpu_lack_cpu: NDArray[np.float64],
    no_access: NDArray[np.float64],
) -> NDArray[np.float64]:
    """All of it. Scores are cut to integers, so the order of additions counts."""
    total = lack_both + lack_gpu
    total += lack_cpu
    total += without_gpu
    total += without_gpu_lack_cpu
    total += no_access
    return total
