"""A thread responds to probes on the usual port while the event loop is blocked."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import threading
from collections.abc import Callable

from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.loop_watchdog import LoopWatchdog
from kubesched.scheduler.server.serving.secure_server import SchedulerServer
from tests.scheduler.server.serving_harness import ServingHarness

ANY_CERTIFICATE = ssl.create_default_context()
ANY_CERTIFICATE.check_hostname = False
ANY_CERTIFICATE.verify_mode = ssl.CERT_NONE

Answer = tuple[int, str]


class Time:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def asked(port: int, path: str) -> Answer:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=ANY_CERTIFICATE, timeout=20)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def while_blocked(work: Callable[[int], None]) -> Answer:
    """Run a function in a thread while the loop is blocked.

    Return the response of /livez after that.
    """

    async def main() -> Answer:
        harness = ServingHarness(
            RealClock(), "--bind-address=127.0.0.1", "--secure-port=0", delegates=False
        )
        server = SchedulerServer(
            harness.options.secure_serving,
            harness.access,
            harness.pages,
            harness.metrics,
            harness.clock,
        )
        await server.start()
        time = Time()
        watchdog = LoopWatchdog(monotonic_s=time, while_stalled=server.answer_while)
        async with running(server, watchdog):
            port = server.port
            assert await asyncio.to_thread(asked, port, "/livez") == (200, "ok")
            thread = threading.Thread(target=work, args=(port,))
            thread.start()
            time.now_s += 10
            thread.join(30)  # the loop is blocked
            assert not thread.is_alive()
            watchdog.beat()
            return await asyncio.to_thread(asked, port, "/livez")

    return asyncio.run(main())


def test_probes_fail_while_it_lasts_and_no_longer() -> None:
    answers: dict[str, Answer] = {}

    def probe(port: int) -> None:
        for path in ("/livez", "/healthz?verbose", "/readyz", "/livez/ping", "/metrics", "/"):
            answers[path] = asked(port, path)

    assert while_blocked(probe) == (200, "ok")
    failed = "[-]event-loop failed: reason withheld\n{} check failed\n"
    assert answers["/livez"] == (500, failed.format("livez"))
    assert answers["/livez/ping"] == (500, failed.format("livez"))
    assert answers["/healthz?verbose"] == (500, failed.format("healthz"))
    assert answers["/readyz"] == (500, failed.format("readyz"))
    assert answers["/metrics"][0] == answers["/"][0] == 503


def test_clients_without_tls_or_any_bytes_do_not_end_it() -> None:
    answers: list[Answer] = []

    def knock(port: int) -> None:
        for text in (b"GET /livez HTTP/1.1\r\n\r\n", b"\x00" * 100, b""):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(text)
        answers.append(asked(port, "/livez"))

    assert while_blocked(knock) == (200, "ok")
    assert answers[0][0] == 500
