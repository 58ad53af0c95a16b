"""The load and the referee on an embedded cluster, in virtual time; and a real control plane."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import pytest

from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.scheduler import Scheduler
from tests.live.__main__ import LiveRun
from tests.live.control_plane import missing_programs
from tests.live.load import Load
from tests.live.referee import Referee


def test_the_soak_load_settles_and_uses_volumes_and_devices() -> None:
    referee, faults = Referee(), 0

    async def main() -> tuple[list[str], int, int]:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, derive(0, "store"), heartbeats=False)
        scheduler = Scheduler(cluster.api, clock)
        load = Load(cluster.api, random.Random(1), referee)

        async def inject() -> None:
            nonlocal faults
            faults += 1

        async with cluster, running(*cluster.parts, scheduler):
            waiting = await load.run(20, inject, 60)
        return waiting, load.with_volume, load.with_device

    waiting, with_volume, with_device = run(main)
    assert waiting == []
    assert referee.violations == []
    assert min(with_volume, with_device) > 20
    assert len(referee.bound) > 100
    assert faults == 2


@pytest.mark.skipif(bool(missing_programs()), reason=f"not on the path: {missing_programs()}")
def test_a_real_control_plane(tmp_path: Path) -> None:
    scheduler = [sys.executable, "-m", "kubesched.cli.main", "run"]
    assert asyncio.run(LiveRun(tmp_path, scheduler, seed=1, minutes=1).run()) == []
