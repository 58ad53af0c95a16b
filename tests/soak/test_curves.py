"""Curves of memory: scales, and gaps where a process did not run."""

from __future__ import annotations

import json
import re

from tests.soak.curves import draw_curves


def sample(second: int, **processes: float) -> str:
    used = {name.replace("_", "-"): [mib, 9, 1] for name, mib in processes.items()}
    return json.dumps({"second": second, "bound": 0, **used})


def test_a_curve_has_a_gap_where_the_process_did_not_run() -> None:
    lines = [
        sample(0, server=0),
        sample(5, server=50),
        "held",
        json.dumps({"second": 6, "trouble": "kill_server"}),
        sample(10, scheduler_0=10),
        sample(20, server=100),
        sample(25, server=100),
    ]
    (curve,) = re.findall(r'd="(M[^"]*L[^"]*)" fill="none" stroke="#b3261e"', draw_curves(lines))
    assert [part[0] for part in re.findall(r"[ML][^ML]*", curve)] == ["M", "L", "M", "L"]
    # 100 MiB of a scale that ends at 150, between the heights 284 and 16.
    heights = [float(each) for each in re.findall(r"[ML]\S+ ([\d.]+)", curve)]
    assert heights == [284.0, 194.7, 105.3, 105.3]


def test_a_log_without_samples_is_an_empty_picture() -> None:
    assert draw_curves(["held"]).startswith("<svg")
