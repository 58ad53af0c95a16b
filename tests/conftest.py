"""Fixtures that every test may use."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from kubesched.foundation.util.logging import set_verbosity
from tests.conformance.goldens import GOLDENS

# The same examples every time, so that a failure is about the change at hand; others with
# KUBESCHED_EXPLORE=1, to look for what nobody has met yet.
# No deadlines: how long an example takes says more about the machine than about the code.
settings.register_profile("exploring", deadline=None)
settings.register_profile("repeatable", derandomize=True, deadline=None)
if not os.environ.get("KUBESCHED_EXPLORE"):
    settings.load_profile("repeatable")
else:
    settings.load_profile("exploring")


@pytest.fixture(scope="session")
def goldens() -> Path:
    """What the reference was recorded to do; tests/goldens/README.md says what is in it."""
    return GOLDENS


@pytest.fixture(autouse=True)
def _usual_process() -> Iterator[None]:
    """A command that sets up its process leaves nothing behind.

    Others would write every line of their logs, and Hypothesis misses objects set aside.
    """
    root = logging.getLogger("kubesched")
    level, handlers, propagate = root.level, list(root.handlers), root.propagate
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    gc.callbacks[:] = callbacks
    if root.level != level:
        set_verbosity(0)
        root.setLevel(level)
    root.handlers[:], root.propagate = handlers, propagate
