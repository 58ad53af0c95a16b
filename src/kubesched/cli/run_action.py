"""Action of `kubesched run`: set up a scheduler process, and run it until a signal.

`scheduler/process/process_setup.py` converts the command line into an outcome. This module reads
the files, prints and writes the output of the outcome, and runs the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import secrets
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from kubesched.cli.hangups import hangup_handler
from kubesched.errors import KubeschedError
from kubesched.foundation.util.bounded_file import MOST_SETTINGS_BYTES, read_bounded
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.log_output import LogSettings, log_to
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.config import written
from kubesched.scheduler.process.process_setup import (
    Failure,
    HowToReport,
    Outcome,
    run_command_line,
)
from kubesched.scheduler.server.options.option_validation import open_error

if TYPE_CHECKING:
    from kubesched.scheduler.process.add_ons import ProcessInputs
    from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

__all__ = ["run_scheduler"]

log = get_logger(__name__)


def run_scheduler(ctx: click.Context, registry: PluginRegistry | None) -> None:
    """Run a scheduler with the plugins of `registry`, in addition to in-tree and installed ones."""

    def load_plugins(named: Sequence[str]) -> PluginRegistry:
        from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins

        return out_of_tree_plugins(named, given=registry)

    signals = _Signals()
    _apply_logging(LogSettings())
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    outcome = run_command_line(
        ctx.args,
        read_file=_read_file,
        environment=os.environ,
        apply_logging=_apply_logging,
        load_plugins=load_plugins,
        columns=columns,
        program=ctx.command_path,
    )
    outcome = _write(outcome)
    click.echo(outcome.output, nl=False)
    if outcome.process is not None:
        outcome = _run_process(outcome.process, signals)
    if outcome.failure is not None:
        _report(outcome.failure)
    ctx.exit(outcome.exit_code)


def _run_process(inputs: ProcessInputs, signals: _Signals) -> Outcome:
    _allow_open_files()
    try:
        return Outcome(exit_code=asyncio.run(_run_until_signalled(inputs, signals)))
    except KubeschedError as exc:
        return Outcome.failed(HowToReport.IN_LOG, exc)
    except Exception as exc:
        if (failure := _only_failure(exc)) is not None:
            return Outcome.failed(HowToReport.IN_LOG, failure)
        # A bug. The reference ends with the exit code of a panic.
        traceback.print_exception(exc)
        return Outcome(exit_code=2)


def _only_failure(error: BaseException) -> KubeschedError | None:
    """Return the one KubeschedError in nested exception groups; None for anything else."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, KubeschedError) else None


def _allow_open_files() -> None:
    """Raise the limit of open files to the hard limit, as Go programs do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run_until_signalled(inputs: ProcessInputs, signals: _Signals) -> int:
    # Imported here: `--help` and wrong flags must not load the whole scheduler.
    from kubesched.cli.process_add_ons import CommandAddOns
    from kubesched.scheduler.process.shadow_process import build_process

    settle_collector()  # what was imported stays until the end
    seed, hostname = secrets.randbits(63), socket.gethostname()
    process = build_process(
        inputs,
        RealClock(),
        seed,
        hostname,
        on_synced=settle_collector,
        add_ons=CommandAddOns(),
    )
    loop = asyncio.get_running_loop()
    signals.call_on_first(lambda: loop.call_soon_threadsafe(process.stop))
    loop.add_signal_handler(signal.SIGUSR2, process.log_state)
    if inputs.load_again is not None:
        loop.add_signal_handler(signal.SIGHUP, hangup_handler(process.reload, process.stop))
    return await process.run()


class _Signals:
    """Handlers of SIGTERM and SIGINT: the first signal stops the process, the second kills it.

    They are not handlers of the event loop: the second signal must work when the loop hangs, and
    the first one while the command line is still being parsed.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], object] | None = None
        self._has_arrived = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def call_on_first(self, stop: Callable[[], object]) -> None:
        """Call `stop` on the first signal, or at once if it has arrived already."""
        self._stop = stop
        if self._has_arrived:
            stop()

    def _on_signal(self, *_: object) -> None:
        if self._has_arrived:
            os._exit(1)  # bindings are not finished and the lease is not released
        self._has_arrived = True
        if self._stop is not None:
            self._stop()


def _write(outcome: Outcome) -> Outcome:
    if not outcome.write_to or outcome.configuration is None:
        return outcome
    try:
        Path(outcome.write_to).write_text(written(outcome.configuration))
    except OSError as exc:
        failure = Failure(HowToReport.IN_LOG, open_error(outcome.write_to, exc))
        return replace(outcome, exit_code=1, failure=failure)
    log.info("Wrote configuration", file=outcome.write_to)
    return outcome


def _report(failure: Failure) -> None:
    if failure.how is HowToReport.IN_LOG:
        log.error("command failed", err=failure.text)
    else:
        click.echo(failure.line(), err=True)
    for note in failure.notes:
        click.echo(f"  {note}", err=True)


def _apply_logging(settings: LogSettings) -> None:
    log_to(settings, sys.stderr, sys.stdout, os.getpid())


def _read_file(path: str) -> bytes:
    try:
        return read_bounded(path, MOST_SETTINGS_BYTES)
    except ValueError as exc:  # not a valid path, for example with a null byte
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from exc
