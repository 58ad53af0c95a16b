"""Fixtures that every test may use."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from kubesched.util.logging import set_verbosity
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
def _usual_logging() -> Iterator[None]:
    """A command that sets up logging leaves nothing behind: others would write every line."""
    root = logging.getLogger("kubesched")
    level, handlers, propagate = root.level, list(root.handlers), root.propagate
    yield
    if root.level != level:
        set_verbosity(0)
        root.setLevel(level)
    root.handlers[:], root.propagate = handlers, propagate
