"""Converts the command line of `kubesched run` to the inputs of a scheduler process.

`run_command_line` executes every step that needs no server. It returns the outcome and neither
prints nor writes anything; the command does that (docs/reference/01 §13).
"""

from __future__ import annotations

import enum
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

import kubesched
from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.util.flag_parsing import FlagError, ParsedFlags, usage
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.log_output import LogSettings
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.config import ExtenderConfig, KubeSchedulerConfiguration, written
from kubesched.scheduler.config.versions import BINARY_VERSION, KUBERNETES_VERSION
from kubesched.scheduler.process.add_ons import ProcessInputs
from kubesched.scheduler.server.options.command_line import (
    UnwantedArgumentsError,
    check_arguments,
    options_from_flags,
    parse_command_line,
)
from kubesched.scheduler.server.options.flag_kinds import PRINT, PRINT_RAW
from kubesched.scheduler.server.options.flags import GROUPS
from kubesched.scheduler.server.options.logging_options import log_settings, validate_logging
from kubesched.scheduler.server.options.option_validation import ReadFile, validate_options
from kubesched.scheduler.server.options.process_config import (
    ProcessConfig,
    check_leader_election,
    feature_gates_of,
    process_config,
)

if TYPE_CHECKING:
    from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

__all__ = ["Failure", "HowToReport", "Outcome", "run_command_line"]

log = get_logger(__name__)

_ABOUT = """\
Watches an API server for pods that have no node yet, finds for each the nodes it can run on,
ranks them, and binds the pod to one of the best. Configuration file and flags are those of
kube-scheduler; `kubesched config` checks and shows a file."""


class HowToReport(enum.Enum):
    """The forms in which the reference reports an error, without its list of all flags."""

    AS_ERROR = enum.auto()  # `Error: …`
    PLAINLY = enum.auto()
    IN_LOG = enum.auto()  # `"command failed" err="…"`


class Failure(msgspec.Struct, frozen=True):
    """Why a command line ends the process, and the form of the report."""

    how: HowToReport
    text: str
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, how: HowToReport, error: KubeschedError) -> Failure:
        return cls(how, str(error), tuple(getattr(error, "__notes__", ())))

    def line(self) -> str:
        """Return the text to print, without the head of a log line."""
        match self.how:
            case HowToReport.PLAINLY:
                return self.text
            case HowToReport.IN_LOG:
                return f'"command failed" err={quote(self.text)}'
        return f"Error: {self.text}"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command line: output, a file to write, a process to run, or a failure."""

    exit_code: int = 0
    output: str = ""
    write_to: str = ""
    configuration: KubeSchedulerConfiguration | None = None  # unless an earlier step failed
    process: ProcessInputs | None = None
    failure: Failure | None = None

    @classmethod
    def failed(cls, how: HowToReport, error: KubeschedError) -> Outcome:
        """Return the outcome of a process that ends with an error."""
        return cls(exit_code=1, failure=Failure.of(how, error))


def run_command_line(
    argv: Sequence[str],
    *,
    read_file: ReadFile,
    environment: Mapping[str, str],
    apply_logging: Callable[[LogSettings], None] = lambda _: None,
    load_plugins: Callable[[Sequence[str]], PluginRegistry] | None = None,
    columns: int = 0,
    program: str = "kubesched run",
) -> Outcome:
    """Turn a command line into a checked configuration (docs/reference/01 §13).

    `program` is the name that the help text and the notes of errors show.
    """
    try:
        flags = parse_command_line(argv)
        if flags["help"]:
            return Outcome(output=_help(program, columns))
        check_arguments(flags)
    except FlagError as exc:
        if not isinstance(exc, UnwantedArgumentsError):
            exc.add_note(f"{program} --help lists the flags")
        return Outcome.failed(HowToReport.AS_ERROR, exc)
    options = options_from_flags(flags)
    try:
        version, gates = feature_gates_of(options)
        if options.version in (PRINT, PRINT_RAW):
            return Outcome(output=_version(options.version))
        try:
            validate_logging(options.logging, gates)
        except ConfigError as exc:
            return Outcome.failed(HowToReport.PLAINLY, exc)
        apply_logging(log_settings(options.logging))
        _log_flags(flags)
        validate_options(options, version, gates, read_file)
        if load_plugins is None:
            from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins

            load_plugins = out_of_tree_plugins
        # Imported here: `--help` must not load the plugin contract.
        from kubesched.scheduler.all_plugins import extension_points_of_all

        plugins = load_plugins(options.plugins)
        texts = flags.texts()

        def load() -> ProcessConfig:
            return process_config(
                options,
                gates,
                read_file=read_file,
                environment=environment,
                known_args=plugins.known_args(),
                implemented=extension_points_of_all(plugins),
                check_extenders=_check_extenders,
            )

        def load_again() -> ProcessConfig:
            loaded = load()
            check_leader_election(loaded)
            return loaded

        config = load()
        if log.enabled(2):
            log.detail(2, "Using component config", config=written(config.configuration))
        if options.write_config_to:
            return Outcome(write_to=options.write_config_to, configuration=config.configuration)
        check_leader_election(config)
        inputs = ProcessInputs(
            config=config,
            plugins=plugins,
            flags=texts,
            load_again=load_again if options.config_file else None,
        )
        return Outcome(process=inputs, configuration=config.configuration)
    except ConfigError as exc:
        return Outcome.failed(HowToReport.IN_LOG, exc)


def _check_extenders(extenders: Sequence[ExtenderConfig]) -> None:
    if extenders:
        # Imported here: most configurations have no extenders.
        from kubesched.scheduler.extenders.extender_building import check_extenders

        check_extenders(extenders)


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
