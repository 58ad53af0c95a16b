"""The cost of the requests for a pod: its binding and its event, without a scheduler.

    python -m benchmarks.requests [--pods 5000] [--at-once 24]

The client of `kubesched run` writes to a server in the same process that parses nothing and always
sends the same response. `benchmarks.drain` measures a whole scheduler; the share of its requests
can be counted in instructions here, since no second process decides how many arrive at once.
"""

from __future__ import annotations

import asyncio
import random

import click
from prometheus_client import CollectorRegistry

from benchmarks.measuring import Spent, Stopwatch, rates, write_line
from kubesched.api.codec import encode
from kubesched.api.events import Event
from kubesched.api.meta import ObjectMeta
from kubesched.api.reference import ObjectReference
from kubesched.foundation.client.connections import Connection
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.http_transport import HttpTransport
from kubesched.foundation.metrics.client_metrics import ClientMetrics
from kubesched.foundation.util.clock import RealClock


def event_of(number: int) -> Event:
    """Make the event of a placed pod."""
    name = f"pod-{number:07d}"
    return Event(
        metadata=ObjectMeta(name=f"{name}.18a", namespace="default"),
        reason="Scheduled",
        action="Binding",
        type="Normal",
        note=f"Successfully assigned default/{name} to node-000001",
        regarding=ObjectReference(kind="Pod", name=name, namespace="default", uid=f"uid-{name}"),
        reporting_controller="default-scheduler",
        reporting_instance="default-scheduler-host",
    )


class _Responder(asyncio.Protocol):
    """Responds to each request when its end has arrived; requests are shorter than a packet."""

    def __init__(self, response: bytes) -> None:
        self._response = response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, _: bytes) -> None:
        self._transport.write(self._response)


def response(body: bytes) -> bytes:
    """Return a response with the header fields of an API server."""
    head = (
        "HTTP/1.1 201 Created",
        "Audit-Id: 8f2c1f0e-3f0a-4b57-9d5e-0b3c7c1b7a10",
        "Cache-Control: no-cache, private",
        "Content-Type: application/json",
        "X-Kubernetes-Pf-Flowschema-Uid: 3d0b6c3e-6a8e-4c5b-8f3a-2f1f1c0d9b11",
        "X-Kubernetes-Pf-Prioritylevel-Uid: 5e7f1a2b-0c9d-4e8f-a1b2-c3d4e5f60718",
        "Date: Thu, 19 Nov 2026 12:00:00 GMT",
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join([*head, "", ""]).encode() + body


async def send_all(pods: int, at_once: int) -> Spent:
    body = encode(event_of(0))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Responder(response(body)), "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    transport = HttpTransport(Connection(server=f"http://127.0.0.1:{port}"))
    metrics = ClientMetrics(CollectorRegistry())
    api = HttpApi(transport, RealClock(), random.Random(0), qps=0, metrics=metrics)
    left = iter(range(pods + at_once))

    async def work(most: int) -> None:
        for number, _ in zip(left, range(most), strict=False):
            await api.bind("default", f"pod-{number:07d}", f"uid-{number}", "node-000001")
            await api.create(event_of(number))

    await asyncio.gather(*(work(1) for _ in range(at_once)))  # opens the connections
    watch = Stopwatch()
    await asyncio.gather(*(work(pods) for _ in range(at_once)))
    spent = watch.spent()
    await transport.close()
    server.close()
    await server.wait_closed()
    return spent


@click.command(help=__doc__)
@click.option("--nodes", hidden=True, expose_value=False)  # `benchmarks.compare` passes it
@click.option("--pods", default=5000, show_default=True)
@click.option("--at-once", default=24, show_default=True)
def main(pods: int, at_once: int) -> None:
    spent = asyncio.run(send_all(pods, at_once))
    write_line({"benchmark": "requests", "pods": pods, "at_once": at_once, **rates(pods, spent)})


if __name__ == "__main__":
    main()
