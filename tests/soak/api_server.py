"""The API server of a soak test: the embedded cluster behind TLS with client certificates.

`python -m tests.soak.api_server FOLDER PORT` stores its objects in FOLDER and prints `ready`. On
SIGHUP it reads its certificate and its authorities again, as a server does on rotation.
"""

from __future__ import annotations

import asyncio
import random
import signal
import ssl
import sys
from pathlib import Path

from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.users import ADMIN, Users
from kubesched.cluster.controllers import garbage_collection
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import MINUTE, RealClock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.memory_trimmer import MemoryTrimmer

TOKEN = "soak"


async def serve(folder: Path, port: int) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED

    def read_certificates() -> None:
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        context.load_verify_locations(folder / "authorities.pem")

    read_certificates()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, read_certificates)
    clock = RealClock()
    cluster = EmbeddedCluster(
        # Events that expire after an hour would still grow when most soak tests end.
        clock,
        random.Random(0),
        data=folder / "cluster.db",
        events_last_ns=MINUTE,
    )
    # The logs of changes and of deletions take up to an hour to fill, and memory rises until then.
    for collection in cluster.store._collections.values():
        collection._history = 500
    garbage_collection._REMEMBERED = 1_000
    service = ApiService(cluster.store, clock, users=Users({TOKEN: ADMIN}))
    parts = (MemoryTrimmer(clock), *cluster.parts)
    async with cluster, ApiServer(service, port=port, tls=context), running(*parts):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
