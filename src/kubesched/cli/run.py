"""`kubesched run`: what `kube-scheduler` is in a cluster, with the same flags and file.

`run_command_line` takes a command line through every step that needs no server and says what
comes of it, without printing or writing anything; the command then does so.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import errno
import os
import platform
import resource
import secrets
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

import kubesched
from kubesched.cli.scheduler_process import ProcessInputs, SchedulerProcess
from kubesched.config import KubeSchedulerConfiguration, written
from kubesched.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.config.versions import BINARY_VERSION, KUBERNETES_VERSION
from kubesched.runtime.plugin_loading import out_of_tree_plugins
from kubesched.runtime.plugin_registry import PluginRegistry
from kubesched.server.options.command_line import (
    UnwantedArgumentsError,
    check_arguments,
    options_from_flags,
    parse_command_line,
)
from kubesched.server.options.flag_kinds import PRINT, PRINT_RAW
from kubesched.server.options.flags import GROUPS
from kubesched.server.options.logging_options import log_settings, validate_logging
from kubesched.server.options.option_validation import ReadFile, open_error, validate_options
from kubesched.server.options.process_config import (
    check_leader_election,
    feature_gates_of,
    process_config,
)
from kubesched.util.clock import RealClock
from kubesched.util.collector import settle_collector
from kubesched.util.errors import ConfigError, KubeschedError
from kubesched.util.flag_parsing import FlagError, ParsedFlags, usage
from kubesched.util.go_format import quote
from kubesched.util.log_output import LogSettings, log_to
from kubesched.util.logging import get_logger

__all__ = [
    "Failure",
    "HowToReport",
    "Outcome",
    "run",
    "run_command_line",
]

log = get_logger(__name__)

_ABOUT = """\
Watches an API server for pods that have no node yet, finds for each the nodes it can run on,
ranks them, and binds the pod to one of the best. Configuration file and flags are those of
kube-scheduler; `kubesched config` checks and shows a file."""


class HowToReport(enum.Enum):
    """The forms that the reference gives to what went wrong."""

    WITH_USAGE = enum.auto()  # the flags, then `Error: …`
    AS_ERROR = enum.auto()  # `Error: …`
    PLAINLY = enum.auto()
    IN_LOG = enum.auto()  # `"command failed" err="…"`


class Failure(msgspec.Struct, frozen=True):
    """Why a command line ends the process, and how that is said."""

    how: HowToReport
    text: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, how: HowToReport, error: KubeschedError) -> Failure:
        return cls(how, str(error), tuple(getattr(error, "__notes__", ())))

    def line(self) -> str:
        """What is printed, without the usage before it and a log line's head."""
        match self.how:
            case HowToReport.PLAINLY:
                return self.text
            case HowToReport.IN_LOG:
                return f'"command failed" err={quote(self.text)}'
        return f"Error: {self.text}"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What comes of a command line: output, a configuration to write, a process, a failure."""

    exit_code: int = 0
    output: str = ""
    write_to: str = ""
    configuration: KubeSchedulerConfiguration | None = None  # in force, if it came to that
    process: ProcessInputs | None = None
    failure: Failure | None = None


def run_command_line(
    argv: Sequence[str],
    *,
    read_file: ReadFile,
    environment: Mapping[str, str],
    apply_logging: Callable[[LogSettings], None] = lambda _: None,
    load_plugins: Callable[[Sequence[str]], PluginRegistry] = out_of_tree_plugins,
    columns: int = 0,
) -> Outcome:
    """Go from a command line to a checked configuration, step by step (docs/reference/01 §13)."""
    try:
        flags = parse_command_line(argv)
        if flags["help"]:
            return Outcome(output=_help(columns))
        check_arguments(flags)
    except UnwantedArgumentsError as exc:
        return _failed(HowToReport.AS_ERROR, exc)
    except FlagError as exc:
        return _failed(HowToReport.WITH_USAGE, exc)
    options = options_from_flags(flags)
    try:
        version, gates = feature_gates_of(options)
        if options.version in (PRINT, PRINT_RAW):
            return Outcome(output=_version(options.version))
        try:
            validate_logging(options.logging, gates)
        except ConfigError as exc:
            return _failed(HowToReport.PLAINLY, exc)
        apply_logging(log_settings(options.logging))
        _log_flags(flags)
        validate_options(options, version, gates, read_file)
        plugins = load_plugins(options.plugins)
        texts = flags.texts()
        config = process_config(
            options,
            gates,
            read_file=read_file,
            environment=environment,
            known_args=plugins.known_args(),
            implemented=_implemented(plugins),
        )
        if log.enabled(2):
            log.detail(2, "Using component config", config=written(config.configuration))
        if options.write_config_to:
            return Outcome(write_to=options.write_config_to, configuration=config.configuration)
        check_leader_election(config)
        inputs = ProcessInputs(config=config, plugins=plugins, flags=texts)
        return Outcome(process=inputs, configuration=config.configuration)
    except ConfigError as exc:
        return _failed(HowToReport.IN_LOG, exc)


def _implemented(plugins: PluginRegistry) -> dict[str, Collection[str]]:
    """The extension points of all plugins that exist."""
    for name in plugins:
        if name in IN_TREE_EXTENSION_POINTS:
            raise ConfigError(f"a plugin named {name} already exists")
    return {**IN_TREE_EXTENSION_POINTS, **plugins.implemented()}


def _failed(how: HowToReport, error: KubeschedError) -> Outcome:
    return Outcome(exit_code=1, failure=Failure.of(how, error))


def _log_flags(flags: ParsedFlags) -> None:
    if log.enabled(1):
        for name, text in flags.texts().items():
            log.plain(1, f"FLAG: --{name}={quote(text)}")


def _version(asked: str) -> str:
    if asked == PRINT:
        return f"Kubernetes {KUBERNETES_VERSION}\n"
    parts = {
        "Major": str(BINARY_VERSION.major),
        "Minor": str(BINARY_VERSION.minor),
        "GitVersion": KUBERNETES_VERSION,
        "Implementation": f"kubesched {kubesched.__version__}",
        "Compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "Platform": f"{sys.platform}/{platform.machine()}",
    }
    return f"version.Info{{{', '.join(f'{key}:{quote(text)}' for key, text in parts.items())}}}\n"


def _help(columns: int) -> str:
    return f"{_ABOUT}\n\n{_usage(columns)}"


def _usage(columns: int) -> str:
    return f"Usage:\n  kubesched run [flags]\n{usage(GROUPS, columns)}"


class _RawCommand(click.Command):
    """A command that reads its arguments itself: the rules for flags are not click's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []


@click.command(
    cls=_RawCommand,
    add_help_option=False,
    short_help="Schedule the pods of a cluster, as kube-scheduler does.",
)
@click.pass_context
def run(ctx: click.Context) -> None:
    """Schedule the pods of a cluster, as kube-scheduler does."""
    signals = _Signals()
    _apply_logging(LogSettings())
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    outcome = run_command_line(
        ctx.args,
        read_file=_read_file,
        environment=os.environ,
        apply_logging=_apply_logging,
        columns=columns,
    )
    outcome = _write(outcome)
    click.echo(outcome.output, nl=False)
    if outcome.process is not None:
        outcome = _run_process(outcome.process, signals)
    if outcome.failure is not None:
        _report(outcome.failure, columns)
    ctx.exit(outcome.exit_code)


def _run_process(inputs: ProcessInputs, signals: _Signals) -> Outcome:
    _allow_open_files()
    try:
        return Outcome(exit_code=asyncio.run(_run_until_signalled(inputs, signals)))
    except KubeschedError as exc:
        return _failed(HowToReport.IN_LOG, exc)
    except Exception as exc:
        if (told := _only_failure(exc)) is not None:
            return _failed(HowToReport.IN_LOG, told)
        # A bug, which the reference ends with the exit code of a panic.
        traceback.print_exception(exc)
        return Outcome(exit_code=2)


def _only_failure(error: BaseException) -> KubeschedError | None:
    """The failure that parts which ran side by side ended with, if it is one of ours."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error if isinstance(error, KubeschedError) else None


def _allow_open_files() -> None:
    """Take as many files and connections as this process may ask for, as Go programs do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _run_until_signalled(inputs: ProcessInputs, signals: _Signals) -> int:
    seed, hostname = secrets.randbits(63), socket.gethostname()
    process = SchedulerProcess(inputs, RealClock(), seed, hostname, on_synced=settle_collector)
    loop = asyncio.get_running_loop()
    signals.call_on_first(lambda: loop.call_soon_threadsafe(process.stop))
    loop.add_signal_handler(signal.SIGUSR2, process.log_state)
    return await process.run()


class _Signals:
    """SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once.

    Not the loop's own handlers: the second must work when the loop is stuck, and the first
    while the command line is still being read.
    """

    def __init__(self) -> None:
        self._stop: Callable[[], object] | None = None
        self._came = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def call_on_first(self, stop: Callable[[], object]) -> None:
        """Call this when one comes, or now if one has come."""
        self._stop = stop
        if self._came:
            stop()

    def _on_signal(self, *_: object) -> None:
        if self._came:
            os._exit(1)  # someone is in a hurry: nothing is finished, nothing is released
        self._came = True
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


def _report(failure: Failure, columns: int) -> None:
    if failure.how is HowToReport.WITH_USAGE:
        click.echo(_usage(columns), err=True)
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
        return Path(path).read_bytes()
    except ValueError as exc:  # a path that no file can have
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from exc
