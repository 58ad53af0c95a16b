"""An extender for tests: verbs are functions, and every call is recorded.

Clients reach it over the network at `url` while its block runs. Schedulers on virtual time use
`transport` instead, which needs no network.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from kubesched.foundation.client.transport import (
    OutgoingRequest,
    ResponseStream,
    ServerResponse,
    TransportError,
)
from kubesched.scheduler.config.types import ExtenderConfig

__all__ = ["ExtenderCall", "FakeExtender", "Reply", "keep_nodes", "score_nodes"]

Json = dict[str, Any]


class Reply(NamedTuple):
    """A response other than JSON with status 200."""

    status: int
    body: bytes = b""


# Takes the arguments of a call; returns the JSON of the response, or a `Reply`. May be async.
Verb = Callable[[Json], Any | Awaitable[Any]]


class ExtenderCall(NamedTuple):
    """A recorded call."""

    verb: str
    arguments: Json
    answer: Any
    headers: Mapping[str, str] = {}


class FakeExtender:
    """Calls the given functions for its verbs; other verbs return 404.

        async with FakeExtender(filter=keep_nodes(lambda name: name != "broken")) as extender:
            Scheduler(api, extenders=[extender.settings()])

    Keyword arguments are verbs by name: `filter`, `prioritize`, `preempt`, `bind`, or any other.
    Functions may be replaced at any time in `verbs`.
    """

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        **verbs: Verb,
    ) -> None:
        self.verbs: dict[str, Verb] = dict(verbs)
        # All calls, in order of arrival.
        self.calls: list[ExtenderCall] = []
        # With `transport`: whether connections are refused.
        self.is_down = False
        self._tls, self._host, self._port = tls, host, port
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{self._host}:{self._port}"

    def settings(self, path: str = "", **changes: Any) -> ExtenderConfig:
        """Return an extender configuration with this address and the verbs of the fake."""
        known = {
            f"{verb}_verb": verb
            for verb in ("filter", "prioritize", "preempt", "bind")
            if verb in self.verbs
        }
        weight = {"weight": 1} if "prioritize" in self.verbs else {}
        return ExtenderConfig(**{"url_prefix": self.url + path, **known, **weight, **changes})

    def called(self, verb: str) -> list[Json]:
        """Return the arguments of all calls of a verb."""
        return [call.arguments for call in self.calls if call.verb == verb]

    async def answer(self, verb: str, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Return the response to a call."""
        function = self.verbs.get(verb)
        if function is None:
            return Reply(404)
        arguments: Json = msgspec.json.decode(body)
        position = len(self.calls)
        self.calls.append(ExtenderCall(verb, arguments, None, headers))
        answer = function(arguments)
        if inspect.isawaitable(answer):
            answer = await answer
        self.calls[position] = ExtenderCall(verb, arguments, answer, headers)
        return answer if isinstance(answer, Reply) else Reply(200, msgspec.json.encode(answer))

    def transport(self, settings: ExtenderConfig) -> FakeTransport:
        """Return a transport within this process, for `Scheduler(extender_transport=…)`."""
        return FakeTransport(self, settings.url_prefix)

    async def __aenter__(self) -> FakeExtender:
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls)
        await site.start()
        self._host, self._port = self._runner.addresses[0][:2]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()
        self._runner = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        reply = await self.answer(_verb(request.path), body, dict(request.headers))
        return web.Response(
            status=reply.status, body=reply.body, headers={"Content-Type": "application/json"}
        )


class FakeTransport:
    """Calls the functions of a `FakeExtender`, after one iteration of the event loop."""

    def __init__(self, extender: FakeExtender, base_url: str) -> None:
        self._extender = extender
        self.base_url = base_url.rstrip("/")

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc

    async def send(self, request: OutgoingRequest) -> ServerResponse:
        await asyncio.sleep(0)
        if self._extender.is_down:
            raise TransportError(f"{self.base_url}: connection refused", "refused")
        headers = {"Content-Type": request.content_type}
        reply = await self._extender.answer(_verb(request.target), request.body, headers)
        return ServerResponse(reply.status, reply.body)

    def stream(
        self, request: OutgoingRequest
    ) -> contextlib.AbstractAsyncContextManager[ResponseStream]:
        raise NotImplementedError("extenders have no streams")

    async def close(self) -> None:
        pass


def _verb(path: str) -> str:
    return path.rpartition("/")[2]


def keep_nodes(keep: Callable[[str], bool], why: str = "extender says no") -> Verb:
    """Build a filter verb that keeps the nodes whose names satisfy a condition."""

    def answer(arguments: Json) -> Json:
        names = arguments.get("NodeNames")
        if names is not None:
            failed = {name: why for name in names if not keep(name)}
            return {"NodeNames": [name for name in names if keep(name)], "FailedNodes": failed}
        nodes = arguments["Nodes"]["items"]
        kept = [node for node in nodes if keep(node["metadata"]["name"])]
        failed = {name: why for name in _names(arguments) if not keep(name)}
        return {"Nodes": {"items": kept}, "FailedNodes": failed}

    return answer


def score_nodes(score: Callable[[str], int]) -> Verb:
    """Build a prioritize verb that scores nodes by their names, from 0 to 10."""

    def answer(arguments: Json) -> list[Json]:
        return [{"Host": name, "Score": score(name)} for name in _names(arguments)]

    return answer


def _names(arguments: Json) -> Iterator[str]:
    if (names := arguments.get("NodeNames")) is not None:
        yield from names
        return
    for node in arguments["Nodes"]["items"]:
        yield node["metadata"]["name"]
