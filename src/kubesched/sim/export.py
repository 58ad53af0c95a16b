"""Results as JSON, Parquet and HTML files, and as pandas frames."""

from __future__ import annotations

import errno
import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.util.whole_file import followed, replaced_whole, write_whole
from kubesched.sim.compare import Comparison, measures_of
from kubesched.sim.divergence import Divergence
from kubesched.sim.report import report_html
from kubesched.sim.results import RunResult

__all__ = ["check_target", "results_json", "runs_frame", "series_frame", "write_results"]

_FORMS = "results are written as .html, .json or .parquet"


def results_json(results: Sequence[RunResult]) -> bytes:
    """Return all results as one JSON list."""
    return msgspec.json.format(msgspec.json.encode(list(results)), indent=0)


def write_results(
    results: Sequence[RunResult],
    comparisons: Sequence[Comparison],
    path: Path,
    divergence: Divergence | None = None,
) -> None:
    """Write results to a file; its suffix selects the format.

    Raises:
        ConfigError: the suffix is not supported.
        KubeschedError: the file cannot be written, or a package is missing.
    """
    try:
        match path.suffix:
            case ".json":
                write_whole(path, results_json(results))
            case ".html":
                write_whole(path, report_html(results, comparisons, divergence).encode())
            case ".parquet":
                _needed("pyarrow", "parquet")
                with replaced_whole(path) as file:
                    series_frame(results).to_parquet(file)
                with replaced_whole(path.with_name(f"{path.stem}.runs.parquet")) as file:
                    runs_frame(results).to_parquet(file)
            case _:
                raise ConfigError(f"{path}: {_FORMS}")
    except OSError as error:
        raise KubeschedError(f"{path}: cannot be written: {error.strerror}") from error


def check_target(path: Path) -> None:
    """Check before a long run that its results can be written to a file.

    Raises:
        ConfigError: the suffix is not supported.
        KubeschedError: the file cannot be written there.
    """
    if path.suffix not in (".json", ".html", ".parquet", ".history"):
        raise ConfigError(f"{path}: {_FORMS}")
    try:
        folder = followed(path).parent
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        os.stat(f"{folder}/.")  # raises if it is missing or not a folder
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise KubeschedError(f"{path}: cannot be written: {error.strerror}") from error


def runs_frame(results: Sequence[RunResult]) -> Any:
    """Return a pandas frame with a row for each run."""
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
    """Return a pandas frame with a row for each sample of each run."""
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
