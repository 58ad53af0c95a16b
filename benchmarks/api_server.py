"""The embedded API server in a process of its own, for benchmarks that go over HTTP.

    python -m benchmarks.api_server [--port 0]

Prints its address once it listens, and serves until it is terminated. Plain HTTP, no tokens.
"""

from __future__ import annotations

import asyncio
import signal

import click

from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.randomness import derive


async def serve(port: int) -> None:
    clock = RealClock()
    service = ApiService(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with ApiServer(service, port=port) as server:
        click.echo(server.url)
        await stopping.wait()


@click.command(help=__doc__)
@click.option("--port", default=0, show_default=True, help="0 takes a free one.")
def main(port: int) -> None:
    asyncio.run(serve(port))


if __name__ == "__main__":
    main()
