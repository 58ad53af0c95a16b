"""A soak test of real processes under churn and faults: `python -m tests.soak --minutes 15`.

It runs an embedded API server with a data file, two `kubesched run` with leader election over TLS,
and users that create and delete objects. Faults are kill -9, SIGSTOP, a full disk, no free
descriptors, and rotated certificates. In the first third leaders and servers are killed. Later
they must survive the faults, and memory, descriptors and threads must level off. Samples go to
standard output as JSON lines, followed by a summary of each long-running process. The last line
and the exit code say whether all checks held.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from kubesched.api import Pod
from kubesched.errors import KubeschedError
from kubesched.foundation.client.http_api import HttpApi
from tests.soak.churn import Churn
from tests.soak.flatness import Sample, not_flat, rise
from tests.soak.harness import SoakHarness
from tests.soak.processes import Process
from tests.soak.troubles import HARD, SOFT

_SAMPLE_S = 5.0
_PAUSE_S = 12.0
_REST_S = 120.0
_MOST_LOGGED_BYTES_PER_MINUTE = 2_000_000
_LOST = b"Leaderelection lost"
# Memory bounds of a process whose tables are full. The change log of the server is limited to 500
# per kind, and events expire after a minute; the schedulers have their usual configuration.
_MOST_MIB = {"server": 300.0, "scheduler-0": 240.0, "scheduler-1": 240.0}
_PODS_PER_SECOND = 12.0


class Soak:
    """One run and its problems."""

    def __init__(self, harness: SoakHarness, minutes: float, rate: float) -> None:
        self._harness, self._seconds, self._rate = harness, minutes * 60, rate
        self._began = time.monotonic()
        self._stopping = asyncio.Event()
        self._is_over = False
        # Samples by process, number of starts, and whether it leads, which takes more memory.
        self._lives: defaultdict[tuple[str, int, bool], list[Sample]] = defaultdict(list)
        self._nodes_of_pods: dict[str, str] = {}
        self._bound: set[str] = set()
        self.problems: list[str] = []

    async def run(self) -> None:
        harness = self._harness
        keepers = []
        try:
            for process in harness.processes:
                await process.start()
                if process is harness.server:
                    await process.ready.wait()
                keepers.append(asyncio.create_task(self._keep_alive(process)))
            async with harness.client() as users, harness.client() as observer:
                churn = Churn(users, random.Random(1), rate=self._rate)
                await churn.furnish()
                looking = asyncio.create_task(self._look(observer, churn))
                churning = asyncio.create_task(churn.run(self._stopping))
                await self._trouble()
                self._stopping.set()
                await churning
                await self._come_to_rest(observer, churn)
                looking.cancel()
        finally:
            self._is_over = True
            for process in harness.processes:
                await process.end()
            await asyncio.gather(*keepers)
        self._check_results()

    @property
    def _second(self) -> float:
        return time.monotonic() - self._began

    async def _trouble(self) -> None:
        number = 0
        while self._second < self._seconds:
            await asyncio.sleep(_PAUSE_S)
            is_hard = self._second < self._seconds / 3
            troubles = HARD if is_hard else SOFT
            trouble = troubles[number % len(troubles)]
            number += 1
            write({"second": round(self._second), "trouble": trouble.__name__})
            await trouble(self._harness)

    async def _keep_alive(self, process: Process) -> None:
        while True:
            code = await process.wait()
            if self._is_over:
                return
            said = b"".join(list(process.last_lines)[-5:])
            if code != -9 and not (code == 1 and _LOST in said):
                text = said.decode(errors="replace")
                self.problems.append(f"{process.name} ended with {code}: {text}")
            write({"second": round(self._second), "ended": process.name, "code": code})
            await asyncio.sleep(1)
            await process.start()

    async def _look(self, api: HttpApi, churn: Churn) -> None:
        while True:
            line: dict[str, object] = {"second": round(self._second)}
            leader = self._harness.leader()
            for process in self._harness.processes:
                usage = process.usage()
                if usage is not None:
                    life = (process.name, process.starts, process is leader)
                    self._lives[life].append(Sample(self._second, usage))
                    line[process.name] = usage
            try:
                async with asyncio.timeout(_SAMPLE_S):
                    self._compare((await api.list(Pod)).items)
            except (KubeschedError, TimeoutError):
                line["server"] = "no answer"
            line |= {"leader": leader and leader.name, "created": churn.created}
            line |= {"bound": len(self._bound), "refused": churn.refused}
            write(line)
            await asyncio.sleep(_SAMPLE_S)

    def _compare(self, pods: list[Pod] | tuple[Pod, ...]) -> None:
        """Check that no pod changed its node."""
        there = {}
        for pod in pods:
            node = pod.spec.node_name
            before = self._nodes_of_pods.get(pod.metadata.uid, "")
            if before and node != before:
                self.problems.append(f"{pod.metadata.name} went from {before} to {node!r}")
            there[pod.metadata.uid] = node
            if node:
                self._bound.add(pod.metadata.uid)
        self._nodes_of_pods = there

    async def _come_to_rest(self, api: HttpApi, churn: Churn) -> None:
        """Wait without new faults until every pod that fits has a node."""
        await churn.finish()
        deadline = time.monotonic() + _REST_S
        waiting = [""]
        while waiting and time.monotonic() < deadline:
            await asyncio.sleep(2)
            pods = (await api.list(Pod)).items
            waiting = [pod.metadata.name for pod in pods if not pod.spec.node_name]
        if waiting:
            self.problems.append(f"{len(waiting)} pods wait for ever: {waiting[:5]}")
        if self._harness.leader() is None:
            self.problems.append("no replica leads")

    def _check_results(self) -> None:
        minutes = self._second / 60
        long_lives = {
            life: samples
            for life, samples in self._lives.items()
            if samples[-1].second - samples[0].second > self._seconds / 3
        }
        for (name, _, is_leading), samples in long_lives.items():
            self._tell(name, is_leading, samples)
            self.problems += [f"{name}: {each}" for each in not_flat(samples, _MOST_MIB[name])]
        for what, lived in (
            ("the server", any(name == "server" for name, _, _ in long_lives)),
            ("a leader", any(is_leading for _, _, is_leading in long_lives)),
        ):
            if not lived:
                self.problems.append(f"{what} did not live long enough to say whether it is flat")
        for process in self._harness.processes:
            self.problems += process.bad_lines
            if process.logged_bytes > _MOST_LOGGED_BYTES_PER_MINUTE * minutes:
                self.problems.append(f"{process.name} logged {process.logged_bytes} bytes")
        if len(self._bound) < self._seconds * self._rate / _PODS_PER_SECOND:
            self.problems.append(f"only {len(self._bound)} pods were bound")

    def _tell(self, name: str, is_leading: bool, samples: list[Sample]) -> None:
        """Print a summary of a process: memory at ten moments, and its slope at the end."""
        rss = [each.usage.rss_mib for each in samples]
        tenths = [rss[(len(rss) - 1) * number // 10] for number in range(11)]
        half = samples[len(samples) // 2 :]
        hours = max(half[-1].second - half[0].second, 1) / 3600
        slope = rise([each.usage.rss_mib for each in half]) / hours
        line = {"life": name, "leads": is_leading, "minutes": round(hours * 120, 1)}
        write({**line, "rss_mib": tenths, "slope_mib_per_hour": round(slope, 1)})


def write(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--rate", type=float, default=_PODS_PER_SECOND, help="pods a second")
    parser.add_argument("--logs", type=Path, help="keep the logs of the processes in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kubesched-soak-") as folder:
        soak = Soak(SoakHarness(Path(folder), options.logs), options.minutes, options.rate)
        asyncio.run(soak.run())
    for problem in soak.problems:
        print(problem)
    print(f"{options.minutes:g} minutes: " + ("did not hold" if soak.problems else "held"))
    sys.exit(1 if soak.problems else 0)


if __name__ == "__main__":
    main()
