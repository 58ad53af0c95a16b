"""The number of inputs of the fuzz tests: few and fixed in `make test`, many in `make fuzz`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings

__all__ = ["effort"]

_TIMES = int(os.environ.get("KUBESCHED_FUZZ", "1"))


def effort(examples: int) -> settings:
    """Make the settings of a test with a number of inputs; `KUBESCHED_FUZZ` multiplies it.

    Without that variable the inputs are the same in every run. A suite that fails at random would
    not help after a change of something else.
    """
    tried = [Phase.explicit, Phase.generate]
    return settings(
        # Shrinking a failure takes a multiple of the time of finding it.
        phases=tried if _TIMES == 1 else [*tried, Phase.shrink],
        max_examples=examples * _TIMES,
        derandomize=_TIMES == 1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
