"""Health checks and the endpoints that run them (docs/reference/02 §6.1).

A check is a name and a function that returns None or a problem. Only the endpoint of a single check
shows the problem; the endpoints of all checks write it to the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kubesched.foundation.http.http_messages import (
    Handler,
    Request,
    Response,
    text_error,
)
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.server.endpoints.routes import Routes

__all__ = ["PING", "HealthCheck", "SwitchCheck", "add_health_routes"]

log = get_logger(__name__)

_NO_SNIFF = {"X-Content-Type-Options": "nosniff"}

# Called for every check that an endpoint ran, with the endpoint, the check and whether it passed.
OnResult = Callable[[str, str, bool], None]


class HealthCheck(NamedTuple):
    name: str
    check: Callable[[], str | None]


PING = HealthCheck("ping", lambda: None)


class SwitchCheck:
    """A check that other components set to passing or failing."""

    def __init__(self, name: str, problem: str, *, is_fine: bool) -> None:
        self._name, self._problem = name, problem
        self.is_fine = is_fine

    def as_check(self) -> HealthCheck:
        return HealthCheck(self._name, lambda: None if self.is_fine else self._problem)


def add_health_routes(
    routes: Routes, root: str, checks: Sequence[HealthCheck], on_result: OnResult
) -> None:
    """Register `/root` for all checks and `/root/name` for each of them."""
    checks = tuple(checks) or (PING,)
    routes.add(f"/{root}", _root_handler(root, checks, on_result))
    for each in checks:
        routes.add(f"/{root}/{each.name}", _check_handler(each))


def _root_handler(root: str, checks: Iterable[HealthCheck], on_result: OnResult) -> Handler:
    async def answer(request: Request) -> Response:
        unmatched = set(request.query.all("exclude"))
        excluded = frozenset(unmatched)
        lines: list[str] = []
        problems: dict[str, str] = {}
        for name, check in checks:
            if name in excluded:
                unmatched.discard(name)
                lines.append(f"[+]{name} excluded: ok\n")
                continue
            problem = check()
            on_result(root, name, problem is None)
            if problem is None:
                lines.append(f"[+]{name} ok\n")
            else:
                problems[name] = problem
                lines.append(f"[-]{name} failed: reason withheld\n")
        if unmatched:
            names = ",".join(map(quote, sorted(unmatched)))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        return _overall(root, "".join(lines), problems, verbose="verbose" in request.query)

    return answer


def _overall(root: str, lines: str, problems: dict[str, str], *, verbose: bool) -> Response:
    if problems:
        if log.enabled(2):
            details = "".join(f"[-]{name} failed: {text}\n" for name, text in problems.items())
            log.detail(2, f"{','.join(problems)} check failed: {root}\n{details}")
        return text_error(f"{lines}{root} check failed", 500)
    body = f"{lines}{root} check passed\n" if verbose else "ok"
    return Response(body=body.encode(), headers=_NO_SNIFF)


def _check_handler(check: HealthCheck) -> Handler:
    async def answer(_: Request) -> Response:
        problem = check.check()
        if problem is not None:
            return text_error(f"internal server error: {problem}", 500)
        return Response(body=b"ok")

    return answer
