"""The time that a device selector takes: to compile, and to evaluate for a device.

    python -m benchmarks.cel [--evaluations 20000] [--repeat 3]

Prints a JSON line per selector: CPU microseconds per compilation and per evaluation on a
device that was prepared before, best of several runs; and one for preparing a device.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import click

from kubesched.api.dynamic_resources import DeviceAttribute, DeviceCapacity
from kubesched.foundation.cel import CompiledSelector, DeviceInput
from kubesched.foundation.cel.device import clear_compiled

DRIVER = "gpu.example.com"
ATTRIBUTES = {
    "model": DeviceAttribute(string_value="A100"),
    "numa": DeviceAttribute(int_value=0),
    "cores": DeviceAttribute(int_value=30),
    "ecc": DeviceAttribute(bool_value=True),
    "driverVersion": DeviceAttribute(version_value="2.0.0"),
}
CAPACITY = {"memory": DeviceCapacity("40Gi")}
GPU = f'device.attributes["{DRIVER}"]'
SELECTORS = {
    "driver": f'device.driver == "{DRIVER}"',
    "attribute": f'{GPU}.model == "A100"',
    "two terms": f'"model" in {GPU} && {GPU}.model != "C"',
    "quantity": f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) >= 0',
    "version": f'{GPU}.driverVersion.isGreaterThan(semver("1.9.0"))',
    "optional": f"{GPU}.?fast.orValue(false) || {GPU}.ecc",
    "loop": f"{GPU}.all(k, k.size() < 14)",
    "pattern": f'{GPU}.model.matches("^[AB][0-9]+$")',
}
COMPILATIONS = 50


def best_us(count: int, repeat: int, work: Callable[[], object]) -> float:
    """CPU microseconds per call, the best of several runs."""
    best = float("inf")
    for _ in range(repeat):
        started = time.process_time_ns()
        for _ in range(count):
            work()
        best = min(best, (time.process_time_ns() - started) / count)
    return round(best / 1000, 2)


@click.command()
@click.option("--evaluations", default=20_000, show_default=True)
@click.option("--repeat", default=3, show_default=True)
def main(evaluations: int, repeat: int) -> None:
    """Time device selectors."""

    def prepare() -> DeviceInput:
        return DeviceInput(DRIVER, ATTRIBUTES, CAPACITY, None)

    print(json.dumps({"prepare_us": best_us(evaluations, repeat, prepare)}))
    device = prepare()
    for name, expression in SELECTORS.items():

        def compile_anew(text: str = expression) -> CompiledSelector:
            clear_compiled()
            return CompiledSelector.compile(text)

        selector = compile_anew()
        figures = {
            "selector": name,
            "compile_us": best_us(COMPILATIONS, repeat, compile_anew),
            "evaluate_us": best_us(evaluations, repeat, lambda s=selector: s.selects(device)),
        }
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
