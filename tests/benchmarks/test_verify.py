"""The verification under churn makes decisions, changes the cluster, and finds a stale cache."""

from __future__ import annotations

import pytest

from benchmarks.verify import Churn
from kubesched.framework.engine import ChangeLog
from kubesched.scheduler.search.verification import EngineMismatchError


def decide(churn: Churn) -> None:
    for _ in range(150):
        churn.decide()


def test_decisions_are_made_under_churn() -> None:
    churn = Churn(seed=1, nodes=8)
    decide(churn)
    assert churn.outcomes["placed"] > 20
    assert churn.outcomes["unschedulable"] > 20
    assert churn.outcomes["error"] == 0


def test_a_cache_that_misses_changes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ChangeLog.recent
    monkeypatch.setattr(ChangeLog, "recent", lambda log, position: real(log, position)[:0])
    churn = Churn(seed=1, nodes=8)
    with pytest.raises(EngineMismatchError, match="differ in"):
        decide(churn)
