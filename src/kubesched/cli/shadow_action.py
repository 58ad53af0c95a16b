"""Action of `kubesched shadow report`: read a ledger and show it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from kubesched.cli.configuration_file import read_configuration
from kubesched.cli.replay_action import recorded_plugins
from kubesched.cli.running_scheduler import RunningScheduler
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.recordings.decision_replay import compare_recording
from kubesched.explain.shadow.shadow_entries import ShadowReport
from kubesched.explain.shadow.shadow_report import report_as_html, report_as_text
from kubesched.foundation.util.bounded_file import read_bounded
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins

__all__ = ["run_recorded_report", "run_shadow_report"]


def run_shadow_report(
    ledger: Path | None, scheduler: RunningScheduler | None, most: int, output: str
) -> None:
    if (ledger is None) == (scheduler is None):
        raise click.UsageError("name a ledger file, or a running shadow with --scheduler")
    if scheduler is not None:
        _show_report(asyncio.run(scheduler.shadow()), most, output)
    elif ledger is not None:
        _show_report(_read(ledger), most, output)


def run_recorded_report(
    folder: Path, config_file: Path | None, plugins: tuple[str, ...], most: int, output: str
) -> None:
    configuration = None
    if config_file is not None:
        configuration = read_configuration(config_file, out_of_tree_plugins(plugins))
    report = compare_recording(folder, configuration, **recorded_plugins(plugins))
    _show_report(report, most, output)


def _show_report(report: ShadowReport, most: int, output: str) -> None:
    """Print a report."""
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
    elif output == "html":
        click.echo(report_as_html(report, most), nl=False)
    else:
        click.echo(report_as_text(report, most), nl=False)


def _read(path: Path) -> ShadowReport:
    try:
        return msgspec.json.decode(read_bounded(path), type=ShadowReport)
    except OSError as error:
        raise ExplainError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ExplainError(f"{path}: no ledger of a shadow: {error}") from error
