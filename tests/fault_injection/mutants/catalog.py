"""All mutants by name, and the search for a seed that detects one."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from tests.fault_injection.mutants import (
    binding,
    cache,
    decisions,
    extenders,
    hints,
    leader_election,
    preemption,
    queue,
    reporting,
    server,
    volumes_and_devices,
    watches,
)
from tests.fault_injection.mutants.mutant import (
    Mutant,
    MutantTargetError,
    activate,
    forget_read_values,
    unread_values,
)
from tests.fault_injection.plan import make_plan
from tests.fault_injection.run import run_plan

__all__ = ["MUTANTS", "Detection", "detect"]

_GROUPS = (
    queue,
    cache,
    decisions,
    hints,
    binding,
    preemption,
    extenders,
    leader_election,
    watches,
    server,
    volumes_and_devices,
    reporting,
)
MUTANTS: dict[str, Mutant] = {
    name: mutant for group in _GROUPS for name, mutant in group.MUTANTS.items()
}


class Detection(NamedTuple):
    """What the search for a seed that detects a mutant has found."""

    seed: int | None  # None: no run has detected it
    # The first violation, or why the mutant may have changed nothing.
    text: str


def detect(name: str, seeds: int) -> Detection:
    """Look for a seed whose run detects the mutant.

    The seed that is noted with the mutant comes first, then those from 0 up to `seeds`.

    Raises:
        MutantTargetError: the mutant does not fit the code any more.
    """
    mutant = MUTANTS[name]
    forget_read_values()
    for seed in itertools.chain((mutant.seed,), range(seeds)):
        with activate(mutant):
            try:
                violations = run_plan(make_plan(seed)).violations
            except MutantTargetError:
                raise
            except Exception as error:
                violations = [f"the run fails: {error!r}"]
        if violations:
            return Detection(seed, violations[0])
    unread = ", ".join(unread_values())
    return Detection(None, f"the code never reads {unread}" if unread else "")
