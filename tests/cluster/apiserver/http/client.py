"""A client of `ApiService` without a socket. It encodes requests and decodes responses."""

from __future__ import annotations

import json
import random
from typing import Any

from kubesched.cluster.apiserver.http import ApiService, ServedWatch, Users
from kubesched.cluster.apiserver.rules.strategies.server_features import ALL_FEATURES
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.http.http_messages import Request, Response
from kubesched.foundation.util.clock import ManualClock

Json = Any

NOW_NS = 1_800_000_000 * 10**9
APPLICATION_JSON = "application/json"


class Client:
    """Sends requests to a service; tests set the time of its store."""

    def __init__(
        self,
        users: Users | None = None,
        now_ns: int = NOW_NS,
        features: frozenset[str] | None = None,
    ) -> None:
        """Create a server with these features; None means all features."""
        self.clock = ManualClock(now_ns)
        features = ALL_FEATURES if features is None else features
        self.store = Store(random.Random(7), now_ns=now_ns, features=features)
        self.service = ApiService(self.store, self.clock, users=users)

    def ask(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        content_type: str = APPLICATION_JSON,
        **headers: str,
    ) -> Response | ServedWatch:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            sent["content-type"] = content_type
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body)
        data = data.encode() if isinstance(data, str) else data
        # A value with several lines represents a header that is sent several times.
        fields = [(name, line) for name, value in sent.items() for line in value.split("\n")]
        return self.service.answer(Request.of(method, path, fields, data))

    def send(self, method: str, path: str, body: Json = None, **options: Any) -> tuple[int, Json]:
        answer = self.ask(method, path, body, **options)
        assert isinstance(answer, Response)
        if answer.content_type.startswith(APPLICATION_JSON):
            return answer.status, json.loads(answer.body)
        return answer.status, answer.body.decode()

    def get(self, path: str, **options: Any) -> Json:
        status, body = self.send("GET", path, **options)
        assert status == 200, body
        return body

    def create(self, path: str, body: Json) -> Json:
        status, created = self.send("POST", path, body)
        assert status == 201, created
        return created

    def watch(self, path: str, **options: Any) -> list[Json]:
        """Return the available events without waiting for more."""
        answer = self.ask("GET", path, **options)
        assert isinstance(answer, ServedWatch), answer
        lines = answer.encode([seen for seen in answer.watcher.read() if seen.record is not None])
        if answer.initial_events:
            lines += answer.bookmark(answer.revision(), True)
        return [json.loads(line) for line in lines.splitlines()]
