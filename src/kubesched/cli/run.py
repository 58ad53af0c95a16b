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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

import kubesched
from kubesched.cli.scheduler_process import ProcessInputs, SchedulerProcess
from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.util.bounded_file import MOST_SETTINGS_BYTES, read_bounded
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.flag_parsing import Flag, FlagError, ParsedFlags, usage
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.log_output import LogSettings, log_to
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.config import KubeSchedulerConfiguration, default_plugins, written
from kubesched.scheduler.config.feature_gates import check_built
from kubesched.scheduler.config.plugin_lists import Implemented
from kubesched.scheduler.config.plugin_names import IN_TREE_EXTENSION_POINTS
from kubesched.scheduler.config.versions import BINARY_VERSION, KUBERNETES_VERSION
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry, Registry
from kubesched.scheduler.server.options.command_line import (
    UnwantedArgumentsError,
    check_arguments,
    options_from_flags,
    parse_command_line,
)
from kubesched.scheduler.server.options.flag_kinds import PRINT, PRINT_RAW
from kubesched.scheduler.server.options.flags import FILE_FLAGS, GROUPS, all_flags
from kubesched.scheduler.server.options.logging_options import log_settings, validate_logging
from kubesched.scheduler.server.options.option_validation import (
    ReadFile,
    open_error,
    validate_options,
)
from kubesched.scheduler.server.options.process_config import (
    ProcessConfig,
    check_leader_election,
    feature_gates_of,
    process_config,
)

__all__ = [
    "Failure",
    "HowToReport",
    "Outcome",
    "run",
    "run_command_line",
    "scheduler_command",
]

log = get_logger(__name__)

_ABOUT = """\
Watches an API server for pods that have no node yet, finds for each the nodes it can run on,
ranks them, and binds the pod to one of the best. Configuration file and flags are those of
kube-scheduler; `kubesched config` checks and shows a file."""


class HowToReport(enum.Enum):
    """The forms that the reference gives to what went wrong, without the list of all flags."""

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
        """What is printed, without a log line's head."""
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
    program: str = "kubesched run",
) -> Outcome:
    """Go from a command line to a checked configuration, step by step (docs/reference/01 §13)."""
    try:
        flags = parse_command_line(argv)
        if flags["help"]:
            return Outcome(output=_help(program, columns))
        check_arguments(flags)
    except FlagError as exc:
        if not isinstance(exc, UnwantedArgumentsError):
            exc.add_note(f"{program} --help lists the flags")
        return _failed(HowToReport.AS_ERROR, exc)
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
        _check_built(config, plugins)
        inputs = ProcessInputs(config=config, plugins=plugins, flags=texts)
        return Outcome(process=inputs, configuration=config.configuration)
    except ConfigError as exc:
        return _failed(HowToReport.IN_LOG, exc)


def _implemented(plugins: PluginRegistry) -> Implemented:
    """The extension points of all plugins that exist."""
    for name in plugins:
        if name in IN_TREE_EXTENSION_POINTS:
            raise ConfigError(f"a plugin named {name} already exists")
    return {**IN_TREE_EXTENSION_POINTS, **plugins.implemented()}


def _check_built(config: ProcessConfig, plugins: PluginRegistry) -> None:
    """Refuse to run with what is asked for and does not exist here, instead of passing over it."""
    check_built(config.gates, has_extenders=bool(config.configuration.extenders))
    by_default = default_plugins(config.gates).enabled_names()
    for index, profile in enumerate(config.configuration.profiles):
        missing = profile.plugins.enabled_names() - by_default - plugins.keys()
        for name in sorted(missing - IN_TREE_PLUGINS.keys()):
            raise ConfigError(f"profiles[{index}].plugins: kubesched has no plugin {name}")


def _failed(how: HowToReport, error: KubeschedError) -> Outcome:
    return Outcome(exit_code=1, failure=Failure.of(how, error))


def _log_flags(flags: ParsedFlags) -> None:
    if log.enabled(1):
        for name, text in flags.texts().items():
            log.plain(1, f"FLAG: --{name}={quote(text)}")


def _version(asked: str) -> str:
    if asked == PRINT:
        return f"Kubernetes {KUBERNETES_VERSION}\nkubesched v{kubesched.__version__}\n"
    parts = {
        "Major": str(BINARY_VERSION.major),
        "Minor": str(BINARY_VERSION.minor),
        "GitVersion": KUBERNETES_VERSION,
        "Implementation": f"kubesched {kubesched.__version__}",
        "Compiler": f"{platform.python_implementation()} {platform.python_version()}",
        "Platform": f"{sys.platform}/{platform.machine()}",
    }
    return f"version.Info{{{', '.join(f'{key}:{quote(text)}' for key, text in parts.items())}}}\n"


def _help(program: str, columns: int) -> str:
    example = f"Example:\n  {program} --config scheduler.yaml --leader-elect=false\n"
    return f"{_ABOUT}\n\nUsage:\n  {program} [flags]\n\n{example}{usage(GROUPS, columns)}"


class _RawCommand(click.Command):
    """A command that reads its arguments itself: the rules for flags are not click's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The flags, for a shell that completes a command line."""
        return list(map(_option, all_flags())) if ctx.resilient_parsing else []


def _option(flag: Flag) -> click.Option:
    names = [f"--{flag.name}", *([f"-{flag.shorthand}"] if flag.shorthand else [])]
    is_file = flag.name in FILE_FLAGS
    return click.Option(
        [*names, flag.name.replace("-", "_")],
        is_flag=bool(flag.kind.bare),
        multiple=True,
        type=click.Path() if is_file else str,
        help=flag.help.split(". ")[0].split("\n")[0],
    )


def scheduler_command(plugins: Registry | None = None, name: str = "run") -> click.Command:
    """The command that runs a scheduler which also has these plugins.

    Raises:
        ConfigError: one of them could not be built.
    """
    given = PluginRegistry(plugins)

    def load_plugins(named: Sequence[str]) -> PluginRegistry:
        return out_of_tree_plugins(named, given=given)

    @click.command(
        name,
        cls=_RawCommand,
        add_help_option=False,
        short_help="Schedule the pods of a cluster, as kube-scheduler does.",
    )
    @click.pass_context
    def command(ctx: click.Context) -> None:
        """Schedule the pods of a cluster, as kube-scheduler does."""
        _run(ctx, load_plugins)

    return command


def _run(ctx: click.Context, load_plugins: Callable[[Sequence[str]], PluginRegistry]) -> None:
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


run = scheduler_command()


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
    except ValueError as exc:  # a path that no file can have
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from exc
