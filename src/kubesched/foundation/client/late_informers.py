"""Runs informers that are made while others run, for plugins that a reload adds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util.clock import SECOND

__all__ = ["LateInformers"]


class LateInformers:
    """A component that runs the informers it is given, until it is stopped."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._adopted: set[SharedInformer[Any]] = set()
        # In the order in which they were started.
        self._informers: dict[SharedInformer[Any], None] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            await self._stopping.wait()
            self._group = None
            for informer in self._informers:
                informer.stop()

    def adopt(self, informers: Iterable[SharedInformer[Any]]) -> None:
        """Note that another component runs these informers."""
        self._adopted.update(informers)

    def stop(self) -> None:
        self._stopping.set()

    def is_late(self, informer: SharedInformer[Any]) -> bool:
        """Whether no other component runs the informer."""
        return informer not in self._adopted

    async def start(self, informers: Iterable[SharedInformer[Any]], timeout_ns: int) -> bool:
        """Run the informers that do not run yet; return whether all synced in time.

        Those that did not sync continue to try, because shared state of plugins may depend on them.
        """
        assert self._group is not None, "informers start while the component runs"
        for informer in informers:
            if informer not in self._informers:
                self._informers[informer] = None
                self._group.create_task(informer.run(), name=f"informer: {informer.kind.__name__}")
        try:
            async with asyncio.timeout(timeout_ns / SECOND):
                for informer in informers:
                    await informer.wait_for_sync()
        except TimeoutError:
            return False
        return True
