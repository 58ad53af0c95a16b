"""Coverage-guided fuzzing: `python -m tests.fuzz.by_coverage TARGET [libFuzzer options]`.

It requires Atheris (`pip install atheris`), unlike the other commands. TARGET is the name of a test
of this folder, such as `test_texts:test_quantities`. A finding is an exception with its traceback,
and a file with the bytes that lead to it. That file as the last argument replays the finding.

    python -m tests.fuzz.by_coverage test_texts:test_yaml_files -max_total_time=60
"""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    try:
        import atheris
    except ImportError:
        sys.exit("by_coverage: needs Atheris: pip install atheris")
    if len(sys.argv) < 2 or ":" not in sys.argv[1]:
        sys.exit("by_coverage: which target? such as test_texts:test_quantities")
    module, _, name = sys.argv.pop(1).partition(":")
    with atheris.instrument_imports(include=["kubesched"]):
        target = getattr(importlib.import_module(f"tests.fuzz.{module}"), name)
    atheris.Setup(sys.argv, target.hypothesis.fuzz_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
