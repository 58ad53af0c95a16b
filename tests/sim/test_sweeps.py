"""Sweeps: runs are stored, resumed, compared and shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubesched.errors import ConfigError
from kubesched.sim import Side, first_divergence, run
from kubesched.sim import sweep as sweep_module
from kubesched.sim.compare import compare
from kubesched.sim.export import write_results
from kubesched.sim.results import RunResult
from kubesched.sim.summary import comparisons_of, summary_text
from kubesched.sim.sweep import InterruptedSweepError, RunFiles, Task, sweep
from tests.sim.scenarios import PACKED, document, scenario

TWO = [{"name": "default"}, {"name": "packed", "config": PACKED}]


@pytest.fixture(scope="module")
def results() -> list[RunResult]:
    return sweep(scenario(configurations=TWO, seeds="1-3"))


def test_runs_come_in_the_order_of_configurations_and_seeds(results: list[RunResult]) -> None:
    assert [(each.configuration, each.seed) for each in results] == [
        (name, seed) for name in ("default", "packed") for seed in (1, 2, 3)
    ]


@pytest.mark.slow
def test_processes_make_the_same_runs(results: list[RunResult]) -> None:
    made = sweep(scenario(configurations=TWO, seeds="1-3"), processes=2)
    assert [each.digest for each in made] == [each.digest for each in results]


def test_an_interrupted_sweep_stores_finished_runs_and_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = scenario(seeds="1-4")
    files = RunFiles(tmp_path, planned)
    made: list[Task] = []

    def run_task(of: object, task: Task) -> RunResult:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(task)
        return real(of, task)

    real = sweep_module.run_task
    monkeypatch.setattr(sweep_module, "run_task", run_task)
    with pytest.raises(InterruptedSweepError, match="2 of 4 runs are finished") as caught:
        sweep(planned, files=files)
    assert [each.seed for each in caught.value.finished] == [1, 2]
    seen: list[tuple[int, int]] = []
    made.clear()
    whole = sweep(planned, files=files, progress=lambda done, total: seen.append((done, total)))
    assert [each.seed for each in whole] == [1, 2, 3, 4]
    assert [task.seed for task in made] == [3, 4]
    assert seen == [(2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize(("is_stored", "count"), [(False, 1), (True, 2)])
def test_an_interrupt_while_a_result_is_stored_counts_the_stored_runs(
    tmp_path: Path, is_stored: bool, count: int
) -> None:
    class InterruptedFiles(RunFiles):
        def save(self, result: RunResult) -> None:
            if result.seed == 1 or is_stored:
                super().save(result)
            if result.seed == 2:
                raise KeyboardInterrupt

    planned = scenario(seeds="1-3")
    with pytest.raises(InterruptedSweepError, match=f"{count} of 3 runs are finished"):
        sweep(planned, files=InterruptedFiles(tmp_path, planned))
    assert len(list(tmp_path.glob("*.json"))) == count


def test_runs_of_another_scenario_or_half_a_file_do_not_count(tmp_path: Path) -> None:
    first = scenario(seeds=1)
    sweep(first, files=RunFiles(tmp_path, first))
    task = Task("default", 1)
    assert RunFiles(tmp_path, first).load(task) is not None
    assert RunFiles(tmp_path, scenario(seeds=1, step="20m")).load(task) is None
    file = tmp_path / "default-1.json"
    file.write_bytes(file.read_bytes()[:100])
    assert RunFiles(tmp_path, first).load(task) is None


def test_differences_equal_those_computed_by_hand() -> None:
    def measures(result: RunResult) -> dict[str, float]:
        return values[result.configuration, result.seed]

    values = {
        ("default", 1): {"cost": 10.0},
        ("default", 2): {"cost": 12.0},
        ("packed", 1): {"cost": 8.0},
        ("packed", 2): {"cost": 9.0},
    }
    planned = scenario(configurations=TWO, seeds="1-2", duration="1m", step="1m", workloads=[])
    comparison = compare(sweep(planned), "default", "packed", measures)
    (cost,) = comparison.differences
    assert (cost.first, cost.second, cost.difference) == (11.0, 8.5, -2.5)
    # Two differences, -2 and -3: half a width of 12.706 · sqrt(0.5 / 2).
    assert cost.low == pytest.approx(-2.5 - 6.353)
    assert not cost.is_clear
    assert comparison.sentence() == "packed and default do not differ clearly"


def test_significant_differences_are_stated_in_a_sentence() -> None:
    def measures(result: RunResult) -> dict[str, float]:
        shift = 2.0 if result.configuration == "packed" else 0.0
        return {"mean time to bind": 10.0 - shift, "memory stranded": 0.1 + shift / 100}

    planned = scenario(configurations=TWO, seeds="1-2", duration="1m", step="1m", workloads=[])
    said = compare(sweep(planned), "default", "packed", measures).sentence()
    assert said == (
        "packed: pods wait 8 s on average instead of 10 s (20 % less), strands 20 % more memory "
        "(against default, 2 seeds)"
    )


def test_large_ratios_are_stated_as_multiples() -> None:
    def measures(result: RunResult) -> dict[str, float]:
        return {"cpu stranded": 0.03 if result.configuration == "packed" else 0.0025}

    planned = scenario(configurations=TWO, seeds="1-2", duration="1m", step="1m", workloads=[])
    said = compare(sweep(planned), "default", "packed", measures).sentence()
    assert said == "packed: strands 11 times more cpu (against default, 2 seeds)"


def test_the_summary_names_the_seed_in_which_most_pods_waited() -> None:
    """Four cores: a burst of six pods of two cores leaves four of them pending."""
    planned = scenario(
        seeds="1-2",
        cluster={"nodes": [{"name": "n", "count": 1, "cpu": 4, "memory": "8Gi"}]},
        workloads=[{"name": "w", "replicas": 6, "cpu": 2, "arrivals": {"at": ["15m"]}}],
    )
    said = [line for line in summary_text(sweep(planned)).splitlines() if "most pods" in line]
    assert said == [
        "default, seed 1: most pods waited after 20m: 4 (4 Insufficient cpu)",
    ]


def test_the_first_difference_and_why() -> None:
    planned = scenario(configurations=TWO)
    default, packed = planned.configurations
    found = first_divergence(Side(planned, default, 1), Side(planned, packed, 1))
    assert found is not None
    assert found.first is not None
    assert found.second is not None
    assert found.first[1:3] == found.second[1:3]
    assert found.first[3] != found.second[3]
    assert found.sentence().startswith(f"{found.first[2]} at ")
    assert [line.split(":")[0] for line in found.because] == ["default", "packed"]
    assert all("best nodes by score" in line for line in found.because)
    assert first_divergence(Side(planned, default, 1), Side(planned, default, 1)) is None


@pytest.mark.parametrize(
    ("kind", "want"), [("fail", "fails"), ("drain", "cordoned"), ("remove", "node-gone")]
)
def test_an_event_that_one_run_has_earlier_is_the_first_difference(kind: str, want: str) -> None:
    early, late = (scenario(events=[{kind: {"zone": "b"}, "at": at}]) for at in ("20m", "40m"))
    default = early.configurations[0]
    found = first_divergence(Side(early, default, 1), Side(late, default, 1), explain=False)
    assert found is not None
    assert found.first == (1200 * 10**9, want, "general-1", "")


def test_summary(results: list[RunResult]) -> None:
    text = summary_text(results)
    assert text.startswith("small: 1h of virtual time, 6 runs, 3 seeds\n")
    assert f"digest {results[0].digest}  default, seed 1" in text
    assert "cpu allocated" in text


def test_the_page_needs_nothing_else_and_its_data_are_whole(
    tmp_path: Path, results: list[RunResult]
) -> None:
    path = tmp_path / "report.html"
    write_results(results, comparisons_of(results), path)
    page = path.read_text()
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert "@" not in page.split("<style>")[0]
    data = page.split('id="data">')[1].split("</script>")[0]
    assert "packed" in page.split('class="facts">')[1].split("</p>")[0]
    assert json.loads(data)["start_s"] == results[0].start_ns // 10**9
    runs = json.loads(data)["runs"]
    assert [run["seed"] for run in runs] == [1, 2, 3, 1, 2, 3]
    assert runs[0]["series"]["pending"] == results[0].series["pending"]


def test_names_are_escaped_in_the_page(tmp_path: Path) -> None:
    evil = "</script><b>"
    planned = scenario(name=evil, configurations=[{"name": evil}], duration="1m", step="1m")
    path = tmp_path / "r.html"
    made = sweep(planned)
    write_results(made, comparisons_of(made), path)
    assert "<b>" not in path.read_text()


def test_json_and_unknown_forms(tmp_path: Path, results: list[RunResult]) -> None:
    write_results(results, [], tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text())[0]["digest"] == results[0].digest
    with pytest.raises(ConfigError, match=r"results are written as .html, .json or .parquet"):
        write_results(results, [], tmp_path / "r.xlsx")


def test_frames(tmp_path: Path, results: list[RunResult]) -> None:
    pandas = pytest.importorskip("pandas", reason="the extra is not installed")
    pytest.importorskip("pyarrow", reason="the extra is not installed")
    made = run(document(seeds="1-2"))
    assert list(made.runs["seed"]) == [1, 2]
    assert len(made.series) == 12
    assert "small" in repr(made)
    write_results(results, [], tmp_path / "r.parquet")
    read = pandas.read_parquet(tmp_path / "r.parquet")
    assert list(read["pending"][:6]) == results[0].series["pending"]
    assert len(pandas.read_parquet(tmp_path / "r.runs.parquet")) == 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_makes_the_same_runs(results: list[RunResult]) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra is not installed")
    planned = scenario(configurations=TWO, seeds="1-3")
    with distributed.LocalCluster(
        n_workers=1, processes=False, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        made = sweep(planned, dask=cluster.scheduler_address)
    assert [each.digest for each in made] == [each.digest for each in results]
