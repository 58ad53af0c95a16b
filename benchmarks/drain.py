"""How fast a scheduler binds a backlog of pods through an API server, over HTTP.

    python -m benchmarks.drain [--nodes 1000] [--pods 3000] [--kind basic] [--plot FILE]
    python -m benchmarks.drain --server URL --token T -- kube-scheduler --config {config}

Creates nodes and pods, starts the scheduler, and watches until every pod is bound. Prints one
JSON line for each kind: pods/s from first to last bind, the scheduler's CPU seconds per 1000 pods
until then and until their events have arrived as well, its peak memory, and how the pods are
spread. Without `--server` the embedded API server runs in a
process of its own; without a command the scheduler is `kubesched run`. In a command {config}
and {kubeconfig} stand for files made for this server, without leader election and client-side
throttling.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import click
import yaml

from benchmarks.charts import line_chart
from benchmarks.measuring import say, write_line
from benchmarks.workloads import KINDS, make_node, make_pod
from kubesched.api.codec import encode

_AT_ONCE = 24
_JSON = {"Content-Type": "application/json"}
_MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
_CHART_POINTS = 60
_EVENTS_S = 60
_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Target(NamedTuple):
    """The address of an API server, and credentials for it."""

    url: str
    token: str = ""


class Used(NamedTuple):
    """The resources that the scheduler used."""

    cpu_s: float
    """Until the last pod was bound."""
    memory_mib: int
    cpu_with_events_s: float | None = None
    """Until the server had an event for each pod; None if it never had them."""


class Binds:
    """Which pods are bound, since when, and what the scheduler had consumed at the first."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.nodes: dict[str, str] = {}
        self.at_s: list[float] = []
        self.cpu_at_first_s = 0.0

    def note(self, pod: dict[str, Any]) -> None:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if not node or name in self.nodes:
            return
        if not self.at_s:
            self.cpu_at_first_s = cpu_seconds(self._process.pid)
        self.at_s.append(time.perf_counter())
        self.nodes[name] = node


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S


def peak_memory_mib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


class Drain:
    """One run against one server."""

    def __init__(self, session: aiohttp.ClientSession, timeout_s: float) -> None:
        self._session = session
        self._timeout_s = timeout_s

    async def fill(self, nodes: int, pods: int, kind: str) -> str:
        """Create the missing objects; return the resource version after the last pod."""
        if await self._count("/api/v1/nodes") < nodes:
            await self._post_all("/api/v1/nodes", (encode(make_node(i)) for i in range(nodes)))
            await self._remove_taints()
        bodies = (encode(make_pod(i, kind)) for i in range(pods))
        await self._post_all("/api/v1/namespaces/default/pods", bodies)
        version: str = (await self._get("/api/v1/pods?limit=1"))["metadata"]["resourceVersion"]
        return version

    async def watch(self, version: str, pods: int, binds: Binds) -> None:
        """Until all are bound or the time is over."""
        path = f"/api/v1/pods?watch=true&resourceVersion={version}&allowWatchBookmarks=true"
        try:
            async with asyncio.timeout(self._timeout_s), self._session.get(path) as answer:
                rest = b""
                async for chunk in answer.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        if b'"nodeName"' in line:
                            binds.note(json.loads(line)["object"])
                    if len(binds.nodes) >= pods:
                        return
        except TimeoutError:
            say(f"only {len(binds.nodes)} of {pods} pods are bound after {self._timeout_s:g} s")

    async def until_events(self, count: int) -> bool:
        """Wait until the server has this many events. False after a minute."""
        try:
            async with asyncio.timeout(_EVENTS_S):
                while await self._count(_EVENTS) < count:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        except TimeoutError:
            return False
        return True

    async def clean_up(self) -> None:
        for path in (
            "/api/v1/namespaces/default/pods?gracePeriodSeconds=0",
            _EVENTS,
        ):
            async with self._session.delete(path) as answer:
                await answer.read()

    async def _remove_taints(self) -> None:
        """A real server may mark new nodes as not ready."""
        for node in (await self._get("/api/v1/nodes"))["items"]:
            if node.get("spec", {}).get("taints"):
                path, body = f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"taints": None}}
                async with self._session.patch(
                    path, data=json.dumps(body), headers=_MERGE_PATCH
                ) as answer:
                    answer.raise_for_status()

    async def _count(self, path: str) -> int:
        listed = await self._get(f"{path}?limit=1")
        return len(listed["items"]) + int(listed["metadata"].get("remainingItemCount", 0))

    async def _get(self, path: str) -> dict[str, Any]:
        async with self._session.get(path) as answer:
            answer.raise_for_status()
            document: dict[str, Any] = await answer.json()
            return document

    async def _post_all(self, path: str, bodies: Iterable[bytes]) -> None:
        left = iter(bodies)

        async def work() -> None:
            for body in left:
                async with self._session.post(path, data=body, headers=_JSON) as answer:
                    if answer.status not in (200, 201, 409):
                        raise click.ClickException(f"{path}: {await answer.text()}")

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[aiohttp.ClientSession]:
    headers = {"Authorization": f"Bearer {target.token}"} if target.token else {}
    # The certificate is not verified: the server belongs to the user of the benchmark.
    connector = aiohttp.TCPConnector(limit=0, ssl=False)
    async with aiohttp.ClientSession(
        target.url, headers=headers, connector=connector, timeout=aiohttp.ClientTimeout(None)
    ) as session:
        yield session


@contextmanager
def process(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    started = subprocess.Popen(command, **options)
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(10)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()


def write_files(target: Target, directory: Path) -> dict[str, str]:
    """A kubeconfig, and a scheduler configuration that uses it; returns their paths."""
    kubeconfig, config = directory / "kubeconfig.yaml", directory / "config.yaml"
    cluster: dict[str, Any] = {"server": target.url}
    if target.url.startswith("https"):
        cluster["insecure-skip-tls-verify"] = True
    documents = {
        kubeconfig: {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "drain", "cluster": cluster}],
            "users": [{"name": "drain", "user": {"token": target.token} if target.token else {}}],
            "contexts": [{"name": "drain", "context": {"cluster": "drain", "user": "drain"}}],
            "current-context": "drain",
        },
        config: {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
        },
    }
    for file, document in documents.items():
        file.write_text(yaml.safe_dump(document))
    return {"{config}": str(config), "{kubeconfig}": str(kubeconfig)}


def default_command() -> list[str]:
    program = [sys.executable, "-m", "kubesched.cli.main"]
    return [*program, "run", "--config", "{config}", "--secure-port", "0"]


async def measure(
    target: Target, nodes: int, pods: int, kind: str, command: Sequence[str], timeout_s: float
) -> tuple[dict[str, Any], list[float]]:
    """The result line, and when each pod was bound."""
    with tempfile.TemporaryDirectory() as folder:
        names = write_files(target, Path(folder))
        command = [names.get(word, word) for word in command]
        log = Path(folder) / "scheduler.log"
        async with connected(target) as session:
            drain = Drain(session, timeout_s)
            version = await drain.fill(nodes, pods, kind)
            say(f"{nodes:,} nodes and {pods:,} pods are there; starting the scheduler")
            started_s = time.perf_counter()
            with log.open("wb") as output, process(command, stdout=output, stderr=output) as runs:
                binds = Binds(runs)
                await drain.watch(version, pods, binds)
                if runs.poll() is not None:
                    text = log.read_text()[-2000:]
                    raise click.ClickException(f"the scheduler ended ({runs.returncode}): {text}")
                used = Used(cpu_seconds(runs.pid), peak_memory_mib(runs.pid))
                if await drain.until_events(pods):
                    used = used._replace(cpu_with_events_s=cpu_seconds(runs.pid))
            await drain.clean_up()
    line = {"benchmark": "drain", "kind": kind, "nodes": nodes, "pods": pods}
    return line | summary(binds, used, started_s), binds.at_s


def summary(binds: Binds, used: Used, started_s: float) -> dict[str, Any]:
    per_node = Counter(binds.nodes.values())
    bound = len(binds.nodes)
    seconds = binds.at_s[-1] - binds.at_s[0] if bound else 0.0
    cpu_s = used.cpu_s - binds.cpu_at_first_s
    with_events_s = (used.cpu_with_events_s or 0.0) - binds.cpu_at_first_s
    return {
        "bound": bound,
        "ready_s": round(binds.at_s[0] - started_s, 2) if bound else None,
        "pods_per_s": round((bound - 1) / seconds, 1) if seconds else 0.0,
        "cpu_s_per_1000": round(cpu_s / bound * 1000, 3) if bound else None,
        "cpu_s_per_1000_with_events": (
            round(with_events_s / bound * 1000, 3) if bound and used.cpu_with_events_s else None
        ),
        "cpu_total_s": round(used.cpu_s, 2),
        "peak_rss_mib": used.memory_mib,
        "nodes_used": len(per_node),
        "max_on_a_node": max(per_node.values(), default=0),
    }


def chart(line: dict[str, Any], bound_at_s: Sequence[float]) -> str:
    step = max(1, len(bound_at_s) // _CHART_POINTS)
    points = [
        (float(number), at_s - bound_at_s[0])
        for number, at_s in enumerate(bound_at_s, start=1)
        if number % step == 0 or number == len(bound_at_s)
    ]
    title = f"drain: {line['pods']:,} pods on {line['nodes']:,} nodes, {line['kind']}"
    return line_chart(title, "pods bound", "seconds", {line["kind"]: points})


def _chosen(_: object, __: object, text: str) -> Sequence[str]:
    """Return the kinds of an option's value."""
    kinds = KINDS if text == "all" else tuple(text.split(","))
    if unknown := set(kinds) - set(KINDS):
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not among {', '.join(KINDS)}")
    return kinds


@click.command(help=__doc__, context_settings={"ignore_unknown_options": True})
@click.option("--server", default="", help="Address of an API server. Default: the embedded one.")
@click.option("--token", default="", help="Bearer token for it.")
@click.option("--nodes", default=1000, show_default=True)
@click.option("--pods", default=3000, show_default=True)
@click.option(
    "--kind", default="basic", show_default=True, callback=_chosen, help="Several by comma, or all."
)
@click.option("--timeout", default=300.0, show_default=True, help="Seconds to wait for the pods.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Chart (SVG).")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def main(
    server: str,
    token: str,
    nodes: int,
    pods: int,
    kind: Sequence[str],
    timeout: float,
    plot: Path | None,
    command: tuple[str, ...],
) -> None:
    scheduler = command or default_command()
    is_complete = True
    for each in kind:
        line, times = _measure_kind(Target(server, token), nodes, pods, each, scheduler, timeout)
        write_line(line)
        if plot is not None and times:
            plot.write_text(chart(line, times))
        is_complete = is_complete and line["bound"] == pods
    sys.exit(not is_complete)


def _measure_kind(
    target: Target, nodes: int, pods: int, kind: str, scheduler: Sequence[str], timeout: float
) -> tuple[dict[str, Any], list[float]]:
    """Measure one kind of pods, on a server of its own if none is given."""
    if target.url:
        return asyncio.run(measure(target, nodes, pods, kind, scheduler, timeout))
    own = [sys.executable, "-m", "benchmarks.api_server"]
    with process(own, stdout=subprocess.PIPE) as api_server:
        assert api_server.stdout is not None
        target = Target(api_server.stdout.readline().decode().strip())
        line, times = asyncio.run(measure(target, nodes, pods, kind, scheduler, timeout))
        line["server_cpu_s"] = round(cpu_seconds(api_server.pid), 2)
    return line, times


if __name__ == "__main__":
    main()
