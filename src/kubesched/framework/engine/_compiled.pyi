import numpy as np
from numpy.typing import NDArray

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
