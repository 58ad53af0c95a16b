"""Normalization of scores to 0..100."""

from __future__ import annotations

import numpy as np
import pytest

from kubesched.scheduler.plugins.helpers.normalization import default_normalize

CASES = {
    "the highest becomes 100": ([1, 2, 3, 4], False, [25, 50, 75, 100]),
    "the highest becomes 0": ([1, 2, 3, 4], True, [75, 50, 25, 0]),
    "an outlier presses the others down": ([1000, 10, 20, 30], False, [100, 1, 2, 3]),
    "down to nothing": ([1000, 1, 1, 1], False, [100, 0, 0, 0]),
    "zeros stay": ([0, 0], False, [0, 0]),
    "reversed zeros are best": ([0, 0], True, [100, 100]),
    "negative scores keep their sign and are cut toward zero": ([-1, 3], False, [-33, 100]),
    "only negative scores are left alone": ([-1, -3], False, [-1, -3]),
    "no nodes": ([], True, []),
}


@pytest.mark.parametrize(("scores", "reverse", "want"), CASES.values(), ids=CASES)
def test_default_normalize(scores: list[int], reverse: bool, want: list[int]) -> None:
    given = np.array(scores, dtype=np.int64)
    assert default_normalize(given, reverse=reverse).tolist() == want
    assert given.tolist() == scores
