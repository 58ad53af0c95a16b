"""Goldens of plain values: quantities, and the requests of pods."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubesched.api import Pod
from kubesched.api.codec import from_builtins
from kubesched.api.pod_requests import pod_nonzero_requested, pod_requested
from kubesched.api.quantity import parse_quantity
from kubesched.errors import QuantityError
from tests.conformance.comparison import Step, compare
from tests.conformance.goldens import read_lines

__all__ = ["run_pod_requests", "run_quantities"]


def run_quantities(path: Path) -> Iterator[Step]:
    """Value, milli-value, canonical form and sign of each text, or the error."""
    for number, golden in enumerate(read_lines(path)):
        text = golden.pop("quantity")
        differences = compare(golden, _quantity(text))
        yield Step("quantities", f"quantities-{number:03}", repr(text), differences)


def _quantity(text: str) -> dict[str, Any]:
    try:
        quantity = parse_quantity(text)
    except QuantityError as exc:
        return {"error": str(exc)}
    return {
        "canonical": str(quantity),
        "milliValue": str(quantity.milli_value),
        "sign": quantity.sign,
        "value": str(quantity.value),
    }


def run_pod_requests(path: Path) -> Iterator[Step]:
    """Return the requests of each pod for filtering, and those for scoring."""
    for number, golden in enumerate(read_lines(path)):
        pod = from_builtins(golden.pop("pod"), Pod)
        differences = compare(golden, _requests(pod))
        yield Step("pod_requests", f"pod_requests-{number:03}", pod.metadata.name, differences)


def _requests(pod: Pod) -> dict[str, Any]:
    requested = pod_requested(pod)
    cpu, memory = pod_nonzero_requested(pod)
    return {
        "requests": {
            "cpu": requested.milli_cpu,
            "memory": requested.memory,
            "ephemeral-storage": requested.ephemeral_storage,
            **requested.scalar,
        },
        "nonZero": {"cpu": cpu, "memory": memory},
    }
