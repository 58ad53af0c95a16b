"""The GPU experiment: its generator, measure, policies, and the published results."""

from __future__ import annotations

import csv
import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from examples.gpu_fragmentation.__main__ import SAMPLE, main
from examples.gpu_fragmentation.arrivals import arrivals
from examples.gpu_fragmentation.devices import (
    GPU_COUNT,
    GPU_INDEX,
    GPU_MILLI,
    GPU_MODEL,
    Request,
    States,
)
from examples.gpu_fragmentation.experiment import ARRIVING, Trace, run
from examples.gpu_fragmentation.fragmentation import TypicalPod, TypicalPods, typical_pods
from examples.gpu_fragmentation.generator import Generator, _table
from examples.gpu_fragmentation.policies import (
    POLICIES,
    BestFit,
    DotProd,
    Fgd,
    FgdArgs,
    GpuClustering,
    GpuPacking,
)
from examples.gpu_fragmentation.trace import GpuPod, TraceError, read_nodes, read_pods
from kubesched.api import Pod
from kubesched.framework import SUCCESS, NodeView
from kubesched.scheduler.config.types import RANDOM
from kubesched.testing import check_plugin, make_node, make_pod, make_view, run_filter, run_score

# A node with 8 free cores, one idle device and one device with 400 left, which a share pod uses.
TYPICAL = (
    TypicalPod(cpu_milli=4000, gpu_milli=500, gpu_count=1, gpu_models="", share=0.6),
    TypicalPod(cpu_milli=6000, gpu_milli=0, gpu_count=0, gpu_models="", share=0.1),
    TypicalPod(cpu_milli=2000, gpu_milli=1000, gpu_count=2, gpu_models="", share=0.3),
)
LEFT = [1000, 400, 0, 0, 0, 0, 0, 0]
NODE = States(
    cpu=np.array([8000]),
    left=np.array([LEFT]),
    devices=np.array([2]),
    model=np.array([0]),
    kinds=np.array([[1, 0, 0, 0, 0, 0, 0, 0]]),
)
POD_A = Request(1, 500, frozenset())
POD_B = Request(0, 0, frozenset())


# -- the random numbers --------------------------------------------------------------------


def test_the_table_of_the_generator_is_computed_right() -> None:
    table = _table()
    assert (table[0], table[1], table[606]) == (
        0xC5F74A33EB98FFEA,
        0xC07B4A41BA965F5B,
        4152330101494654406,
    )


def test_the_first_draw_of_a_seed() -> None:
    assert Generator(42).next63() == 3440579354231278675


@pytest.mark.parametrize("bound", [1, 2, 7, 8, 1213, 10_000])
def test_draws_stay_below_their_bound(bound: int) -> None:
    generator = Generator(1)
    draws = [generator.below(bound) for _ in range(500)]
    draws += [generator.below_for_shuffle(bound) for _ in range(500)]
    assert 0 <= min(draws) <= max(draws) < bound
    assert bound > 100 or set(draws) == set(range(bound))


def test_a_trace_with_large_requests_loses_pods_in_order() -> None:
    pods = [GpuPod(f"p{number}", 1000, 1, 1, 1000, "") for number in range(20)]
    arriving = arrivals(pods, 5, 12_000, seed=3)
    everything = arrivals(pods, 5, 20_000, seed=3)
    assert len(arriving.pods) == 12
    left = iter(everything.pods)
    assert all(pod in left for pod in arriving.pods)  # in the same order
    assert sorted(arriving.ranks) == [0, 1, 2, 3, 4]


def test_a_trace_with_small_requests_gets_copies_at_its_end() -> None:
    pods = [GpuPod(f"p{number}", 1000, 1, 2, 1000, "") for number in range(4)]
    arriving = arrivals(pods, 1, 13_000, seed=3)
    # One device is counted when a copy is considered, two when it is taken: 14 in the end.
    assert [pod.need for pod in arriving.pods] == [2000] * 7
    assert sorted(pod.name for pod in arriving.pods[:4]) == ["p0", "p1", "p2", "p3"]


# -- fragments -----------------------------------------------------------------------------


def test_the_fragment_of_a_node_equals_that_computed_by_hand() -> None:
    pods = TypicalPods(TYPICAL)
    access = pods.access("any")[:, np.newaxis]
    amounts = pods.amounts(NODE.cpu, NODE.left, access)
    assert amounts.fragment[0] == pytest.approx(800)
    assert amounts.lack_gpu[0] == pytest.approx(660)
    assert amounts.usable[0] == pytest.approx(600)
    assert amounts.without_gpu[0] == pytest.approx(140)
    assert sum(amount[0] for amount in amounts) == pytest.approx(1400)  # all that is idle


def test_a_pod_fits_no_node_model_that_it_may_not_use() -> None:
    picky = TypicalPod(cpu_milli=1, gpu_milli=100, gpu_count=1, gpu_models="A|B", share=1.0)
    pods = TypicalPods([picky])
    access = np.stack([pods.access("B"), pods.access("C")], axis=1)
    two = np.array([LEFT, LEFT])
    assert pods.amounts(np.array([8000, 8000]), two, access).no_access.tolist() == [0.0, 1400.0]


def test_typical_pods_are_the_most_frequent_ones() -> None:
    pods = [GpuPod("a", 1, 1, 1, 500, "")] * 60 + [GpuPod("b", 2, 9, 0, 0, "")] * 36
    pods += [GpuPod(f"c{number}", 10 + number, 1, 1, 1000, "") for number in range(4)]
    typical = typical_pods(pods)
    assert [(pod.cpu_milli, pod.share) for pod in typical] == [(1, 60 / 96), (2, 36 / 96)]


# -- policies ------------------------------------------------------------------------------


def test_scores_equal_those_computed_by_hand() -> None:
    fgd = Fgd(FgdArgs(TYPICAL))
    fgd.ledger.models.append("any")
    assert fgd.score_states(POD_A, 4000, NODE).tolist() == [54]
    assert fgd.choose_device(POD_A, 4000, NODE) == 0
    assert fgd.score_states(POD_B, 6000, NODE).tolist() == [35]
    assert DotProd().score_states(POD_A, 4000, NODE).tolist() == [99]
    assert BestFit().score_states(POD_A, 4000, NODE).tolist() == [92]
    assert GpuPacking().score_states(POD_A, 4000, NODE).tolist() == [49]
    assert GpuPacking().score_states(Request(1, 300, frozenset()), 4000, NODE).tolist() == [96]
    assert GpuClustering().score_states(POD_A, 4000, NODE).tolist() == [95]


@pytest.mark.parametrize("plugin", POLICIES.values(), ids=POLICIES)
def test_policies_fulfil_the_plugin_contract(plugin: type) -> None:
    check_plugin(plugin)


def gpu_pod(name: str, count: int, milli: int, index: str = "", models: str = "") -> Pod:
    asked = {GPU_COUNT: str(count), GPU_MILLI: str(milli)}
    asked |= {GPU_MODEL: models} if models else {}
    asked |= {GPU_INDEX: index} if index else {}
    return make_pod(name, annotations=asked, node_name="two" if index else "")


def gpu_nodes() -> NodeView:
    """Return three nodes: with two devices in use, with four idle devices, and with none."""
    two = make_node("two", labels={GPU_MODEL: "A"}, extended={GPU_COUNT: 2})
    four = make_node("four", labels={GPU_MODEL: "B"}, extended={GPU_COUNT: 4})
    pods = [gpu_pod("running", 1, 600, index="0")]
    return make_view(two, four, make_node("none"), pods=pods)


def fits(pod: Pod) -> list[bool]:
    return [status is SUCCESS for status in run_filter(BestFit(), pod, gpu_nodes())]


def test_devices_are_shared_but_a_share_never_spans_two() -> None:
    assert fits(gpu_pod("p", 1, 400)) == [True, True, False]
    assert fits(gpu_pod("p", 1, 1000)) == [True, True, False]
    assert fits(gpu_pod("p", 2, 1000)) == [False, True, False]
    assert fits(gpu_pod("p", 1, 700, models="B|C")) == [False, True, False]
    assert fits(make_pod("p")) == [True, True, True]


@pytest.mark.parametrize("name", ["DotProd", "GpuClustering", "GpuPacking", "FGD"])
def test_both_forms_of_a_score_agree(name: str) -> None:
    plugin = POLICIES[name]
    args = FgdArgs(TYPICAL) if plugin is Fgd else None
    for pod in (gpu_pod("p", 1, 300), gpu_pod("p", 1, 1000), make_pod("p", requests={"cpu": "2"})):
        run_score(plugin(args), pod, gpu_nodes())  # raises if they do not


# -- whole runs ----------------------------------------------------------------------------


def test_a_run_is_reproducible_and_allocates_no_device_twice() -> None:
    trace = Trace.read(SAMPLE, "default")
    first, again = (run(trace, "FGD", 5) for _ in range(2))
    assert first == again
    taken: dict[tuple[int, int], int] = {}
    for pod, where in zip(first.pods, first.placed, strict=True):
        if where is None:
            continue
        assert len(where.devices) == pod.count
        for device in where.devices:
            taken[where.node, device] = taken.get((where.node, device), 0) + pod.milli
            assert device < trace.nodes[where.node].devices
    assert max(taken.values()) == 1000
    used = sum(taken.values())
    assert first.curves.gpu_allocation[130] == pytest.approx(used / 1040, abs=1)


def test_random_tie_breaking_changes_the_placements() -> None:
    trace = Trace.read(SAMPLE, "default")
    assert run(trace, "FGD", 5).placed != run(trace, "FGD", 5, tie_break=RANDOM).placed


def test_a_line_of_json_per_seed() -> None:
    done = CliRunner().invoke(main, ["--policy", "GpuPacking", "--seeds", "1-2", "-o", "json"])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["workload"], line["policy"], line["seed"]) for line in lines] == [
        ("default", "GpuPacking", 1),
        ("default", "GpuPacking", 2),
    ]
    assert [len(line["gpu_allocation"]) for line in lines] == [131, 131]
    assert all(0 < line["gpu_allocation"][0] < 1 for line in lines)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("sn,cpu_milli,memory_mib,gpu,model\nn,1,x,1,A\n", "node.csv:2: invalid literal for int()"),
        ("sn,cpu_milli,gpu,model\nn,1,1,A\n", "node.csv:1: no column 'memory_mib'"),
    ],
)
def test_a_broken_trace_is_one_line(tmp_path: Path, text: str, want: str) -> None:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(text)
    with pytest.raises(TraceError, match=want.replace("(", "[(]").replace(")", "[)]")):
        read_nodes(tmp_path)


def test_a_missing_trace_is_one_line() -> None:
    done = CliRunner().invoke(main, ["--trace", "nowhere"])
    assert done.exit_code == 1
    assert done.output.startswith("error: nowhere/openb_pod_list_default.csv: no such file")


# -- the published trace -------------------------------------------------------------------


@pytest.fixture(scope="module")
def openb() -> Path:
    """The trace, with the published tables in a folder `published`: other people's data."""
    folder = os.environ.get("OPENB_TRACE")
    if not folder:
        pytest.skip("OPENB_TRACE does not name a folder with the published trace")
    return Path(folder)


ARRIVING_WITH_SEED_42 = {
    "default": (10_866, 8_075_080, "0255 1685 6784 4463 0602", [601, 815, 450, 13, 731, 1143]),
    "multigpu50": (6_361, 8_075_290, "6825 2707 5353 6175 1149", [1182, 936, 174, 1015, 724, 698]),
}


@pytest.mark.parametrize("workload", ARRIVING_WITH_SEED_42)
def test_published_arrivals(openb: Path, workload: str) -> None:
    nodes, pods = read_nodes(openb), read_pods(openb, workload)
    target = ARRIVING * sum(node.devices for node in nodes) * 1000
    arriving = arrivals(pods, len(nodes), target, 42)
    count, need, first, ranks = ARRIVING_WITH_SEED_42[workload]
    assert (len(arriving.pods), sum(pod.need for pod in arriving.pods)) == (count, need)
    assert " ".join(pod.name[-4:] for pod in arriving.pods[:5]) == first
    assert arriving.ranks[:6] == ranks


@pytest.mark.parametrize(
    ("workload", "want"),
    [("default", 866_232.55), ("gpuspec33", 2_204_453.28), ("multigpu50", 915_078.28)],
)
def test_fragment_of_the_empty_published_cluster(openb: Path, workload: str, want: float) -> None:
    trace = Trace.read(openb, workload)
    typical = TypicalPods(trace.typical)
    left = np.array([[1000] * node.devices + [0] * (8 - node.devices) for node in trace.nodes])
    access = np.stack([typical.access(node.model) for node in trace.nodes], axis=1)
    cpu = np.array([node.cpu_milli for node in trace.nodes])
    assert typical.fragment(cpu, left, access).sum() == pytest.approx(want, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "policy", "failed"), [("multigpu50", "FGD", 1312), ("multigpu50", "DotProd", 1415)]
)
def test_a_published_run(openb: Path, workload: str, policy: str, failed: int) -> None:
    outcome = run(Trace.read(openb, workload), policy, 42)
    assert outcome.placed.count(None) == failed
    with gzip.open(openb / "published" / "analysis_allo_discrete.csv.gz", "rt") as file:
        (row,) = (
            row
            for row in csv.DictReader(file)
            if row["workload"] == f"openb_pod_list_{workload}"
            and row["sc_policy"].endswith(f"-{policy}")
            and row["seed"] == "42"
        )
    want = [float(row[str(cell)]) for cell in range(131)]
    assert outcome.curves.gpu_allocation == pytest.approx(want, abs=0.011)
