"""All families of goldens, and the functions that run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.conformance.comparison import Step
from tests.conformance.config_goldens import run_config
from tests.conformance.decision_goldens import run_decisions
from tests.conformance.group_goldens import run_groups
from tests.conformance.hint_goldens import run_hints
from tests.conformance.value_goldens import run_pod_requests, run_quantities

__all__ = ["FAMILY_NAMES", "run_families"]

_FILES: Final[dict[str, tuple[str, Callable[[Path], Iterator[Step]]]]] = {
    "quantities": ("quantities.jsonl.gz", run_quantities),
    "pod_requests": ("pod_requests.jsonl.gz", run_pod_requests),
    "config": ("config.jsonl", run_config),
    "hints": ("hints.jsonl.gz", run_hints),
    "hints-wide": ("hints-wide.jsonl.gz", run_hints),
    "podgroups": ("api/podgroups-watch.jsonl", run_groups),
}
_DECISIONS: Final = (
    "resources",
    "taints",
    "ports",
    "nodeaffinity",
    "images",
    "topology",
    "defaultspread",
    "podaffinity",
    "preemption",
    "volumes",
    "dra",
    "gates",
    "strategies",
    "mixed",
    "volumes-wide",
    "dra-wide",
    "wild",
    "large",
)
FAMILY_NAMES: Final = (*_FILES, *_DECISIONS)


def run_families(directory: Path, families: Sequence[str] = ()) -> Iterator[Step]:
    """Run the goldens found in the directory: all of them, or those of the families named."""
    for family, (name, runner) in _FILES.items():
        path = directory / name
        if path.exists() and (not families or family in families):
            yield from runner(path)
    found = {path.name.removesuffix(".jsonl.gz"): path for path in _decision_files(directory)}
    # Unknown families come last, so that none is left out.
    names = [*_DECISIONS, *sorted(found.keys() - set(_DECISIONS))]
    for family in names:
        if family in found and (not families or family in families):
            yield from run_decisions(found[family])


def _decision_files(directory: Path) -> list[Path]:
    return sorted((directory / "decisions").glob("*.jsonl.gz"))
