"""`kubesched.sim.run`: a scenario from Python, and its results as pandas frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kubesched.sim.compare import Comparison, compare
from kubesched.sim.export import runs_frame, series_frame
from kubesched.sim.report import report_html
from kubesched.sim.results import RunResult
from kubesched.sim.scenario import Scenario
from kubesched.sim.scenario_file import load_scenario, parse_scenario
from kubesched.sim.summary import comparisons_of, summary_text
from kubesched.sim.sweep import RunFiles, sweep

__all__ = ["Results", "run"]


class Results:
    """The results of a scenario's runs. A notebook displays them as the report."""

    def __init__(self, scenario: Scenario, runs: list[RunResult]) -> None:
        self.scenario = scenario
        self.results = runs

    @property
    def runs(self) -> Any:
        """A pandas frame with a row for each run, its measures and its digest."""
        return runs_frame(self.results)

    @property
    def series(self) -> Any:
        """A pandas frame with a row for each sample of each run."""
        return series_frame(self.results)

    def compare(self, first: str, second: str) -> Comparison:
        """Compare the second configuration with the first, over the seeds."""
        return compare(self.results, first, second)

    def report(self) -> str:
        """Return the page of `-o report.html`."""
        return report_html(self.results, comparisons_of(self.results))

    def __str__(self) -> str:
        return summary_text(self.results)

    def __repr__(self) -> str:
        return f"<Results of {self.scenario.name}: {len(self.results)} runs>"

    def _repr_html_(self) -> str:
        page = self.report().replace("&", "&amp;").replace('"', "&quot;")
        return f'<iframe srcdoc="{page}" style="width:100%;height:60rem;border:0"></iframe>'


def run(
    scenario: Scenario | dict[str, Any] | str | Path,
    *,
    seeds: tuple[int, ...] | range | None = None,
    processes: int = 1,
    keep: str | Path | None = None,
    dask: str = "",
) -> Results:
    """Make all runs of a scenario: a `Scenario`, a mapping as in a file, or the path of a file.

    With `keep`, finished runs are stored in that folder and not repeated. With several processes
    the caller's module must be importable, as always with multiprocessing.

    Raises:
        ConfigError: the scenario is invalid.
    """
    if isinstance(scenario, dict):
        scenario = parse_scenario(scenario, Path())
    elif not isinstance(scenario, Scenario):
        scenario = load_scenario(scenario)
    if seeds is not None:
        scenario = msgspec.structs.replace(scenario, seeds=tuple(seeds))
    files = None if keep is None else RunFiles(Path(keep), scenario)
    return Results(scenario, sweep(scenario, processes=processes, files=files, dask=dask))
