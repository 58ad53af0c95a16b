"""Reloads the configuration of a scheduler process: a log line, metrics, and an event for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kubesched.api import Lease, ObjectMeta
from kubesched.foundation.client.event_recorder import Recorder, truncate_note
from kubesched.foundation.metrics.reload_metrics import ReloadMetrics
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.process.add_ons import ProcessInputs
from kubesched.scheduler.process.configuration_reloader import (
    ConfigurationReloader,
    LoadedConfiguration,
    ReloadOutcome,
)

__all__ = ["process_reloader"]

log = get_logger(__name__)


def process_reloader(
    inputs: ProcessInputs,
    apply: Callable[[KubeSchedulerConfiguration], Awaitable[bool]],
    recorder: Recorder,
    metrics: ReloadMetrics,
    clock: Clock,
) -> ConfigurationReloader | None:
    """Return the component that reloads the configuration file; None if there is no file."""
    config, load_again = inputs.config, inputs.load_again
    metrics.loaded(config.sha256, clock.now_ns())
    if load_again is None:
        return None

    def load() -> LoadedConfiguration:
        loaded = load_again()
        return LoadedConfiguration(loaded.configuration, loaded.sha256)

    path, election = config.options.config_file, config.configuration.leader_election
    # The lease identifies the scheduler, whether or not it elects leaders.
    lease = Lease(
        metadata=ObjectMeta(name=election.resource_name, namespace=election.resource_namespace)
    )
    return ConfigurationReloader(
        path,
        load,
        apply,
        _reporter(path, metrics, recorder, lease, clock),
        clock,
        sha256=config.sha256,
        watches=config.options.watch_config,
    )


def _reporter(
    path: str, metrics: ReloadMetrics, recorder: Recorder, lease: Lease, clock: Clock
) -> Callable[[ReloadOutcome], None]:
    def report(outcome: ReloadOutcome) -> None:
        metrics.count(outcome.result)
        if outcome.error is not None:
            log.error("Configuration was not reloaded", file=path, err=outcome.why)
            note = f"{path} cannot be used, the old configuration stays in use: {outcome.why}"
            recorder.event(lease, "Warning", "ConfigurationRejected", "Reload", truncate_note(note))
            return
        metrics.loaded(outcome.sha256, clock.now_ns())
        if outcome.result == "unchanged":
            log.info("Configuration is unchanged", file=path, sha256=outcome.sha256)
            return
        log.info("Configuration reloaded", file=path, sha256=outcome.sha256)
        note = f"{path} is in use, SHA-256 {outcome.sha256}"
        recorder.event(lease, "Normal", "ConfigurationReloaded", "Reload", note)

    return report
