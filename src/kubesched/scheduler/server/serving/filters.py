"""The filters in front of every handler: authentication, authorization and logging.

docs/reference/02 §2.4. Authorization comes before the search for a handler, so that a caller
without permission cannot find out which paths exist.
"""

from __future__ import annotations

from kubesched.foundation.http.http_messages import (
    BadRequest,
    Request,
    Response,
    text_error,
)
from kubesched.foundation.metrics.server_metrics import ServerMetrics
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.go_format import format_duration, quote
from kubesched.foundation.util.logging import get_logger
from kubesched.scheduler.server.access.authenticators import AuthenticationError, AuthenticatorChain
from kubesched.scheduler.server.access.path_authorization import (
    AuthorizationVerdict,
    PathAuthorizer,
)
from kubesched.scheduler.server.access.review_client import ReviewError
from kubesched.scheduler.server.access.user import CallerIdentity
from kubesched.scheduler.server.endpoints.routes import Routes
from kubesched.scheduler.server.endpoints.status_answers import forbidden, unauthorized

__all__ = ["ServedEndpoints"]

log = get_logger(__name__)

_PANIC = "This request caused apiserver to panic. Look in the logs for details."


class ServedEndpoints:
    """Authenticates and authorizes a request, then calls the handler of its path."""

    def __init__(
        self,
        routes: Routes,
        authenticators: AuthenticatorChain,
        authorizer: PathAuthorizer,
        metrics: ServerMetrics,
        clock: Clock,
    ) -> None:
        self._routes = routes
        self._authenticators, self._authorizer = authenticators, authorizer
        self._metrics, self._clock = metrics, clock

    async def answer(self, request: Request) -> Response:
        """Return a response in every case, also if the handler raises."""
        started_ns = self._clock.monotonic_ns()
        try:
            response = await self._answer(request)
        except BadRequest as exc:
            response = text_error(str(exc), exc.status)
        except Exception as exc:
            log.exception("Handling a request failed", exc, verb=request.method, URI=request.target)
            response = text_error(_PANIC, 500)
        if log.enabled(3):
            duration_ns = self._clock.monotonic_ns() - started_ns
            log.detail(
                3,
                "HTTP",
                verb=request.method,
                URI=request.target,
                latency=format_duration(duration_ns),
                userAgent=request.headers.get("User-Agent"),
                srcIP=request.remote,
                resp=response.status,
            )
        return response.with_headers(Cache_Control="no-cache, private")

    async def _answer(self, request: Request) -> Response:
        user = await self._authenticate(request)
        if user is None:
            return unauthorized(request)
        refusal = await self._refusal(request, user)
        if refusal is not None:
            return refusal
        return await self._routes.find(request.path)(request)

    async def _authenticate(self, request: Request) -> CallerIdentity | None:
        started_ns = self._clock.monotonic_ns()
        result = "success"
        user: CallerIdentity | None = None
        try:
            user = await self._authenticators.authenticate(request)
            self._metrics.count_user(user.name)
        except AuthenticationError as exc:
            result = "error"
            log.error("Unable to authenticate the request", exc=exc)
        duration_ns = self._clock.monotonic_ns() - started_ns
        self._metrics.observe_authentication(result, duration_ns)
        return user

    async def _refusal(self, request: Request, user: CallerIdentity) -> Response | None:
        """Return the refusal, or None if the user is authorized."""
        verb = request.method.lower()
        started_ns = self._clock.monotonic_ns()
        result = "error"
        try:
            decision = await self._authorizer.decide(user, verb, request.path)
            result = decision.verdict.value
        except ReviewError as exc:
            log.error("Authorization failed", exc=exc, URI=request.target)
            message = f"Internal Server Error: {quote(request.target)}: {exc}"
            escaped = message.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            return text_error(escaped, 500)
        finally:
            duration_ns = self._clock.monotonic_ns() - started_ns
            self._metrics.observe_authorization(result, duration_ns)
        if decision.verdict is AuthorizationVerdict.ALLOW:
            return None
        log.detail(4, "Forbidden", URI=request.target, reason=decision.reason)
        return forbidden(request, user.name, verb, decision.reason)
