"""The part of `kubesched run --shadow` that compares: a watch, its ledger and its page."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kubesched.api.access import ApiAccess
from kubesched.dashboard.page_sources import dashboard_of_shadow
from kubesched.explain.shadow.shadow_watch import ShadowWatch
from kubesched.foundation.http.http_messages import Handler
from kubesched.foundation.util.clock import Clock
from kubesched.scheduler.all_plugins import complete_registry
from kubesched.scheduler.process.add_ons import ProcessInputs

__all__ = ["ShadowPart"]


class ShadowPart:
    """A component of the process, built from its flags and configuration."""

    def __init__(
        self,
        api: ApiAccess,
        inputs: ProcessInputs,
        clock: Clock,
        seed: int,
        count: Callable[[str, str, str], object],
    ) -> None:
        config = inputs.config
        self._clock, self._inputs = clock, inputs
        self._watch = ShadowWatch(
            api,
            clock,
            config.configuration,
            complete_registry(inputs.plugins),
            gates=config.gates,
            window_ns=config.options.shadow_window_ns,
            seed=seed,
            stream_lists=config.gates.enabled("WatchListClient"),
            share_parts=True,
            on_entry=lambda entry: count(entry.profile, entry.verdict, entry.state),
        )
        self.synced = self._watch.synced
        self.run = self._watch.run
        self.stop = self._watch.stop

    @property
    def buffered_changes(self) -> int:
        return self._watch.replay.buffered_changes

    def report(self) -> bytes:
        return msgspec.json.encode(self._watch.report())

    def dashboard(self, title: str) -> Handler:
        config = self._inputs.config
        page = dashboard_of_shadow(
            self._watch,
            self._clock,
            title=title,
            configuration=config.configuration,
            plugins=self._inputs.plugins,
            gates=config.gates,
        )
        return page.answer
