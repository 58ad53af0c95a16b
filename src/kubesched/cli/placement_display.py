"""Waits until a workload is placed, and shows the progress on standard error."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection, Mapping
from typing import Any, Final

import click

from kubesched.api import ApiError, Pod
from kubesched.api.batch import CronJob, Job
from kubesched.api.core import Event
from kubesched.cli.workload_progress import (
    OWNERS,
    Owner,
    WorkloadProgress,
    remarks,
    short_of_pods,
)
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock

__all__ = ["PlacementDisplay"]

_REFRESH_NS: Final = 100 * MILLISECOND
_PLAIN_REFRESH_NS: Final = 1 * SECOND
_MADE_WITHIN_NS: Final = 5 * SECOND  # for the pods of owners: the server may refuse some for ever
# Controllers retry, and a new cluster may at first refuse what it accepts a moment later.
_REFUSED_FOR_NS: Final = 2 * SECOND


class PlacementDisplay:
    """Shows how many pods of a workload are placed. A quiet display shows nothing."""

    def __init__(
        self,
        api: LocalApi,
        pods: SharedInformer[Pod],
        followed: WorkloadProgress,
        kinds: Collection[type[Any]],
        clock: Clock,
        *,
        is_quiet: bool = False,
    ) -> None:
        """Follow the pods of an informer; `kinds` are the kinds of the workload's objects."""
        self._api = api
        self._pods = pods
        self._followed = followed
        self._owner_kinds = [kind for kind in OWNERS if kind in kinds]
        self._cron_jobs = CronJob in kinds
        if self._cron_jobs and Job not in kinds:
            self._owner_kinds.append(Job)
        self._clock = clock
        self._is_quiet = is_quiet
        self._started_ns = clock.monotonic_ns()
        self._next_ns = self._started_ns
        self._is_live = sys.stderr.isatty()
        self._shown = ""
        self._refused: dict[str, str] = {}
        self._refused_since_ns: dict[str, int] = {}

    async def until_decided(self, interrupted: asyncio.Event, timeout_ns: int) -> Mapping[str, str]:
        """Wait until every pod is decided; return the undecided after the timeout, with reasons.

        After an interrupt nothing is returned.
        """
        waiting_since_ns = self._clock.monotonic_ns()
        while True:
            await self.show()
            pods, owners = self._pods.store.list(), await self._owners()
            await self._note_refusals(short_of_pods(owners, pods))
            undecided = self._followed.open(pods, owners, self._clock.now_ns(), self._refused)
            is_late = self._clock.monotonic_ns() - waiting_since_ns > timeout_ns
            if not undecided or is_late or interrupted.is_set():
                break
            await self._clock.wait(interrupted, timeout_ns=_REFRESH_NS // 2)
        await self.show(at_once=True)
        if self._is_live and self._shown:
            click.echo(err=True)
        return {} if interrupted.is_set() else undecided

    async def until_created(self, interrupted: asyncio.Event, expected: int) -> None:
        """Wait until `expected` pods exist, at most five seconds."""
        since_ns = self._clock.monotonic_ns()
        while (
            len(self._pods.store.list()) < expected
            and self._clock.monotonic_ns() - since_ns < _MADE_WITHIN_NS
            and not await self._clock.wait(interrupted, timeout_ns=_REFRESH_NS // 10)
        ):
            await self.show()

    async def show(self, *, at_once: bool = False) -> None:
        """Write the progress, unless it is unchanged or was written a moment ago."""
        now_ns = self._clock.monotonic_ns()
        if self._is_quiet or (not at_once and now_ns < self._next_ns):
            return
        self._next_ns = now_ns + (_REFRESH_NS if self._is_live else _PLAIN_REFRESH_NS)
        pods = self._pods.store.list()
        total = self._followed.total(pods, await self._owners(), self._refused)
        bound = sum(1 for pod in pods if pod.spec.node_name)
        active = sum(1 for pod in pods if pod.status.phase == "Running")
        finished = sum(1 for pod in pods if pod.status.phase == "Succeeded")
        line = f"{bound}/{total} pods placed, {active} running, {finished} finished"
        if line == self._shown:
            return
        self._shown = line
        seconds = (now_ns - self._started_ns) / SECOND
        text = f"{seconds:6.1f} s  {line}"
        if self._is_live:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
        else:
            click.echo(text, err=True)

    async def remarks(self) -> dict[str, str]:
        """Return the owners whose pods are created later or never, with reasons."""
        owners: list[Owner | CronJob] = [*await self._owners()]
        if self._cron_jobs:
            owners += (await self._api.list(CronJob)).items
        return remarks(self._pods.store.list(), owners, self._refused, self._clock.now_ns())

    async def _owners(self) -> list[Owner]:
        return [each for kind in self._owner_kinds for each in (await self._api.list(kind)).items]

    async def _note_refusals(self, owners: Collection[Owner]) -> None:
        """Note the owners whose pods the server has refused for some time."""
        now_ns = self._clock.monotonic_ns()
        found = {}
        for owner in owners:
            if why := await self._refusal(owner):
                found[owner.metadata.uid] = why
        since_ns = {uid: self._refused_since_ns.get(uid, now_ns) for uid in found}
        self._refused_since_ns = since_ns
        self._refused = {
            uid: why for uid, why in found.items() if now_ns - since_ns[uid] >= _REFUSED_FOR_NS
        }

    async def _refusal(self, owner: Owner) -> str:
        """Return the server's refusal of an owner's pods; empty if there is none."""
        metadata = owner.metadata
        try:
            document = self._api.document(type(owner), metadata.name, metadata.namespace)
        except ApiError:  # it was deleted in the meantime
            return ""
        for condition in document.get("status", {}).get("conditions", ()):
            if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
                return str(condition.get("message", ""))
        events = await self._api.list(
            Event, metadata.namespace, field_selector=f"involvedObject.uid={metadata.uid}"
        )
        refusals = [each.message for each in events.items if each.reason == "FailedCreate"]
        return refusals[-1] if refusals else ""
