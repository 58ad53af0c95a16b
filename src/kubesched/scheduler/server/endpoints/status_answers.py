"""Refusals as `Status` objects, in the format that the client prefers.

docs/reference/02 §4.1.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from kubesched.foundation.http.http_messages import Request, Response

__all__ = ["encode_json", "forbidden", "not_acceptable", "status_answer", "unauthorized"]

_JSON = "application/json"
_YAML = "application/yaml"
_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


def unauthorized(request: Request) -> Response:
    return status_answer(request, 401, "Unauthorized", "Unauthorized")


def forbidden(request: Request, user: str, verb: str, reason: str) -> Response:
    message = f'forbidden: User "{user}" cannot {verb} path "{request.path}"'
    if reason:
        message = f"{message}: {reason}"
    escaped = message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    answer = status_answer(request, 403, "Forbidden", escaped, details={})
    return answer.with_headers(X_Content_Type_Options="nosniff")


def not_acceptable(request: Request, accepted: str) -> Response:
    message = f"only the following media types are accepted: {accepted}"
    return status_answer(request, 406, "NotAcceptable", message)


def status_answer(
    request: Request,
    code: int,
    reason: str,
    message: str,
    details: dict[str, Any] | None = None,
) -> Response:
    document: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        document["details"] = details
    document["code"] = code
    clauses = [_media_type(clause) for clause in request.headers.get("Accept").split(",")]
    if _YAML in clauses and _JSON not in clauses[: clauses.index(_YAML)]:
        body = yaml.safe_dump(document, sort_keys=True).encode()
        return Response(status=code, body=body, content_type=_YAML)
    known = {"", _JSON, "application/*", "*/*"}
    pretty = _wants_pretty(request) or known.isdisjoint(clauses)
    return Response(status=code, body=encode_json(document, pretty=pretty), content_type=_JSON)


def encode_json(document: Any, *, pretty: bool = False) -> bytes:
    """Encode JSON as a Go server does, with the special characters of HTML escaped."""
    if pretty:
        text = json.dumps(document, indent=2, ensure_ascii=False)
    else:
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n"
    for character in "&<>\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "replace")


def _wants_pretty(request: Request) -> bool:
    asked = request.query.all("pretty")
    if asked:
        return asked[0] not in ("0", "false")
    return request.headers.get("User-Agent").startswith(_PRETTY_AGENTS)


def _media_type(clause: str) -> str:
    return clause.partition(";")[0].strip().lower()
