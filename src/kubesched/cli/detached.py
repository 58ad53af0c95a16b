"""Starts clusters in the background, and waits until their workload is placed.

The process runs the same command, with its output in the log of the cluster's folder. It reports on
a pipe when the workload is placed. Until then this process shows the log, so that errors appear as
they do in the foreground.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from kubesched.cli.cluster_run import Started
from kubesched.cli.named_clusters import ClusterFolder
from kubesched.cluster.embedded_cluster import Listen

__all__ = ["DetachedError", "repeated_arguments", "report_to", "start_detached"]

_LOOKED_EVERY_S: Final = 0.1


class DetachedError(Exception):
    """The process ended before its cluster was up; the log has shown the reason."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(f"exit code {exit_code}")
        self.exit_code = exit_code


def repeated_arguments(ctx: click.Context, without: Sequence[str]) -> list[str]:
    """Return the options that the user has set, to start the command again; except `without`."""
    arguments = []
    for parameter in ctx.command.params:
        name = parameter.name or ""
        is_given = ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not is_given or name in without or not isinstance(parameter, click.Option):
            continue
        value, option = ctx.params[name], parameter.opts[-1]
        if parameter.is_flag:
            arguments.append(option)
            continue
        for each in value if parameter.multiple else [value]:
            text = f"[{each.host}]:{each.port}" if isinstance(each, Listen) else str(each)
            arguments += [option, text]
    return arguments


def start_detached(
    folder: ClusterFolder, arguments: Sequence[str], *, is_quiet: bool, reads_input: bool
) -> Started:
    """Run the command in the background, and wait until its cluster has placed its workload.

    Raises:
        KubeschedError: the cluster runs already.
        DetachedError: the process ended instead.
    """
    with folder.prepared():
        with folder.claimed():
            pass  # raises if the cluster runs already
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(folder.log, flags, 0o600)
        shown = _LogDisplay(folder, os.fstat(log).st_size)
        reader, writer = os.pipe()
        try:
            process = subprocess.Popen(
                [*_program(), *arguments, "--name", folder.name, "--report-to", str(writer)],
                stdin=None if reads_input else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[writer],
                start_new_session=True,
            )
        finally:
            os.close(writer)
            os.close(log)
        try:
            report = _follow(reader, None if is_quiet else shown)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        finally:
            os.close(reader)
        if not report:
            exit_code = process.wait()
            shown.more()
            raise DetachedError(exit_code if exit_code > 0 else 1)
    process.returncode = 0  # it keeps running: Popen must not warn about it
    return msgspec.json.decode(report, type=Started)


def report_to(descriptor: int, started: Started) -> None:
    """Report to the parent process that the cluster is up."""
    with contextlib.suppress(BrokenPipeError), os.fdopen(descriptor, "wb") as pipe:
        pipe.write(msgspec.json.encode(started))


def _program() -> list[str]:
    # Python searches the current folder for modules only if this process does.
    safe = [] if sys.path[0] in ("", os.getcwd()) else ["-P"]
    return [sys.executable, *safe, "-m", "kubesched.cli.main", "up"]


def _follow(reader: int, shown: _LogDisplay | None) -> bytes:
    """Show the log until the process reports.

    Return the report, empty if the process ended without one.
    """
    report = b""
    while True:
        if select.select([reader], [], [], _LOOKED_EVERY_S)[0]:
            part = os.read(reader, 1 << 16)
            report += part
            if not part:
                break
        if shown is not None:
            shown.more()
    if report and shown is not None:
        shown.more()
    return report


class _LogDisplay:
    """Copies new content of a log to standard error."""

    def __init__(self, folder: ClusterFolder, offset: int) -> None:
        self._path = folder.log
        self._offset = offset

    def more(self) -> None:
        with self._path.open("rb") as log:
            log.seek(self._offset)
            text = log.read()
        self._offset += len(text)
        click.echo(text, nl=False, err=True)
