"""Calls that a request needs before it can be completed.

The store is synchronous and a webhook is not. A request that needs a missing response raises
`CallsNeededError` before it changes anything. The caller fetches the responses and repeats the
request (`webhook_calls.py`, decision 0040).
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from kubesched.cluster.apiserver.rules.admission.webhook_reviews import WebhookError

__all__ = ["CallsNeededError", "RequestReplay", "WebhookCall"]


class WebhookCall(msgspec.Struct, frozen=True):
    """A request to a webhook."""

    key: str  # what identifies the webhook and the content of the request
    name: str
    client_config: dict[str, Any]
    body: bytes
    timeout_ns: int
    # Whether the response has converted objects, and not a verdict.
    converts: bool = False


class CallsNeededError(Exception):
    """A request needs responses of webhooks. It has changed nothing."""

    def __init__(self, calls: list[WebhookCall]) -> None:
        super().__init__(", ".join(each.name for each in calls))
        self.calls = calls


class RequestReplay:
    """State that the attempts of one write share: responses, and the source of generated values."""

    def __init__(self, seed: int) -> None:
        # The body of a response, or the reason why there is none, by the key of the call.
        self.responses: dict[str, bytes | WebhookError] = {}
        self._seed = seed

    def rng(self) -> random.Random:
        """Return a source that gives each attempt the same uid and the same generated name."""
        return random.Random(self._seed)
