"""Results as files: JSON, Parquet, a page; and as pandas frames."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubesched.sim.compare import Comparison, measures_of
from kubesched.sim.divergence import Divergence
from kubesched.sim.report import report_html
from kubesched.sim.results import RunResult
from kubesched.util.errors import ConfigError, KubeschedError

__all__ = ["results_json", "runs_frame", "series_frame", "write_results"]


def results_json(results: Sequence[RunResult]) -> bytes:
    """All results as one JSON list."""
    return msgspec.json.format(msgspec.json.encode(list(results)), indent=0)


def write_results(
    results: Sequence[RunResult],
    comparisons: Sequence[Comparison],
    path: Path,
    divergence: Divergence | None = None,
) -> None:
    """Write a file in the form that its name asks for.

    Raises:
        ConfigError: the name asks for none that is known.
        KubeschedError: it cannot be written, or a package is missing.
    """
    try:
        match path.suffix:
            case ".json":
                path.write_bytes(results_json(results))
            case ".html":
                path.write_text(report_html(results, comparisons, divergence), encoding="utf-8")
            case ".parquet":
                _needed("pyarrow", "parquet")
                series_frame(results).to_parquet(path)
                runs = path.with_name(f"{path.stem}.runs.parquet")
                runs_frame(results).to_parquet(runs)
            case _:
                raise ConfigError(f"{path}: results are written as .html, .json or .parquet")
    except OSError as error:
        raise KubeschedError(f"{path}: cannot be written: {error.strerror}") from error


def runs_frame(results: Sequence[RunResult]) -> Any:
    """A pandas frame with a row for each run."""
    pandas = _needed("pandas", "pandas")
    return pandas.DataFrame(
        [
            {
                "configuration": each.configuration,
                "seed": each.seed,
                "digest": each.digest,
                "seconds": each.seconds,
                **measures_of(each),
            }
            for each in results
        ]
    )


def series_frame(results: Sequence[RunResult]) -> Any:
    """A pandas frame with a row for each sample of each run."""
    pandas = _needed("pandas", "pandas")
    frames = []
    for each in results:
        frame = pandas.DataFrame(each.series)
        frame.insert(0, "seed", each.seed)
        frame.insert(0, "configuration", each.configuration)
        frames.append(frame)
    return pandas.concat(frames, ignore_index=True) if frames else pandas.DataFrame()


def _needed(package: str, extra: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        missing = KubeschedError(f"this needs the package {package}")
        missing.add_note(f"pip install 'kubesched[{extra}]'")
        raise missing from error
