"""Fixtures that every test may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples every time, so that a failure is about the change at hand; others with
# KUBESCHED_EXPLORE=1, to look for what nobody has met yet.
settings.register_profile("repeatable", derandomize=True)
if not os.environ.get("KUBESCHED_EXPLORE"):
    settings.load_profile("repeatable")

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The recorded behaviour of the reference: `goldens/`, `spec/`, `traces/` and more.

    It lives outside the repository, at KUBESCHED_SHARED or in a folder `shared` beside it.
    Without it the tests that need it are skipped, except in CI, where they fail.
    """
    root = Path(os.environ.get("KUBESCHED_SHARED", _BESIDE_THE_REPOSITORY))
    if root.is_dir():
        return root
    message = f"no recorded behaviour at {root}; set KUBESCHED_SHARED"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
