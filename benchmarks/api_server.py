"""The embedded API server in a process of its own, for benchmarks that go over HTTP.

    python -m benchmarks.api_server [--port 0] [--nodes 5000 --running-pods 50000]

Prints its address once it listens, and serves until it is terminated. Plain HTTP, no tokens. The
nodes and the pods on them are those of `benchmarks.wire_cluster`, with all that kubelets write.
"""

from __future__ import annotations

import asyncio
import signal

import click

from benchmarks.wire_cluster import node_json, pod_json
from kubesched.api import Node, Pod
from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.randomness import derive

_WORKLOADS = 200


def fill(store: Store, nodes: int, running_pods: int, now_ns: int) -> None:
    """Store nodes, and running pods in the order of their workloads."""
    resource = store.catalog.by_type(Node)
    for number in range(nodes):
        store.load(resource, node_json(number), now_ns)
    resource = store.catalog.by_type(Pod)
    for number in range(running_pods):
        workload = number * _WORKLOADS // running_pods
        store.load(resource, pod_json(number, f"node-{number % nodes:06d}", workload), now_ns)


async def serve(port: int, nodes: int, running_pods: int) -> None:
    clock = RealClock()
    store = Store(derive(0, "store"), now_ns=clock.now_ns())
    fill(store, nodes, running_pods, clock.now_ns())
    service = ApiService(store, clock)
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with ApiServer(service, port=port) as server:
        click.echo(server.url)
        await stopping.wait()


@click.command(help=__doc__)
@click.option("--port", default=0, show_default=True, help="0 takes a free one.")
@click.option("--nodes", default=0, show_default=True)
@click.option("--running-pods", default=0, show_default=True)
def main(port: int, nodes: int, running_pods: int) -> None:
    asyncio.run(serve(port, nodes, running_pods))


if __name__ == "__main__":
    main()
