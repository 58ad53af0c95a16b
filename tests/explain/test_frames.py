"""Results as pandas frames and as HTML for notebooks."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.errors import KubeschedError
from kubesched.explain import Snapshot
from kubesched.foundation.util.clock import ManualClock
from kubesched.testing import make_node, make_pod

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def snapshot(*objects: Any) -> Snapshot:
    tainted = make_node("b", allocatable=ROOM, taints=["gpu=yes:NoSchedule"])
    return Snapshot([make_node("a", allocatable=ROOM), tainted, *objects], clock=ManualClock())


def test_an_explanation_has_a_row_for_each_node() -> None:
    frame = snapshot().explain(make_pod("p", requests={"cpu": "1"})).to_pandas()
    rows = frame.set_index("node")
    assert rows["fits"].to_dict() == {"a": True, "b": False}
    assert rows.loc["b", "rejected_by"] == "TaintToleration"


def test_a_fit_has_a_row_for_each_node_that_gets_copies() -> None:
    frame = snapshot().fit(make_pod("p", requests={"cpu": "1"})).to_pandas()
    assert frame.to_dict("records") == [{"node": "a", "copies": 4}]


def test_a_what_if_has_a_row_for_each_pod_that_it_concerns() -> None:
    waiting = make_pod("p", requests={"cpu": "6"})
    asked = snapshot(waiting, make_pod("r", node_name="a", phase="Running"))
    frame = asked.whatif(drain=("a",), add=1, like="a").to_pandas()
    assert frame[["pod", "what"]].to_dict("records") == [{"pod": "default/r", "what": "gone"}]


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(KubeschedError, match="needs the package pandas"):
        snapshot().fit(make_pod("p")).to_pandas()


def test_notebooks_are_shown_html_without_markup_of_users() -> None:
    nasty = make_pod("p", node_selector={"x": "<script>"})
    shown = snapshot().explain(nasty)._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "<td>4</td>" in snapshot().fit(make_pod("p", requests={"cpu": "1"}))._repr_html_()
    assert "nothing changes" in snapshot().whatif(add=1)._repr_html_()
