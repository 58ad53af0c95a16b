"""One extender over a transport: the requests, and the decoding of the responses."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from kubesched.foundation.client.extender_client import ExtenderClient, ExtenderError
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse, TransportError
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock

URL = "http://extender.example:8080/scheduler"


class OneAnswer:
    """A transport that always does the same."""

    host = "extender.example:8080"
    base_url = URL

    def __init__(self, does: ServerResponse | TransportError | None) -> None:
        self._does = does
        self.requests: list[OutgoingRequest] = []
        self.is_closed = False

    async def send(self, request: OutgoingRequest) -> ServerResponse:
        self.requests.append(request)
        if self._does is None:
            await asyncio.Event().wait()
        if isinstance(self._does, TransportError):
            raise self._does
        assert self._does is not None
        return self._does

    def stream(self, request: OutgoingRequest) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        self.is_closed = True


def post(transport: OneAnswer, prefix: str = URL, timeout_ns: int = SECOND) -> Any:
    return virtual_loop.run(ExtenderClient(prefix, transport, timeout_ns).post("filter", b"{}"))


def test_a_verb_is_posted_as_json_with_its_timeout() -> None:
    transport = OneAnswer(ServerResponse(200, b'{"a":1}'))
    assert post(transport) == b'{"a":1}'
    [request] = transport.requests
    assert (request.method, request.target, request.body) == ("POST", "/filter", b"{}")
    assert request.content_type == "application/json"
    assert request.timeout_ns == SECOND


class Failure(NamedTuple):
    does: ServerResponse | TransportError
    text: str
    prefix: str = URL


FAILURES = {
    "a status that is no success": Failure(
        ServerResponse(500, b"oops"), f"failed filter with extender at URL {URL}/filter, code 500"
    ),
    "slashes at the end of the prefix do not count": Failure(
        ServerResponse(404, b""),
        f"failed filter with extender at URL {URL}/filter, code 404",
        f"{URL}///",
    ),
    "another success is none": Failure(
        ServerResponse(204, b""), f"failed filter with extender at URL {URL}/filter, code 204"
    ),
    "no body": Failure(ServerResponse(200, b""), "EOF"),
    "a body of blanks": Failure(ServerResponse(200, b" \n"), "EOF"),
    "a body that ends too early": Failure(ServerResponse(200, b'{"a":'), "unexpected EOF"),
    "a body that is a page": Failure(
        ServerResponse(200, b"<html>"), "invalid character '<' looking for beginning of value"
    ),
    "no listener": Failure(
        TransportError("x", "refused"),
        f'Post "{URL}/filter": dial tcp extender.example:8080: connect: connection refused',
    ),
    "no listener at the default port": Failure(
        TransportError("x", "refused"),
        'Post "https://e/filter": dial tcp e:443: connect: connection refused',
        "https://e",
    ),
    "the connection breaks": Failure(TransportError("x", "reset"), f'Post "{URL}/filter": EOF'),
    "the network is too slow": Failure(
        TransportError("x", "timeout"),
        f'Post "{URL}/filter": context deadline exceeded '
        "(Client.Timeout exceeded while awaiting headers)",
    ),
    "the certificate has another authority": Failure(
        TransportError("certificate verify failed: self-signed certificate", "tls"),
        f'Post "{URL}/filter": tls: failed to verify certificate: '
        "x509: certificate signed by unknown authority",
    ),
    "something else": Failure(
        TransportError(f"{URL}: no such host"), f'Post "{URL}/filter": no such host'
    ),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_failures(failure: Failure) -> None:
    with pytest.raises(ExtenderError) as caught:
        post(OneAnswer(failure.does), failure.prefix)
    assert str(caught.value) == failure.text


def test_only_the_first_value_of_an_answer_counts() -> None:
    assert post(OneAnswer(ServerResponse(200, b'{"a":1}\n{"b":2} trailing'))) == b'{"a":1}'


def test_no_answer_in_time() -> None:
    async def scenario() -> int:
        clock = current_clock()
        began_ns = clock.monotonic_ns()
        with pytest.raises(ExtenderError, match=r"Client\.Timeout exceeded"):
            await ExtenderClient(URL, OneAnswer(None), 3 * SECOND).post("filter", b"{}")
        return clock.monotonic_ns() - began_ns

    assert virtual_loop.run(scenario) == 3 * SECOND


def test_closing_closes_the_connections() -> None:
    transport = OneAnswer(None)
    virtual_loop.run(ExtenderClient(URL, transport, SECOND).close())
    assert transport.is_closed
