import numpy as np
from numpy.typing import NDArray

REVISION: int

def is_lacking(
    allocatable: NDArray[np.int64], allocated: NDArray[np.int64], wanted: list[int], /
) -> bool: ...
def least_allocated(
    allocatable: NDArray[np.int64],
    allocated: NDArray[np.int64],
    wanted: list[int],
    weights: list[int],
    scores: NDArray[np.int64],
    /,
) -> None: ...
def balance_change(
    allocatable: NDArray[np.int64],
    allocated: NDArray[np.int64],
    wanted: list[int],
    scores: NDArray[np.int64],
    /,
) -> None: ...
def true_place(mask: NDArray[np.bool_], skipped: int, /) -> int: ...
def spread_shares(scores: NDArray[np.int64], shares: NDArray[np.int64], /) -> bool: ...
def add_weighted(
    total: NDArray[np.int64], scores: NDArray[np.int64], weight: int, most: int, /
) -> bool: ...
