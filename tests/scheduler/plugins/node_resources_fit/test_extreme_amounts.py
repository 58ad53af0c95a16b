"""Amounts near the limits of int64: both forms agree when sums wrap."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.framework import Plugin
from kubesched.scheduler.config.args import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
)
from kubesched.scheduler.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from kubesched.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kubesched.testing import make_node, make_pod, make_view, run_filter, run_score
from tests.scheduler.plugins.node_resources_fit.test_score import args

amounts = st.one_of(
    st.sampled_from(["0", "1", "16Gi", "4Ei", "5Ei", "8191Pi", "9223372036854775807", "7999Pi"]),
    st.integers(0, 2**63 - 1).map(str),
)
requests = st.fixed_dictionaries(
    {}, optional={"cpu": amounts, "memory": amounts, "example.com/gpu": amounts}
)
WEIGHTS = {"cpu": 1, "memory": 3, "example.com/gpu": 2}
PLUGINS: dict[str, Plugin] = {
    "least": NodeResourcesFit(args(LEAST_ALLOCATED, WEIGHTS)),
    "most": NodeResourcesFit(args(MOST_ALLOCATED, WEIGHTS)),
    "ratio": NodeResourcesFit(args(REQUESTED_TO_CAPACITY_RATIO, WEIGHTS, ((0, 10), (100, 0)))),
    "balance": NodeResourcesBalancedAllocation(),
}


@pytest.mark.parametrize("plugin", PLUGINS.values(), ids=PLUGINS)
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(requests, st.lists(requests, max_size=4)), min_size=1), requests)
def test_sums_that_wrap(
    plugin: Plugin,
    nodes: list[tuple[dict[str, str], list[dict[str, str]]]],
    wanted: dict[str, str],
) -> None:
    view = make_view(
        *(
            make_node(f"n{place}", allocatable={"pods": "110", **allocatable})
            for place, (allocatable, _) in enumerate(nodes)
        ),
        pods=[
            make_pod(f"p{place}-{number}", requests=taken, node_name=f"n{place}")
            for place, (_, pods) in enumerate(nodes)
            for number, taken in enumerate(pods)
        ],
    )
    pod = make_pod("incoming", requests=wanted)
    if isinstance(plugin, NodeResourcesFit):
        run_filter(plugin, pod, view)  # runs both forms and compares them
    assert all(0 <= score <= 100 for score in run_score(plugin, pod, view))
