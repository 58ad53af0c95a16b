"""The text format of metrics, as in the reference (docs/reference/02 §11.1).

Families are sorted by name, series by their label values, labels by name with `le` or
`quantile` last. Numbers have the fewest digits that parse to the same value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import CollectorRegistry
from prometheus_client.samples import Sample

__all__ = ["CONTENT_TYPE", "format_number", "render", "render_families"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

_LAST = ("le", "quantile")


def render(registry: CollectorRegistry) -> str:
    """Render all metrics of the registry."""
    return render_families(registry.collect())


def render_families(families: Iterable[Metric]) -> str:
    """Render the families that have samples."""
    named = sorted((_exposed_name(family), family) for family in families if family.samples)
    return "".join(line for name, family in named for line in _family(name, family))


def format_number(value: float) -> str:
    """Format a number: plain from 1e-4 to below 1e6, otherwise with an exponent."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    # repr() has the fewest digits that round-trip; split them and place the point again.
    sign = "-" if value < 0 else ""
    mantissa, _, exponent_text = repr(abs(float(value))).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    leading_zeros = len(whole + fraction) - len(digits)
    exponent = int(exponent_text or "0") + len(whole) - leading_zeros - 1
    digits = digits.rstrip("0")
    if exponent < -4 or exponent >= 6:
        tail = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{exponent:+03d}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}.{fraction}" if fraction else sign + whole


def _exposed_name(family: Metric) -> str:
    # prometheus_client stores a counter's family under its name without `_total`.
    return family.samples[0].name if family.type == "counter" else family.name


def _family(name: str, family: Metric) -> Iterator[str]:
    documentation = family.documentation.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {name} {documentation}\n"
    yield f"# TYPE {name} {'untyped' if family.type == 'unknown' else family.type}\n"
    shown = [sample for sample in family.samples if not sample.name.endswith("_created")]
    # The sort is stable, so the order of the buckets of one series does not change.
    for sample in sorted(shown, key=_series):
        labels = ",".join(f'{key}="{_escape(sample.labels[key])}"' for key in _label_order(sample))
        series = f"{sample.name}{{{labels}}}" if labels else sample.name
        yield f"{series} {format_number(sample.value)}\n"


def _series(sample: Sample) -> list[str]:
    return [sample.labels[key] for key in _label_order(sample) if key not in _LAST]


def _label_order(sample: Sample) -> list[str]:
    return sorted(sample.labels, key=lambda key: (key in _LAST, key))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
