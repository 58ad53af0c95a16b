"""An extender that answers late, wrongly or not at all while faults are injected.

It manages a resource. It accepts a node for a pod if both have even numbers, or both odd ones.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from kubesched.foundation.util.clock import SECOND
from kubesched.scheduler.config.types import ExtenderConfig, ExtenderManagedResource
from kubesched.testing.fakes.fake_extender import FakeExtender, Reply
from tests.fault_injection.generated_objects import FOO

__all__ = ["SLOW_ANSWER", "FaultyExtender", "is_accepted"]

Json = dict[str, Any]
# The annotation of a pod whose Filter call takes two seconds, with or without faults.
SLOW_ANSWER = "example.com/pondered"


def is_accepted(pod: str, node: str) -> bool:
    return int(pod[1:]) % 2 == int(node[1:]) % 2


class FaultyExtender(FakeExtender):
    def __init__(self, seed: int, is_injecting: Callable[[], bool]) -> None:
        super().__init__(
            filter=self._filter, prioritize=self._prioritize, preempt=self._show_victims
        )
        self._rng = random.Random(f"extender/{seed}")
        self._is_injecting = is_injecting

    def extender_settings(self) -> ExtenderConfig:
        return self.settings(
            managed_resources=(ExtenderManagedResource(name=FOO, ignored_by_scheduler=True),),
            node_cache_capable=True,
            http_timeout_ns=5 * SECOND,
        )

    async def _inject_fault(self) -> Reply | None:
        if not self._is_injecting():
            return None
        await asyncio.sleep(self._rng.choice([0, 0.001, 0.05, 0.5, 0.5, 3, 100]))
        return self._rng.choice([None, None, None, None, Reply(500), Reply(200, b"{")])

    async def _filter(self, arguments: Json) -> Any:
        if (trouble := await self._inject_fault()) is not None:
            return trouble
        if SLOW_ANSWER in arguments["Pod"]["metadata"].get("annotations", ()):
            await asyncio.sleep(2)
        pod = arguments["Pod"]["metadata"]["name"]
        names = arguments["NodeNames"]
        return {
            "NodeNames": [name for name in names if is_accepted(pod, name)],
            "FailedNodes": {name: "rejected" for name in names if not is_accepted(pod, name)},
        }

    async def _prioritize(self, arguments: Json) -> Any:
        if (trouble := await self._inject_fault()) is not None:
            return trouble
        return [{"Host": name, "Score": int(name[1:]) % 11} for name in arguments["NodeNames"]]

    async def _show_victims(self, arguments: Json) -> Any:
        if (trouble := await self._inject_fault()) is not None:
            return trouble
        pod = arguments["Pod"]["metadata"]["name"]
        by_node = arguments["NodeNameToMetaVictims"]
        kept = {name: victims for name, victims in by_node.items() if is_accepted(pod, name)}
        return {"NodeNameToMetaVictims": kept}
