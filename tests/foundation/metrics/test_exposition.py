from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kubesched.foundation.metrics.exposition import format_number, render_families

# From docs/reference/02 §11.1.
NUMBERS = {
    "262144": 262144,
    "1.048576e+06": 1048576,
    "2.68435456e+09": 268435456e1,
    "1.5000000000000002e-05": 1.5000000000000002e-05,
    "0.0001": 0.0001,
    "9e-05": 0.00009,
    "999999": 999999,
    "1e+06": 1e6,
    "123456.789": 123456.789,
    "0": -0.0,
    "-12.5": -12.5,
    "1e+100": 1e100,
    "5e-324": 5e-324,
    "+Inf": math.inf,
    "-Inf": -math.inf,
    "NaN": math.nan,
}


@pytest.mark.parametrize(("text", "value"), NUMBERS.items(), ids=NUMBERS)
def test_numbers(text: str, value: float) -> None:
    assert format_number(value) == text


@given(st.floats(allow_nan=False))
def test_formatted_numbers_parse_to_the_same_value(value: float) -> None:
    assert float(format_number(value)) == value


@pytest.mark.parametrize("name", ["metrics.txt", "metrics-resources.txt"])
def test_the_reference_is_reproduced_to_the_byte(goldens: Path, name: str) -> None:
    recorded = (goldens / "api" / name).read_text()
    # Help texts were reduced to the stability level, if there is one.
    recorded = re.sub(r"^(# HELP \S+)$", r"\1 ", recorded, flags=re.MULTILINE)
    # prometheus_client's parser adds `_total` to every counter; those without it stay out.
    renamed = {
        name
        for name in re.findall(r"^# TYPE (\S+) counter", recorded, re.MULTILINE)
        if not name.endswith("_total")
    }
    families = [
        family for family in text_string_to_metric_families(recorded) if family.name not in renamed
    ]
    blocks = [block for block in re.split(r"(?=^# HELP )", recorded, flags=re.MULTILINE) if block]
    kept = [block for block in blocks if block.split()[2] not in renamed]
    assert render_families(families) == "".join(kept)
    assert len(kept) > 0.9 * len(blocks)
