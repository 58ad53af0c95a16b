"""Goldens of configurations: what `--write-config-to` writes, or the error it ends with."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from kubesched.scheduler.config.write import written
from kubesched.scheduler.process.process_setup import HowToReport, run_command_line
from tests.conformance.comparison import Step, compare
from tests.conformance.goldens import read_lines

__all__ = ["run_config"]

_CONFIG: Final = "CONFIG"
_KUBECONFIG: Final = "/etc/kubernetes/scheduler.conf"
# As recorded: no server is needed, no endpoint is served, and the result is written to a file.
_SURROUNDINGS: Final = ("--master=recorded", "--secure-port=0", "--write-config-to=OUTPUT")
_COMMAND_FAILED: Final = re.compile(r'"command failed" err=("(?:[^"\\]|\\.)*")')
_COMMAND_FAILED_LINES: Final = re.compile(r'"command failed" err=<\n((?:\t.*\n)*) >')


def run_config(path: Path) -> Iterator[Step]:
    for golden in read_lines(path):
        expected: dict[str, Any] = {"exit": golden["exit"]}
        if golden["exit"] == 0:
            expected["written"] = golden["written"]
        else:
            expected["error"] = _error_text("\n".join(golden["stderr"]))
        differences = compare(expected, _outcome(golden["config"], golden["flags"]))
        yield Step("config", golden["name"], "", differences, ())


def _error_text(stderr: str) -> str:
    """The error itself, without the log line around it."""
    if match := _COMMAND_FAILED.search(stderr):
        return str(json.loads(match[1]))
    if match := _COMMAND_FAILED_LINES.search(stderr):
        return "\n".join(line.removeprefix("\t") for line in match[1].splitlines())
    return stderr


def _outcome(config: str | None, flags: list[str]) -> dict[str, Any]:
    missing = {flag.removeprefix("--config=") for flag in flags if flag.startswith("--config=")}

    def read_file(path: str) -> bytes:
        if path in missing:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return (config or "").encode() if path == _CONFIG else b"kind: Config"

    file = () if config is None else (f"--config={_CONFIG}",)
    outcome = run_command_line((*_SURROUNDINGS, *file, *flags), read_file=read_file, environment={})
    failure = outcome.failure
    if failure is None:
        assert outcome.configuration is not None
        text = _with_kubeconfig(written(outcome.configuration))
        return {"exit": outcome.exit_code, "written": text}
    error = failure.text if failure.how is HowToReport.IN_LOG else failure.line()
    return {"exit": outcome.exit_code, "error": error}


def _with_kubeconfig(text: str) -> str:
    """Set the path as in the recording, if the file did not set one."""
    return text.replace('\n  kubeconfig: ""\n', f"\n  kubeconfig: {_KUBECONFIG}\n")
