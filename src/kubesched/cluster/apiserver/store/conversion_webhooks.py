"""Conversion of custom resources between versions by webhooks.

A missing conversion raises `CallsNeededError`; the request is then repeated with the converted
objects. Conversions are cached by content, so that an object that is read again needs no call.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from kubesched.cluster.apiserver.rules.admission.webhook_reviews import WebhookError
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.store.needed_calls import CallsNeededError, WebhookCall
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.logging import get_logger

__all__ = ["ConversionWebhooks", "VersionConversion", "conversion_hook"]

Json = dict[str, Any]

_TIMEOUT_NS: Final = 30 * SECOND
# The number of cached conversions; the least recently used one is evicted.
_MOST_STORED: Final = 4096
_VERSIONS: Final = ("v1", "v1beta1")
_CONVERTED_METADATA: Final = ("labels", "annotations")

log = get_logger(__name__)


class _Hook(msgspec.Struct, frozen=True):
    """The conversion webhook of a definition."""

    name: str
    group: str
    kind: str
    client_config: Json
    review_version: str

    def gvk(self, version: str) -> str:
        return f"{self.group}/{version}, Kind={self.kind}"


class ConversionWebhooks:
    """The conversions of one store, and their results."""

    def __init__(self) -> None:
        # Whether there is a client that can call webhooks.
        self.is_active = False
        # The names of the definitions with a webhook.
        self.definitions: set[str] = set()
        self._results: OrderedDict[bytes, Json | WebhookError] = OrderedDict()
        # By key of a call: the keys of the objects in it, and the objects.
        self._pending: dict[str, list[tuple[bytes, Json]]] = {}

    @property
    def are_possible(self) -> bool:
        """Whether any request may need a conversion."""
        return self.is_active and bool(self.definitions)

    def convert(self, hook: _Hook, documents: Sequence[Json], source: str, to: str) -> list[Json]:
        """Convert documents without `kind` and `apiVersion` from one version to another.

        Raises:
            ApiError: 500, the webhook has failed.
            CallsNeededError: a conversion is missing.
        """
        if not self.is_active:
            return list(documents)
        keys = [_key(hook, each, source, to) for each in documents]
        missing = {
            key: each for key, each in zip(keys, documents, strict=True) if key not in self._results
        }
        if missing:
            raise CallsNeededError([self._call(hook, missing, source, to)])
        return [
            self._result(hook, key, each, to) for key, each in zip(keys, documents, strict=True)
        ]

    def accept(self, call: WebhookCall, response: bytes | WebhookError) -> None:
        """Store the result of a call."""
        objects = self._pending.pop(call.key, None)
        if objects is None:
            return
        results: Sequence[Json | WebhookError]
        try:
            if isinstance(response, WebhookError):
                raise response
            results = _converted(response, call.key, len(objects))
        except WebhookError as failure:
            results = [failure] * len(objects)
        for (key, _), result in zip(objects, results, strict=True):
            self._results[key] = result
        while len(self._results) > max(_MOST_STORED, 2 * len(objects)):
            self._results.popitem(last=False)

    def _call(self, hook: _Hook, missing: dict[bytes, Json], source: str, to: str) -> WebhookCall:
        digest = hashlib.sha256(b"".join(missing)).digest()
        uid = str(uuid.UUID(bytes=digest[:16], version=4))
        self._pending[uid] = list(missing.items())
        head = {"kind": hook.kind, "apiVersion": f"{hook.group}/{source}"}
        request = {
            "uid": uid,
            "desiredAPIVersion": f"{hook.group}/{to}",
            "objects": [{**head, **each} for each in missing.values()],
        }
        body = {
            "kind": "ConversionReview",
            "apiVersion": f"apiextensions.k8s.io/{hook.review_version}",
            "request": request,
        }
        config = hook.client_config
        return WebhookCall(
            uid, hook.name, config, msgspec.json.encode(body), _TIMEOUT_NS, converts=True
        )

    def _result(self, hook: _Hook, key: bytes, document: Json, to: str) -> Json:
        result = self._results[key]
        if not isinstance(result, WebhookError):
            self._results.move_to_end(key)
            return _restored(result, document)
        # A failure is used for one request only.
        del self._results[key]
        if result.is_simulated:
            # A real webhook would run in these pods. Without it the versions have the same fields.
            log.warning("A conversion webhook was not called", definition=hook.name, error=result)
            return document
        text = f"conversion webhook for {hook.gvk(to)} failed: {result}"
        raise api_errors.internal_error(text)


def _key(hook: _Hook, document: Json, source: str, to: str) -> bytes:
    # The version of an object is not known before it is stored.
    metadata = {k: v for k, v in document["metadata"].items() if k != "resourceVersion"}
    content = msgspec.json.encode((hook, source, to, {**document, "metadata": metadata}))
    return hashlib.sha256(content).digest()


def _converted(response: bytes, uid: str, wanted: int) -> list[Json]:
    """Return the objects in a response. Raises WebhookError."""
    try:
        document = msgspec.json.decode(response)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WebhookError(f"invalid response: {error}") from error
    answer = document.get("response") if isinstance(document, dict) else None
    if not isinstance(answer, dict):
        raise WebhookError("no response provided")
    if answer.get("uid") != uid:
        raise WebhookError(f'expected response.uid="{uid}", got "{answer.get("uid", "")}"')
    result = answer.get("result") or {}
    if result.get("status") != "Success":
        raise WebhookError(str(result.get("message") or "invalid response result"))
    converted = answer.get("convertedObjects")
    if not isinstance(converted, list) or len(converted) != wanted:
        count = len(converted) if isinstance(converted, list) else 0
        raise WebhookError(f"webhook returned {count} objects, expected {wanted}")
    for each in converted:
        if not isinstance(each, dict) or not isinstance(each.get("metadata"), dict):
            raise WebhookError("a converted object has no metadata")
    return converted


def _restored(new: Json, old: Json) -> Json:
    """Return a converted object with the metadata that a webhook cannot change."""
    given, metadata = new["metadata"], dict(old.get("metadata", {}))
    for key in _CONVERTED_METADATA:
        if given.get(key):
            metadata[key] = given[key]
        else:
            metadata.pop(key, None)
    body = {key: value for key, value in new.items() if key not in ("kind", "apiVersion")}
    return {**body, "metadata": metadata}


class VersionConversion:
    """Converts the objects of one custom resource from one version to another."""

    def __init__(
        self,
        webhooks: ConversionWebhooks,
        hook: _Hook,
        source: str,
        to: str,
        prepare: Callable[[Json], Json] | None = None,
    ) -> None:
        """`prepare` checks and completes an object before its conversion."""
        self._webhooks, self._hook = webhooks, hook
        self._source, self._to, self._prepare = source, to, prepare

    def __call__(self, document: Json) -> Json:
        """Convert one object. Raises the same errors as `ConversionWebhooks.convert`."""
        if self._prepare is not None:
            document = self._prepare(document)
        return self._webhooks.convert(self._hook, [document], self._source, self._to)[0]

    def fetch(self, documents: Iterable[Json]) -> None:
        """Make sure that the conversions of these objects are cached.

        Raises the same errors as `__call__`.
        """
        self._webhooks.convert(self._hook, list(documents), self._source, self._to)


def conversion_hook(definition: Json) -> _Hook | None:
    """Return the conversion webhook of a definition, or None if its versions are equal."""
    spec = definition["spec"]
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        return None
    webhook = conversion.get("webhook") or {}
    versions = webhook.get("conversionReviewVersions") or ()
    return _Hook(
        definition["metadata"]["name"],
        spec["group"],
        spec["names"]["kind"],
        webhook.get("clientConfig") or {},
        next((each for each in versions if each in _VERSIONS), _VERSIONS[0]),
    )
