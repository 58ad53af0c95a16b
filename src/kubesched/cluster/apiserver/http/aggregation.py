"""The aggregation layer: requests for an APIService with a Service go to that server.

The server authenticates and authorizes the user, and names the user to the other server. This
module opens no connections: the cluster provides an `ExtensionCaller`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from kubesched.cluster.apiserver.http.users import Requester
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import Request, Response

__all__ = ["APISERVICES", "AggregationLayer", "ExtensionAnswer", "ExtensionCaller"]

Json = dict[str, Any]

APISERVICES: Final = "apiregistration.k8s.io"
_OK = 200
# Headers that concern one connection, or that only this server may send.
_OWN_HEADERS: Final = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_OWN_PREFIXES: Final = ("x-remote-", "impersonate-")
_DROPPED: Final = _OWN_HEADERS | {"content-type", "date", "server"}


class ExtensionAnswer(NamedTuple):
    """The response of another API server, whose body arrives in chunks."""

    status: int
    headers: Sequence[tuple[str, str]]
    content_type: str
    chunks: AsyncGenerator[bytes, None]


class ExtensionCaller(Protocol):
    """Sends a request to the server of an APIService."""

    async def forward(
        self, spec: Json, method: str, target: str, headers: Sequence[tuple[str, str]], body: bytes
    ) -> ExtensionAnswer:
        """Raises KubeschedError if there is no response."""
        ...


class AggregationLayer:
    """The APIServices in a store that lead to other servers."""

    def __init__(self, store: Store, caller: ExtensionCaller) -> None:
        self._store, self._caller = store, caller
        self.resource = store.catalog.by_url(APISERVICES, "v1", "apiservices")
        self._services = store.collection(self.resource)
        self._read_at = -1
        # The specs of remote APIServices by group and version.
        self._remote: dict[tuple[str, str], Json] = {}
        # What the available ones serve: their documents of resources.
        self.resources: dict[tuple[str, str], Json] = {}

    @property
    def remote(self) -> dict[tuple[str, str], Json]:
        """The specs of the APIServices that lead to other servers, by group and version."""
        if self._read_at != self._services.end:
            self._read_at = self._services.end
            specs = [record.data["spec"] for record in self._services.objects.values()]
            self._remote = {
                (each.get("group", ""), each["version"]): each
                for each in specs
                if each.get("service")
            }
            self.resources = {k: v for k, v in self.resources.items() if k in self._remote}
        return self._remote

    def spec_for(self, path: str) -> Json | None:
        """Return the spec of the APIService for a path.

        None if this server handles the path itself.
        """
        if not self.remote or not path.startswith("/apis/"):
            return None
        group, _, rest = path.removeprefix("/apis/").partition("/")
        version = rest.partition("/")[0].partition("?")[0]
        return self._remote.get((group, version))

    async def forward(self, request: Request, user: Requester, spec: Json) -> Response:
        """Return the other server's response. Raises ApiError 503 if there is none."""
        headers = [
            (name, value)
            for name, value in request.headers
            if name not in _OWN_HEADERS and not name.startswith(_OWN_PREFIXES)
        ]
        headers += _identity(user)
        try:
            answer = await self._caller.forward(
                spec, request.method, request.target, headers, request.body
            )
        except KubeschedError as error:
            text = f"error trying to reach service: {error}"
            raise api_errors.service_unavailable(text) from error
        shown = {name: value for name, value in answer.headers if name.lower() not in _DROPPED}
        if request.query.flag("watch") or request.query.flag("follow"):
            return Response(
                answer.status,
                content_type=answer.content_type,
                headers=shown,
                stream=answer.chunks,
            )
        body = b"".join([chunk async for chunk in answer.chunks])
        return Response(answer.status, body, answer.content_type, shown)

    async def check(self, now_ns: int) -> None:
        """Request the resources of each server, and write whether it is available."""
        for (group, version), spec in list(self.remote.items()):
            failure = ""
            try:
                answer = await self._caller.forward(
                    spec, "GET", f"/apis/{group}/{version}", [("Accept", "application/json")], b""
                )
                body = b"".join([chunk async for chunk in answer.chunks])
                if answer.status != _OK:
                    failure = f"bad status: {answer.status}"
                else:
                    self.resources[group, version] = msgspec.json.decode(body)
            except (KubeschedError, msgspec.DecodeError) as error:
                failure = str(error)
            if failure:
                self.resources.pop((group, version), None)
            self._write_status(f"{version}.{group}", group, version, failure, now_ns)

    def _write_status(self, name: str, group: str, version: str, failure: str, now_ns: int) -> None:
        record = self._services.objects.get(name)
        if record is None:
            return
        service = record.data["spec"].get("service") or {}
        where = f"/apis/{group}/{version}"
        condition = {
            "type": "Available",
            "status": "False" if failure else "True",
            "reason": "FailedDiscoveryCheck" if failure else "Passed",
            "message": f"failing or missing response from {where} of service "
            f"{service.get('namespace')}/{service.get('name')}: {failure}"
            if failure
            else "all checks passed",
        }
        conditions = record.data.get("status", {}).get("conditions") or [{}]
        before = {key: conditions[0].get(key) for key in condition}
        if before == condition:
            return
        moved = before["status"] != condition["status"]
        since = format_timestamp(now_ns) if moved else conditions[0]["lastTransitionTime"]
        body = {
            **record.data,
            "status": {"conditions": [{**condition, "lastTransitionTime": since}]},
        }
        with self._store.own_writes():
            self._store.update(self.resource, None, name, body, now_ns, subresource="status")


def _identity(user: Requester) -> list[tuple[str, str]]:
    """Return the headers that identify the user of a forwarded request."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", each) for each in user.all_groups]
    for key, values in user.extra.items():
        headers += [(f"X-Remote-Extra-{_header_name(key)}", each) for each in values]
    return headers


def _header_name(key: str) -> str:
    """Encode the characters of a key that are not allowed in a header name."""
    legal = "!#$&'*+-.^_`|~"
    encoded = key.encode()
    return "".join(
        chr(byte)
        if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in legal)
        else f"%{byte:02X}"
        for byte in encoded
    )
