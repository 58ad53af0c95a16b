"""How hard the fuzzers try: little and always the same in `make test`, much in `make fuzz`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

__all__ = ["effort"]

_TIMES = int(os.environ.get("KUBESCHED_FUZZ", "1"))


def effort(examples: int) -> settings:
    """Settings of a test that tries so many inputs; `KUBESCHED_FUZZ` multiplies them.

    Without it the inputs are the same in every run: a suite that fails by chance is of no use to
    whoever changed something else.
    """
    tried = [Phase.explicit, Phase.generate]
    return settings(
        # Making a failure smaller takes a multiple of the time that finding it took.
        phases=tried if _TIMES == 1 else [*tried, Phase.shrink],
        max_examples=examples * _TIMES,
        derandomize=_TIMES == 1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
