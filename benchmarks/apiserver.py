"""The number of writes and watch events per second of the embedded API server.

    python -m benchmarks.apiserver [--pods 2000] [--watchers 1,50] [--connections 16]

Prints a JSON line per transport and number of watchers: pods created, patched (a condition of
their status) and bound per second, and watch events delivered per second while that happened.
`process` calls the store in this process; `http` talks to a server in a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import click

from kubesched.api import Pod
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import RealClock

PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
Write = Callable[[int], Awaitable[None]]


def pod(number: int) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "128Mi"}
    container = {"name": "c", "image": "pause", "resources": {"requests": requests}}
    return {"metadata": {"name": f"p-{number}"}, "spec": {"containers": [container]}}


CONDITION = {
    "status": {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    }
}


class Events:
    """Counts the events that watchers receive."""

    def __init__(self) -> None:
        self.count = 0


class InProcess:
    name = "process"

    def __init__(self) -> None:
        self._api = LocalApi(Store(), RealClock())

    async def create(self, number: int) -> None:
        await self._api.create_document(Pod, "default", pod(number))

    async def patch(self, number: int) -> None:
        await self._api.patch(Pod, f"p-{number}", "default", CONDITION, subresource="status")

    async def bind(self, number: int) -> None:
        await self._api.bind("default", f"p-{number}", "", f"n-{number % 100}")

    async def watch(self, events: Events) -> None:
        async for _ in self._api.watch(Pod, resource_version=str(self._api.store.revision)):
            events.count += 1


class OverHttp:
    name = "http"

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self._client = client

    async def create(self, number: int) -> None:
        async with self._client.post(PODS, json=pod(number)) as answer:
            assert answer.status == 201, await answer.text()

    async def patch(self, number: int) -> None:
        path = f"{PODS}/p-{number}/status"
        body = json.dumps(CONDITION).encode()
        async with self._client.patch(path, data=body, headers=STRATEGIC) as answer:
            assert answer.status == 200, await answer.text()

    async def bind(self, number: int) -> None:
        target = {"target": {"kind": "Node", "name": f"n-{number % 100}"}}
        async with self._client.post(f"{PODS}/p-{number}/binding", json=target) as answer:
            assert answer.status == 201, await answer.text()

    async def watch(self, events: Events) -> None:
        async with self._client.get(f"{PODS}?watch=1", timeout=aiohttp.ClientTimeout()) as answer:
            async for piece in answer.content.iter_any():
                events.count += piece.count(b"\n")


async def measure(
    transport: InProcess | OverHttp, pods: int, watchers: int, connections: int
) -> dict[str, Any]:
    events = Events()
    watching = [asyncio.create_task(transport.watch(events)) for _ in range(watchers)]
    await asyncio.sleep(0.2)  # until all watches are open
    result: dict[str, Any] = {"transport": transport.name, "watchers": watchers, "pods": pods}
    started = time.perf_counter()
    writes: dict[str, Write] = {
        "creates": transport.create,
        "patches": transport.patch,
        "binds": transport.bind,
    }
    for name, write in writes.items():
        seconds = await timed(write, pods, connections)
        result[f"{name}_per_second"] = round(pods / seconds)
    while events.count < 3 * pods * watchers:  # noqa: ASYNC110  a counter has no event
        await asyncio.sleep(0.001)
    seconds = time.perf_counter() - started
    result["deliveries_per_second"] = round(events.count / seconds)
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    return result


async def timed(write: Write, pods: int, connections: int) -> float:
    async def worker(first: int) -> None:
        for number in range(first, pods, connections):
            await write(number)
            if number % 50 == 0:
                await asyncio.sleep(0)

    started = time.perf_counter()
    await asyncio.gather(*(worker(first) for first in range(connections)))
    return time.perf_counter() - started


@contextlib.asynccontextmanager
async def over_http() -> AsyncIterator[OverHttp]:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.api_server", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        url = (await server.stdout.readline()).decode().strip()
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(url, connector=connector) as client:
            yield OverHttp(client)
    finally:
        server.terminate()
        await server.wait()


async def run(pods: int, watchers: list[int], connections: int) -> None:
    for count in watchers:
        print(json.dumps(await measure(InProcess(), pods, count, connections)), flush=True)
    for count in watchers:
        async with over_http() as transport:
            print(json.dumps(await measure(transport, pods, count, connections)), flush=True)


@click.command(help=__doc__)
@click.option("--pods", default=2000, show_default=True)
@click.option("--watchers", default="1,50", show_default=True, help="Numbers, with commas.")
@click.option("--connections", default=16, show_default=True, help="Requests at a time.")
def main(pods: int, watchers: str, connections: int) -> None:
    asyncio.run(run(pods, [int(each) for each in watchers.split(",")], connections))


if __name__ == "__main__":
    main()
