"""Writes that call webhooks: the loop that fetches responses and repeats the write.

Each attempt is synchronous, so a write is as atomic as without webhooks. Nothing is stored before
there are responses of all webhooks for exactly the objects of the last attempt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from kubesched.cluster.apiserver.rules.admission.webhook_reviews import WebhookError
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.store.admission_policies import PolicyAdmission
from kubesched.cluster.apiserver.store.needed_calls import (
    CallsNeededError,
    RequestReplay,
    WebhookCall,
)
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["WebhookCaller", "WebhookCalls"]

T = TypeVar("T")

# Each webhook may need a separate attempt, since its input includes the changes of earlier
# webhooks.
_MOST_ATTEMPTS = 200


class WebhookCaller(Protocol):
    """Sends a request to a webhook. The cluster provides it: this package opens no connections."""

    async def call(self, call: WebhookCall) -> bytes:
        """Return the body of the response.

        Raises:
            WebhookError: there is no response within the call's timeout.
        """
        ...


class WebhookCalls:
    """Runs the writes of one store, with calls of webhooks where they are needed."""

    def __init__(self, store: Store, caller: WebhookCaller) -> None:
        self._store, self._caller = store, caller

    @property
    def are_possible(self) -> bool:
        """Whether a request may have to wait for a webhook."""
        return self._store.conversions.are_possible or self._has_webhooks

    @property
    def _has_webhooks(self) -> bool:
        admission = self._store.admission
        return isinstance(admission, PolicyAdmission) and admission.webhooks.has_webhooks

    async def run(self, attempt: Callable[[], T]) -> T:
        """Return the result of `attempt` once all needed responses are available.

        Raises:
            ApiError: as `attempt`, or 409 if the object changes in every attempt.
        """
        admission = self._store.admission
        if not isinstance(admission, PolicyAdmission) or not self.are_possible:
            return attempt()
        replay = RequestReplay(self._store.draw_seed())
        for _ in range(_MOST_ATTEMPTS):
            try:
                with admission.webhooks.replaying(replay):
                    return attempt()
            except CallsNeededError as needed:
                calls = needed.calls
            await self._fetch(calls, replay)
        text = "the object was modified while webhooks were called; please try again"
        raise api_errors.conflict("objects", "", text)

    async def fetch(self, needed: CallsNeededError) -> None:
        """Fetch the conversions that a watch needs."""
        await self._fetch(needed.calls, RequestReplay(0))

    async def _fetch(self, calls: list[WebhookCall], replay: RequestReplay) -> None:
        bodies = await asyncio.gather(*(self._response(each) for each in calls))
        for call, body in zip(calls, bodies, strict=True):
            if call.converts:
                self._store.conversions.accept(call, body)
            else:
                replay.responses[call.key] = body

    async def _response(self, call: WebhookCall) -> bytes | WebhookError:
        try:
            return await self._caller.call(call)
        except WebhookError as failure:
            return failure
