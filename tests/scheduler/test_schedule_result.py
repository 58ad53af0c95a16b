"""The best nodes of a search result."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kubesched.scheduler.search.schedule_result import ranking


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_the_best_nodes_of_a_view_are_ranked_by_their_totals(count: int) -> None:
    nodes: Any = SimpleNamespace(
        rows=np.array([4, 0, 2]), table=SimpleNamespace(names=["a", "", "c", "", "e"])
    )
    found = ranking(np.array([10, 30, 20]), nodes, count)
    assert found == [("a", 30), ("c", 20), ("e", 10)][:count]
