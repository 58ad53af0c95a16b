"""The example of a zone outage, run twice with the same result."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from kubesched.foundation.util.virtual_loop import run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "zone_outage.py"


def play() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("zone_outage", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    seen: dict[str, Any] = run(module.outage)
    return seen


def total(counts: dict[str, int], state: str) -> int:
    return sum(number for key, number in counts.items() if key.startswith(state))


def test_pods_of_a_failed_zone_are_replaced_and_the_run_is_reproducible() -> None:
    seen = play()
    assert sum(total(counts, "Running") for counts in seen["before"].values()) == 1000
    after = seen["after the toleration time"]
    assert total(after["ReplicaSet"], "Running") == 800
    assert total(after["Job"], "Running") == 100
    assert "Running in zone a" not in {key for counts in after.values() for key in counts}
    # A stable name may only be reused once its old pod has certainly ended.
    lost = after["StatefulSet"]["Terminating in zone a"]
    assert total(after["StatefulSet"], "Running") == 100 - lost
    last = seen["long after its return"]
    assert last["Job"] == {key: n for key, n in last["Job"].items() if key.startswith("Succeeded")}
    assert total(last["Job"], "Succeeded") == 100
    assert total(last["StatefulSet"], "Running") == 100
    assert play() == seen
