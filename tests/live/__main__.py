"""Schedulers on a real control plane, with faults: `python -m tests.live --minutes 10 --seed 7`.

It needs etcd, kube-apiserver, kube-controller-manager and openssl on the path, but no running
cluster. Users create and delete pods, some with a volume or a device. Meanwhile leaders are killed
or stopped for longer than a lease, and the API server and the controllers are killed. At the end
every pod must be bound. The referee (`tests/live/referee.py`) checks watches and the audit
log. `--scheduler kube-scheduler` checks that program instead. The last line is `held` or `did not
hold`, and the command exits with 1 in the second case; with 2 if a program is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
from pathlib import Path

from tests.live.control_plane import ControlPlane, missing_programs
from tests.live.load import Load
from tests.live.referee import Referee
from tests.soak.processes import Process

__all__ = ["LiveRun"]

_CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: "{kubeconfig}", qps: 500, burst: 1000}}
leaderElection: {{leaderElect: true, leaseDuration: 15s, renewDeadline: 10s, retryPeriod: 2s}}
"""
_REPLICAS = 2
_REST_S = 180


class LiveRun:
    """One run: a control plane, two replicas, users and faults."""

    def __init__(self, folder: Path, scheduler: list[str], seed: int, minutes: float) -> None:
        self._rng = random.Random(seed)
        self._seconds = minutes * 60
        self.plane = ControlPlane(folder)
        self.referee = Referee()
        self.faults: dict[str, int] = {}
        self._is_over = False
        self.replicas = [
            self._replica(folder, scheduler, f"replica-{number}") for number in range(_REPLICAS)
        ]

    def _replica(self, folder: Path, scheduler: list[str], name: str) -> Process:
        configuration = folder / f"{name}.yaml"
        kubeconfig = self.plane.kubeconfig(name)
        configuration.write_text(_CONFIGURATION.format(kubeconfig=kubeconfig))
        own = (f"--config={configuration}", "--secure-port=0")
        return Process(name, [*scheduler, *own])

    async def run(self) -> list[str]:
        """Run it, and return the violations."""
        api = self.plane.connect("users")
        keepers: list[asyncio.Task[None]] = []
        try:
            await self.plane.start()
            for replica in self.replicas:
                await replica.start()
            kept = (*self.replicas, self.plane.api_server, self.plane.controllers)
            keepers += [asyncio.create_task(self._keep_alive(each)) for each in kept]
            load = Load(api, self._rng, self.referee)
            waiting = await load.run(self._seconds, self._inject, _REST_S)
        finally:
            self._is_over = True
            for process in self.replicas:
                await process.end()
            for keeper in keepers:
                keeper.cancel()
            await asyncio.gather(*keepers, return_exceptions=True)
            await api.close()
            await self.plane.stop()
        names = frozenset(each.name for each in self.replicas)
        self.referee.audit(self.plane.audit_events(), names)
        found = list(self.referee.violations)
        if waiting:
            found.append(f"{len(waiting)} pods wait for ever: {waiting[:5]}")
        if not self.referee.writes:
            found.append("the audit log has no write of a scheduler")
        return found

    async def _keep_alive(self, process: Process) -> None:
        while not self._is_over:
            await process.wait()
            await asyncio.sleep(1)
            if not self._is_over:
                await process.start()

    async def _inject(self) -> None:
        """Cause one fault. A leader is chosen in most cases: it has more to lose."""
        what = self._rng.choices(
            ("kill", "stop", "kill server", "kill controllers"), weights=(6, 2, 1, 1)
        )[0]
        self.faults[what] = self.faults.get(what, 0) + 1
        leaders = [each for each in self.replicas if each.is_alive and each.led_since_s]
        replica = self._rng.choice(leaders or self.replicas)
        if what == "kill":
            replica.signal(signal.SIGKILL)
        elif what == "stop":
            replica.signal(signal.SIGSTOP)
            await asyncio.sleep(self._rng.choice([12, 20, 35]))
            replica.signal(signal.SIGCONT)
        elif what == "kill server":
            self.plane.api_server.signal(signal.SIGKILL)
        else:
            self.plane.controllers.signal(signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.live",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--scheduler",
        default=f"{sys.executable} -m kubesched.cli.main run",
        help="the scheduler command to run; --config and --secure-port are added",
    )
    options = parser.parse_args()
    if missing := missing_programs():
        print(f"not on the path: {', '.join(missing)}", file=sys.stderr)
        sys.exit(2)
    with tempfile.TemporaryDirectory(prefix="kubesched-live-") as folder:
        run = LiveRun(Path(folder), options.scheduler.split(), options.seed, options.minutes)
        problems = asyncio.run(run.run())
    for problem in problems:
        print(problem)
    referee = run.referee
    print(f"faults: {run.faults}")
    print(
        f"{len(referee.bound)} pods bound, {referee.writes} writes, "
        f"{referee.stray_writes} while another replica held the lease"
    )
    print("did not hold" if problems else "held")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
