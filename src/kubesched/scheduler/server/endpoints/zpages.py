"""`/statusz` and `/flagz`: as text or as an object (docs/reference/02 §6.4).

The delimiter of the text is random, as in the reference, so that programs do not parse it.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from kubesched.foundation.http.http_messages import Handler, Request, Response
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.scheduler.server.endpoints.status_answers import encode_json, not_acceptable

__all__ = ["Versions", "flagz_handler", "statusz_handler"]

COMPONENT: Final = "kube-scheduler"
_DELIMITERS: Final = (":", ": ", "=", " ")
_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)
_GROUP: Final = "config.k8s.io"
_CURRENT, _DEPRECATED = "v1beta1", "v1alpha1"
_ACCEPTED: Final = "application/json, application/yaml, text/plain"


class Versions(msgspec.Struct, frozen=True):
    """The versions that the pages show."""

    binary: str
    emulation: str
    # Shown in place of the reference's Go version.
    runtime: str
    # The implementation of the binary version. The pages omit an empty text.
    implementation: str = ""


class _Form(NamedTuple):
    media_type: str  # text/plain, application/json or application/yaml
    version: str = ""


_TEXT_FORM: Final = _Form("text/plain")


def statusz_handler(
    clock: Clock, versions: Versions, paths: Callable[[], Sequence[str]], rng: random.Random
) -> Handler:
    started_ns, started_at_ns = clock.monotonic_ns(), clock.now_ns()
    implementation = versions.implementation

    async def answer(request: Request) -> Response:
        form = _negotiate(request, "Statusz")
        if form is None:
            return not_acceptable(request, _ACCEPTED)
        uptime = max(0, (clock.monotonic_ns() - started_ns) // SECOND)
        started = datetime.datetime.fromtimestamp(started_at_ns // SECOND, datetime.UTC)
        shown = [path for path in paths() if path != "/statusz"]
        if form is _TEXT_FORM:
            rows = {
                "Started": started.strftime("%a %b %e %H:%M:%S UTC %Y"),
                "Up": f"{uptime // 3600} hr {uptime // 60 % 60:02} min {uptime % 60:02} sec",
                "Go version": versions.runtime,
                "Binary version": versions.binary,
                "Emulation version": versions.emulation,
                **({"Implementation": implementation} if implementation else {}),
                "Paths": " ".join(shown),
            }
            return Response(body=f"{_head('statusz')}\n{_rows(rows, rng)}".encode())
        members = {
            "startTime": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "uptimeSeconds": uptime,
            "goVersion": versions.runtime,
            "binaryVersion": versions.binary,
            "emulationVersion": versions.emulation,
            **({"implementation": implementation} if implementation else {}),
            "paths": shown,
        }
        return _structured(form, "Statusz", members)

    return answer


def flagz_handler(flags: Mapping[str, str], rng: random.Random) -> Handler:
    """Return a handler that serves the value of every flag. Its text is built once."""
    shown = dict(sorted(flags.items()))
    page = f"{_head('flagz')}{_rows(shown, rng)}".encode()

    async def answer(request: Request) -> Response:
        form = _negotiate(request, "Flagz")
        if form is None:
            return not_acceptable(request, _ACCEPTED)
        if form is _TEXT_FORM:
            return Response(body=page)
        return _structured(form, "Flagz", {"flags": shown})

    return answer


def _head(page: str) -> str:
    return f"\n{COMPONENT} {page}\n{_WARNING}\n"


def _rows(rows: Mapping[str, str], rng: random.Random) -> str:
    delimiter = rng.choice(_DELIMITERS)
    return "".join(f"{name}{delimiter}{value}\n" for name, value in rows.items())


def _negotiate(request: Request, kind: str) -> _Form | None:
    """Return the first clause of the Accept header that can be served, or None."""
    accept = ",".join(request.headers.all("Accept"))
    if not accept.strip():
        return _TEXT_FORM
    for clause in accept.split(","):
        media_type, *rest = (part.strip() for part in clause.split(";"))
        parameters = {
            name.strip().lower(): value.strip()
            for name, _, value in (part.partition("=") for part in rest)
        }
        form = _form_of(media_type.lower(), parameters, kind)
        if form is not None:
            return form
    return None


def _form_of(media_type: str, parameters: Mapping[str, str], kind: str) -> _Form | None:
    object_parameters = {"g", "v", "as"} & parameters.keys()
    if media_type in ("*/*", "text/*", "text/plain"):
        return None if object_parameters else _TEXT_FORM
    if media_type not in ("application/json", "application/yaml"):
        return None
    version = parameters.get("v", "")
    is_ours = parameters.get("g") == _GROUP and parameters.get("as") == kind
    if is_ours and version in (_CURRENT, _DEPRECATED):
        return _Form(media_type, version)
    return None


def _structured(form: _Form, kind: str, members: Mapping[str, Any]) -> Response:
    document = {
        "kind": kind,
        "apiVersion": f"{_GROUP}/{form.version}",
        "metadata": {"name": COMPONENT},
        **members,
    }
    if form.media_type == "application/json":
        body = encode_json(document)
    else:
        body = yaml.safe_dump(document, sort_keys=True).encode()
    answer = Response(
        body=body, content_type=f"{form.media_type};g={_GROUP};v={form.version};as={kind}"
    )
    if form.version != _DEPRECATED:
        return answer
    return answer.with_headers(
        Warning=f'299 - "This version of the {kind.lower()} endpoint is deprecated. '
        'Please use a newer version."'
    )
