"""Fixtures and settings for all tests."""

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

# The examples are the same in every run, so that a failure comes from a change of the code.
# KUBESCHED_EXPLORE=1 tries new ones. There are no deadlines: the time of an example depends on the
# machine more than on the code.
settings.register_profile("exploring", deadline=None)
settings.register_profile("repeatable", derandomize=True, deadline=None)
if not os.environ.get("KUBESCHED_EXPLORE"):
    settings.load_profile("repeatable")
else:
    settings.load_profile("exploring")


@pytest.fixture(scope="session")
def goldens() -> Path:
    """The folder with recordings of the reference; tests/goldens/README.md describes it."""
    return GOLDENS


@pytest.fixture(autouse=True)
def _usual_process() -> Iterator[None]:
    """Restore what a command changes when it sets up its process.

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
