"""The number of files through which a configuration passes on its way to a scheduler."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kubesched
from kubesched.foundation.util.clock import ManualClock
from kubesched.scheduler.options import scheduler_configuration
from kubesched.scheduler.process.process_setup import run_command_line
from kubesched.scheduler.process.scheduler_process import SchedulerProcess
from kubesched.scheduler.scheduler import Scheduler

PACKAGE = Path(kubesched.__file__).parent
FILE = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: one
  plugins:
    score:
      disabled: [{name: ImageLocality}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
- schedulerName: other
extenders:
- {urlPrefix: "http://127.0.0.1:1/", filterVerb: filter}
"""


class Trace:
    """Records the files of the package that are entered, except those of plugins."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}

    def begin(self) -> None:
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            self._note(frame)
            frame = frame.f_back
        sys.setprofile(self._on_call)

    def end(self) -> None:
        sys.setprofile(None)

    def _on_call(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            self._note(frame)

    def _note(self, frame: FrameType) -> None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            name = path.relative_to(PACKAGE).as_posix()
            if not name.startswith("scheduler/plugins/"):
                self.files[name] = None


def test_a_configuration_passes_through_few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = Trace()

    def read_file(path: str) -> bytes:
        assert path == "file"
        trace.begin()
        return FILE.encode()

    argv = ["--config=file", "--master=http://127.0.0.1:1", "--secure-port=0"]
    try:
        outcome = run_command_line(argv, read_file=read_file, environment={})
    finally:
        trace.end()
    inputs = outcome.process
    assert inputs is not None
    seen: list[Any] = []

    def construct(_: Scheduler, *__: Any, **options: Any) -> None:
        trace.end()
        seen.append(options["configuration"])

    async def build() -> None:
        process = SchedulerProcess(inputs, ManualClock(), 1, "here")
        monkeypatch.setattr(Scheduler, "__init__", construct)
        trace.begin()
        try:
            process._build_scheduler(None, None)  # type: ignore[arg-type]
        finally:
            trace.end()

    asyncio.run(build())
    assert seen == [inputs.config.configuration]
    assert {
        "scheduler/config/load.py",
        "scheduler/config/configuration_completion.py",
        "scheduler/process/scheduler_process.py",
    } <= set(trace.files)
    assert "scheduler/scheduler.py" not in trace.files  # the scheduler is not built yet
    # A new reader follows these files one by one. More files mean that a rule exists twice.
    # Two of them check the certificates of extenders.
    assert len(trace.files) <= 22, "\n".join(trace.files)


def test_a_configuration_is_completed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    argv = ["--config=file", "--master=http://127.0.0.1:1", "--secure-port=0"]
    outcome = run_command_line(argv, read_file=lambda _: FILE.encode(), environment={})
    inputs = outcome.process
    assert inputs is not None

    def again(*_: Any, **__: Any) -> None:
        raise AssertionError("it is complete")

    monkeypatch.setattr("kubesched.scheduler.options.complete_configuration", again)
    given = scheduler_configuration(
        configuration=inputs.config.configuration, configuration_is_complete=True
    )
    assert given is inputs.config.configuration
    with pytest.raises(AssertionError, match="it is complete"):
        scheduler_configuration(configuration=inputs.config.configuration)
    options: dict[str, Any] = {}
    monkeypatch.setattr(Scheduler, "__init__", lambda *_, **given: options.update(given))

    async def build() -> None:
        SchedulerProcess(inputs, ManualClock(), 1, "here")._build_scheduler(None, None)  # type: ignore[arg-type]

    asyncio.run(build())
    assert options["configuration_is_complete"]
