"""`kubesched run --shadow`: a process that watches the decisions of another scheduler.

It writes nothing. It has the clients, endpoints and metrics of a scheduler process, but no lease,
no events and no scheduling loop. The add-ons provide the component that compares decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

import kubesched
from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.metrics.instruments import FamilyGroup
from kubesched.foundation.metrics.shadow_metrics import ShadowMetrics
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.logging import get_logger
from kubesched.foundation.util.whole_file import write_whole
from kubesched.scheduler.config.versions import KUBERNETES_VERSION
from kubesched.scheduler.process.add_ons import ProcessAddOns, ProcessInputs, Shadow
from kubesched.scheduler.process.scheduler_process import SchedulerProcess
from kubesched.scheduler.server.serving.secure_server import Pages

__all__ = ["ShadowProcess", "build_process"]

log = get_logger(__name__)

_LEDGER_PERIOD_NS = 60 * SECOND


def build_process(
    inputs: ProcessInputs,
    clock: Clock,
    seed: int,
    hostname: str,
    on_synced: Callable[[], None] = lambda: None,
    add_ons: ProcessAddOns | None = None,
) -> SchedulerProcess:
    """Build the process that the flags describe: a scheduler, or a shadow.

    Raises:
        ConfigError: there is no way to an API server with this configuration.
    """
    kind = ShadowProcess if inputs.config.options.shadow else SchedulerProcess
    return kind(inputs, clock, seed, hostname, on_synced, add_ons)


class ShadowProcess(SchedulerProcess):
    """A scheduler process that only compares."""

    def __init__(
        self,
        inputs: ProcessInputs,
        clock: Clock,
        seed: int,
        hostname: str,
        on_synced: Callable[[], None] = lambda: None,
        add_ons: ProcessAddOns | None = None,
    ) -> None:
        """Arguments are those of `SchedulerProcess`.

        Raises:
            ConfigError: shadow mode cannot compare with this configuration.
        """
        super().__init__(inputs, clock, seed, hostname, on_synced, add_ons)
        if add_ons is None:
            raise ConfigError("--shadow: this process is built without the parts that compare")
        if inputs.config.options.record:
            raise ConfigError("--record: a shadow makes no decisions to record; omit the flag")
        if inputs.config.configuration.extenders:
            raise ConfigError("extenders: shadow mode calls no extenders; remove them")
        self._shadow_metrics = ShadowMetrics(self._registry)
        self._explanations = None
        self._shadow_add_ons = add_ons
        self._shadow: Shadow | None = None

    async def _run(self) -> int:
        server = await self._build_server()
        shadow = self._shadow = self._shadow_add_ons.shadow(
            self._clients.client("shadow"),
            self._inputs,
            self._clock,
            self._seed,
            lambda *labels: self._shadow_metrics.decisions_total.labels(*labels).inc(),
        )
        if self._config.options.dashboard:
            self._dashboard = shadow.dashboard(f"shadow on {self._hostname}")
        self._shadow_metrics.before_collect.append(
            lambda: self._shadow_metrics.held_back.set(shadow.buffered_changes)
        )
        log.info(
            "Starting to compare, nothing is written",
            version=KUBERNETES_VERSION,
            kubesched=f"v{kubesched.__version__}",
        )
        async with running(*self._supporting_parts(server), shadow):
            await self._first(shadow.synced)
            self._note_synced()
            self._write_ledger()
            while not await self._clock.wait(self._stopping, _LEDGER_PERIOD_NS):
                self._write_ledger()
        self._write_ledger()
        log.info("Requested to terminate, exiting")
        return 0

    def _write_ledger(self) -> None:
        path = self._config.options.shadow_ledger
        if not path or self._shadow is None or not self._shadow.synced.is_set():
            return
        try:
            write_whole(Path(path), self._shadow.report())
        except OSError as error:
            log.error("The ledger cannot be written", file=path, err=error.strerror)

    def _metric_groups(self) -> tuple[FamilyGroup, ...]:
        return (*super()._metric_groups(), self._shadow_metrics)

    def _pages(self) -> Pages:
        return replace(super()._pages(), shadow=self._report)

    def _report(self) -> bytes:
        if self._shadow is None or not self._shadow.synced.is_set():
            raise KubeschedError("the caches have not synced yet")
        return self._shadow.report()
