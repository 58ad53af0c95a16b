"""One measured run of a benchmark, in a process of its own and for any version of the project.

    python -P benchmarks/measured_run.py COUNTER MODULE [OPTION]...

`benchmarks.compare` starts this file by its path, with the package and the benchmarks of the
measured version on PYTHONPATH. It therefore imports nothing of them itself. MODULE is a benchmark,
whose stopwatch marks the measured part, or `import:NAME`, which measures that import. COUNTER is a
library built from instructions.c, or `-`. The last line of stdout has the CPU time in seconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any


class Meter:
    """Measures the first interval between `start` and `stop`."""

    def __init__(self, counter: str) -> None:
        self._counter = None if counter == "-" else ctypes.PyDLL(counter)
        self._started_ns: int | None = None
        self.cpu_s: float | None = None

    def start(self) -> None:
        if self._started_ns is None:
            self._started_ns = time.process_time_ns()
            if self._counter is not None:
                self._counter.start_counting()

    def stop(self) -> None:
        if self._started_ns is not None and self.cpu_s is None:
            if self._counter is not None:
                self._counter.stop_counting()
            self.cpu_s = (time.process_time_ns() - self._started_ns) / 1e9


def run_benchmark(meter: Meter, module: str, options: Sequence[str]) -> None:
    """Run the benchmark's command, and measure while its stopwatch runs."""
    measuring: Any = importlib.import_module("benchmarks.measuring")
    stopwatch = measuring.Stopwatch
    start, spent = stopwatch.__init__, stopwatch.spent

    def measured_start(self: Any) -> None:
        start(self)
        meter.start()

    def measured_spent(self: Any) -> Any:
        meter.stop()
        return spent(self)

    stopwatch.__init__, stopwatch.spent = measured_start, measured_spent
    command: Callable[..., None] = importlib.import_module(module).main
    with contextlib.redirect_stdout(io.StringIO()):
        command(list(options), standalone_mode=False)


def main(counter: str, module: str, *options: str) -> None:
    meter = Meter(counter)
    if module.startswith("import:"):
        meter.start()
        importlib.import_module(module.removeprefix("import:"))
        meter.stop()
    else:
        run_benchmark(meter, module, options)
    print(json.dumps({"cpu_s": meter.cpu_s}))


if __name__ == "__main__":
    main(*sys.argv[1:])
