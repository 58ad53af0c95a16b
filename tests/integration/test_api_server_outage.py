"""`kubesched run` and an API server that is killed and restarted: two processes, real sockets.

`KUBESCHED_OUTAGE_SECONDS` is the length of the outage; the default is 3.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec

from kubesched.api import ApiError, Lease, Node, Pod
from kubesched.foundation.client.http_api import HttpApi
from kubesched.testing import make_node, make_pod
from tests.integration.api_server_process import ServerProcess
from tests.integration.scheduler_cluster import KUBECONFIG

OUTAGE_S = float(os.environ.get("KUBESCHED_OUTAGE_SECONDS", "3"))
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: "{kubeconfig}", qps: 1000, burst: 1000}}
leaderElection: {election}
"""
NO_ELECTION = "{leaderElect: false}"
PATIENT = f"{{leaseDuration: {OUTAGE_S + 60}s, renewDeadline: {OUTAGE_S + 30}s, retryPeriod: 1s}}"
HASTY = "{leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}"
BATCH = 60


class ServerOutageHarness:
    def __init__(self, server: ServerProcess, api: HttpApi, folder: Path) -> None:
        self.server, self._api, self._folder = server, api, folder
        self._kubeconfig = folder / "kubeconfig"
        self._kubeconfig.write_text(KUBECONFIG.format(url=server.url))

    @contextlib.asynccontextmanager
    async def scheduler(self, election: str, *flags: str) -> AsyncIterator[Run]:
        config, log = self._folder / "config.yaml", self._folder / "log"
        config.write_text(CONFIGURATION.format(kubeconfig=self._kubeconfig, election=election))
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kubesched.cli.main", "run"),
                *(f"--config={config}", "--secure-port=0", *flags),
                stderr=stderr,
                env={**os.environ, "PYTHONWARNINGS": "error"},
                # What nohup starts ignores hanging up, and so would its children.
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
            )
        try:
            yield Run(process, log)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def create(self, made: Node | Pod) -> None:
        metadata = msgspec.structs.replace(made.metadata, resource_version="", uid="")
        await self._api.create(msgspec.structs.replace(made, metadata=metadata))

    async def create_pods(self, prefix: str, count: int = BATCH) -> None:
        made = [
            make_pod(f"{prefix}{n}", requests={"cpu": "1m"}, images=["i"]) for n in range(count)
        ]
        await asyncio.gather(*map(self.create, made))

    async def nodes_of_pods(self) -> dict[str, str]:
        pods = (await self._api.list(Pod)).items
        return {pod.metadata.name: pod.spec.node_name for pod in pods if pod.spec.node_name}

    async def until_bound(self, count: int) -> dict[str, str]:
        while True:
            placed = await self.nodes_of_pods()
            if len(placed) >= count:
                return placed
            await asyncio.sleep(0.05)

    async def until_led(self) -> Lease:
        while True:
            with contextlib.suppress(ApiError):
                lease = await self._api.get(Lease, "kube-scheduler", "kube-system")
                if lease.spec.holder_identity:
                    return lease
            await asyncio.sleep(0.05)


class Run:
    """A scheduler's process."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process, self._log = process, log

    def said(self) -> str:
        return self._log.read_text()

    async def until_said(self, text: str) -> None:
        while text not in self.said():
            assert self.process.returncode is None, self.said()
            await asyncio.sleep(0.05)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def ended(self, within_s: float = 30) -> int:
        async with asyncio.timeout(within_s):
            return await self.process.wait()


def run_steps(folder: Path, steps: Callable[[ServerOutageHarness], Awaitable[None]]) -> None:
    async def main() -> None:
        server = ServerProcess(folder)
        await server.start()
        try:
            async with server.client() as api, asyncio.timeout(120 + OUTAGE_S):
                harness = ServerOutageHarness(server, api, folder)
                for number in range(5):
                    await harness.create(make_node(f"n{number}", cpu="8", memory="8Gi"))
                await steps(harness)
        finally:
            await server.kill()

    asyncio.run(main())


async def survive(harness: ServerOutageHarness, run: Run) -> None:
    """Kill the server in the middle of bindings, start it again, and compare."""
    await harness.create_pods("a")
    placed = await harness.until_bound(BATCH)
    await harness.create_pods("b")
    await harness.server.kill()
    lines, cpu_s = run.said().count("\n"), run.cpu_s()
    await asyncio.sleep(OUTAGE_S)
    assert run.process.returncode is None, run.said()
    # It neither loops nor fills the disk: every pod and every informer retries with backoff.
    assert run.cpu_s() - cpu_s < 0.5 + OUTAGE_S / 4
    assert run.said().count("\n") - lines < 30 * BATCH
    await harness.server.start()
    before = await harness.nodes_of_pods()
    await harness.create_pods("c")
    after = await harness.until_bound(3 * BATCH)
    # A bound pod stays on its node, whether or not the client received the response.
    assert {name: after[name] for name in (placed | before)} == placed | before
    assert run.process.returncode is None, run.said()
    assert "Traceback" not in run.said()


def test_a_server_that_was_killed_is_followed_again(tmp_path: Path) -> None:
    async def steps(harness: ServerOutageHarness) -> None:
        async with harness.scheduler(NO_ELECTION) as run:
            await survive(harness, run)

    run_steps(tmp_path, steps)


def test_a_leader_with_a_patient_lease_leads_on_when_the_server_is_back(tmp_path: Path) -> None:
    async def steps(harness: ServerOutageHarness) -> None:
        async with harness.scheduler(PATIENT) as run:
            held = await harness.until_led()
            await survive(harness, run)
            lease = await harness.until_led()
            assert lease.spec.holder_identity == held.spec.holder_identity
            assert lease.spec.lease_transitions == 0

    run_steps(tmp_path, steps)


def test_a_leader_that_cannot_renew_ends_and_the_next_one_continues(tmp_path: Path) -> None:
    async def steps(harness: ServerOutageHarness) -> None:
        async with harness.scheduler(HASTY) as run:
            await harness.until_led()
            await harness.create_pods("a")
            placed = await harness.until_bound(BATCH)
            await harness.create_pods("b")
            await harness.server.kill()
            assert await run.ended() == 1
            assert '"Leaderelection lost"' in run.said()
        await harness.server.start()
        async with harness.scheduler(HASTY):
            after = await harness.until_bound(2 * BATCH)
            assert {name: after[name] for name in placed} == placed

    run_steps(tmp_path, steps)


def test_a_scheduler_that_is_killed_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    async def steps(harness: ServerOutageHarness) -> None:
        async with harness.scheduler(NO_ELECTION) as run:
            await harness.create_pods("a", 4 * BATCH)
            await harness.until_bound(BATCH)
            run.process.kill()
            await run.process.wait()
        placed = await harness.nodes_of_pods()
        async with harness.scheduler(NO_ELECTION):
            after = await harness.until_bound(4 * BATCH)
            assert {name: after[name] for name in placed} == placed

    run_steps(tmp_path, steps)


# Signals, with a server that does not answer: what would take long is cut short.


def test_the_second_of_two_signals_ends_it_at_once(tmp_path: Path) -> None:
    async def steps(harness: ServerOutageHarness) -> None:
        async with harness.scheduler("{}") as run:
            await harness.until_led()
            await run.until_said("Successfully acquired lease")
            harness.server.signal(signal.SIGSTOP)
            try:
                run.process.send_signal(signal.SIGTERM)
                await run.until_said("Failed to renew lease")
                await asyncio.sleep(0.2)
                assert run.process.returncode is None  # the lease is not released yet
                run.process.send_signal(signal.SIGINT)
                assert await run.ended(8) == 1
            finally:
                harness.server.signal(signal.SIGCONT)
            assert '"Requested to terminate, exiting"' not in run.said()
            assert "Traceback" not in run.said()

    run_steps(tmp_path, steps)


def test_one_signal_stops_the_process_without_a_responding_server(tmp_path: Path) -> None:
    async def steps(harness: ServerOutageHarness) -> None:
        async with harness.scheduler(HASTY) as run:
            await run.until_said("Successfully acquired lease")
            harness.server.signal(signal.SIGSTOP)
            try:
                run.process.send_signal(signal.SIGTERM)
                assert await run.ended(20) == 0
            finally:
                harness.server.signal(signal.SIGCONT)
            assert '"Failed to release lease"' in run.said()
            assert '"Requested to terminate, exiting"' in run.said()

    run_steps(tmp_path, steps)


def test_a_signal_during_startup_ends_the_process(tmp_path: Path) -> None:
    async def steps(harness: ServerOutageHarness) -> None:
        harness.server.signal(signal.SIGSTOP)
        try:
            async with harness.scheduler(HASTY, "-v=1") as run:
                await run.until_said("FLAG: --v=")  # the command line has been read
                run.process.send_signal(signal.SIGTERM)
                code = await run.ended(20)
        finally:
            harness.server.signal(signal.SIGCONT)
        assert code == 0, run.said()
        assert "Traceback" not in run.said()

    run_steps(tmp_path, steps)
