"""Groups when requests of the scheduler fail: none stays in Permit, all are placed in the end."""

from __future__ import annotations

import asyncio
import random

import pytest

from kubesched.api import ApiError, Status
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.contrib.coscheduling.group_spec import GROUP_LABEL, POD_GROUPS
from kubesched.contrib.coscheduling.plugin import Coscheduling
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.scheduler import Scheduler
from tests.contrib.coscheduling.test_coscheduling_scenarios import PROFILE
from tests.contrib.harness import ContribHarness

_UNAVAILABLE = ApiError(Status(status="Failure", code=503, message="no leader"))
_SECONDS = 60


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_placed_although_requests_fail(seed: int) -> None:
    """Bindings and status patches fail or lose their answer for a minute, then all succeed."""
    rng = random.Random(seed)

    async def main() -> tuple[dict[str, int], list[str], list[str]]:
        harness = ContribHarness(PROFILE, [Coscheduling], ["podgroups.yaml"], seed)
        await harness.prepare()
        for number in range(4):
            await harness.node(f"n{number}")
        began_ns = harness.clock.now_ns()

        def fail(verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
            is_over = harness.clock.now_ns() - began_ns > _SECONDS * 10**9
            if is_over or verb not in ("bind", "patch") or rng.random() < 0.5:
                return None
            delay_ns = rng.randint(0, 3 * 10**9)
            return Fault(delay_ns, rng.choice([None, _UNAVAILABLE]), rng.random() < 0.3)

        api = LocalApi(harness.api.store, harness.clock, faults=fail)
        scheduler = Scheduler(
            api,
            harness.clock,
            profiles=[{"schedulerName": "default-scheduler", **PROFILE}],
            out_of_tree_registry={"Coscheduling": Coscheduling},
            seed=seed,
        )
        # The scheduler of the harness has another name, and leaves these pods alone.
        running = asyncio.create_task(scheduler.run(), name="scheduler")
        async with harness.live.cluster:
            parts = [
                asyncio.create_task(part.run(), name=type(part).__name__)
                for part in harness.live.cluster.parts
            ]
            for name in ("a", "b", "c"):
                await harness.custom(POD_GROUPS, name, {"minMember": 5})
                for number in range(5):
                    await harness.pod(f"{name}-{number}", labels={GROUP_LABEL: name})
            await asyncio.sleep(_SECONDS + 400)
            sizes = await harness.placed_by(lambda pod: pod.metadata.labels[GROUP_LABEL])
            waiting = [entry.pod.metadata.name for entry in scheduler.services.waiting_pods]
            phases = [
                str((await harness.status(POD_GROUPS, name)).get("phase")) for name in sorted(sizes)
            ]
            scheduler.stop()
            await running
            for part in harness.live.cluster.parts:
                part.stop()
            await asyncio.gather(*parts)
        return dict(sizes), waiting, phases

    sizes, waiting, phases = run(main)
    assert sizes == {"a": 5, "b": 5, "c": 5}
    assert waiting == []
    assert phases == ["Running"] * 3
