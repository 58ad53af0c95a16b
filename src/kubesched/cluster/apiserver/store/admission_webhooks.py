"""Admission control by webhooks: which are called for a write, and the effect of their responses.

The store is synchronous and a webhook is not. A write that needs a missing response raises
`CallsNeededError` before it changes anything. The caller fetches the responses and repeats the
write (`webhook_calls.py`, decision 0040). A response is only used for exactly the same review: if
the object has changed in between, the webhooks are called again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.admission.admission_review import Review
from kubesched.cluster.apiserver.rules.admission.policy_expressions import make_bindings
from kubesched.cluster.apiserver.rules.admission.policy_matching import matches
from kubesched.cluster.apiserver.rules.admission.webhook_reviews import (
    Verdict,
    WebhookError,
    read_response,
    review_request,
)
from kubesched.cluster.apiserver.rules.admission.webhook_validation import (
    WebhookStrategy,
    compile_conditions,
)
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.request_documents import check_document, remove_nulls
from kubesched.cluster.apiserver.store.needed_calls import (
    CallsNeededError,
    RequestReplay,
    WebhookCall,
)
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.foundation.cel import CelRuntimeError, Program
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.logging import get_logger

__all__ = ["WebhookAdmission"]

Json = dict[str, Any]

_GROUP = "admissionregistration.k8s.io"
_MUTATING, _VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"

log = get_logger(__name__)


class _Webhook(msgspec.Struct, frozen=True):
    """A webhook of a configuration, with its compiled match conditions."""

    identity: str
    name: str
    declared: Json
    conditions: tuple[Program, ...]

    @property
    def fails_closed(self) -> bool:
        return bool(self.declared.get("failurePolicy", "Fail") == "Fail")

    @property
    def is_repeated(self) -> bool:
        return bool(self.declared.get("reinvocationPolicy") == "IfNeeded")


class WebhookAdmission:
    """Calls the webhooks that the configurations in a store declare for a write."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # Whether there is a client that can call webhooks. Without one they are only stored.
        self.is_active = False
        self._replay: RequestReplay | None = None
        self._compiled: dict[str, tuple[int, tuple[_Webhook, ...]]] = {}
        self._configurations: dict[str, Mapping[str, Record]] = {}
        for plural in (_MUTATING, _VALIDATING):
            resource = store.catalog.by_url(_GROUP, "v1", plural)
            strategy = WebhookStrategy(resource.strategy)
            checked = msgspec.structs.replace(resource, strategy=strategy)
            store.redefine(checked)
            self._configurations[plural] = store.collection(checked).objects

    @property
    def has_rules(self) -> bool:
        """Whether any webhook may have to be called for the present write."""
        return self._replay is not None and self.has_webhooks

    @property
    def has_webhooks(self) -> bool:
        return self.is_active and any(self._configurations.values())

    @contextlib.contextmanager
    def replaying(self, replay: RequestReplay) -> Iterator[None]:
        """Let the writes in the block call webhooks, with the responses of earlier attempts."""
        before, self._replay = self._replay, replay
        try:
            with self._store.drawing_from(replay.rng()):
                yield
        finally:
            self._replay = before

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Call no webhooks for the writes in the block, which are those of the server itself."""
        before, self._replay = self._replay, None
        try:
            yield
        finally:
            self._replay = before

    def mutate(self, review: Review, warnings: list[str]) -> Review:
        """Return the review with the object after the mutating webhooks.

        Raises:
            ApiError: a webhook denies the write, or fails with the failure policy Fail.
            CallsNeededError: a response is missing.
        """
        if not self.has_rules or review.resource.group == _GROUP:
            return review
        webhooks = list(self._webhooks(_MUTATING))
        # By webhook: the object after its call. A webhook is repeated if it has changed since.
        seen: dict[str, Json | None] = {}
        for each in webhooks:
            matched = self._matched(each, review)
            if matched is not None:
                review = self._mutated(each, review, matched, "", warnings)
                seen[each.identity] = review.new
        for each in webhooks:
            if not each.is_repeated or seen.get(each.identity, review.new) == review.new:
                continue
            matched = self._matched(each, review)
            if matched is not None:
                review = self._mutated(each, review, matched, "again", warnings)
        return review

    def review(self, review: Review, warnings: list[str]) -> None:
        """Call the validating webhooks. Raises the same errors as `mutate`."""
        if not self.has_rules or review.resource.group == _GROUP:
            return
        needed: list[WebhookCall] = []
        refusal: ApiError | None = None
        for each in self._webhooks(_VALIDATING):
            matched = self._matched(each, review)
            if matched is None:
                continue
            try:
                verdict = self._verdict(each, review, matched, "", mutates=False)
            except CallsNeededError as calls:
                # All validating webhooks are called at the same time.
                needed += calls.calls
                continue
            warnings += verdict.warnings
            refusal = refusal or verdict.denial
        if needed:
            raise CallsNeededError(needed)
        if refusal is not None:
            raise refusal

    def _webhooks(self, plural: str) -> Iterator[_Webhook]:
        """Yield the webhooks of all configurations, ordered by the configurations' names."""
        for key, record in sorted(self._configurations[plural].items()):
            cached = self._compiled.get(f"{plural}/{key}")
            if cached is None or cached[0] != record.revision:
                uid = record.data["metadata"]["uid"]
                hooks = tuple(
                    _Webhook(
                        f"{plural}/{uid}/{index}/{hook['name']}",
                        hook["name"],
                        hook,
                        tuple(compile_conditions(hook)),
                    )
                    for index, hook in enumerate(record.data.get("webhooks") or ())
                )
                cached = self._compiled[f"{plural}/{key}"] = (record.revision, hooks)
            yield from cached[1]

    def _matched(self, webhook: _Webhook, review: Review) -> Review | None:
        """Return the review in the version that a webhook accepts; None if it is not concerned."""
        constraints = {**webhook.declared, "resourceRules": webhook.declared.get("rules")}
        if not constraints["resourceRules"]:
            return None
        labels = self._namespace_labels(review)
        matched = self._in_accepted_version(review, constraints, labels)
        if matched is None or not webhook.conditions:
            return matched
        bindings = make_bindings(matched, None, None, {})
        try:
            holds = all(each.evaluate(bindings) is True for each in webhook.conditions)
        except CelRuntimeError as error:
            if webhook.fails_closed:
                plural, name = review.resource.group_resource, review.name
                raise api_errors.forbidden(plural, name, str(error)) from error
            return None
        return matched if holds else None

    def _in_accepted_version(
        self, review: Review, constraints: Json, labels: Mapping[str, str] | None
    ) -> Review | None:
        served = _in_version(review, review.resource)
        if matches(constraints, served, labels):
            return served
        if constraints.get("matchPolicy", "Equivalent") != "Equivalent":
            return None
        for resource in self._store.catalog.all():
            if resource.group_resource == review.resource.group_resource:
                other = _in_version(review, resource)
                if matches(constraints, other, labels):
                    return other
        return None

    def _namespace_labels(self, review: Review) -> Mapping[str, str] | None:
        if review.resource.group_resource == "namespaces":
            return next(iter(review.labels()), {})
        if not review.namespace:
            return None
        namespace = self._store.find("namespaces", review.namespace)
        return {} if namespace is None else namespace["metadata"].get("labels") or {}

    def _mutated(
        self, webhook: _Webhook, review: Review, matched: Review, round_: str, warnings: list[str]
    ) -> Review:
        verdict = self._verdict(webhook, review, matched, round_, mutates=True)
        warnings += verdict.warnings
        if verdict.denial is not None:
            raise verdict.denial
        shown = matched.shown(matched.new)
        if not verdict.patch or shown is None:
            return review
        try:
            changed = verdict.patched(shown)
            if matched.resource.to_stored is not None:
                changed = matched.resource.to_stored(changed)
            changed = {k: v for k, v in changed.items() if k not in ("kind", "apiVersion")}
            new = remove_nulls(check_document(review.resource, changed), review.new or {})
        except (WebhookError, ApiError) as error:
            raise api_errors.internal_error(str(error)) from error
        return msgspec.structs.replace(review, new=new)

    def _verdict(
        self, webhook: _Webhook, review: Review, matched: Review, round_: str, *, mutates: bool
    ) -> Verdict:
        """Return a webhook's verdict. Raises CallsNeededError, or ApiError if it has failed."""
        assert self._replay is not None
        versions = webhook.declared.get("admissionReviewVersions") or ()
        uid, version, body = review_request(matched, review, versions)
        key = f"{webhook.identity}/{round_}/{uid}"
        response = self._replay.responses.get(key)
        if response is None:
            seconds = webhook.declared.get("timeoutSeconds", 10)
            config = webhook.declared["clientConfig"]
            raise CallsNeededError([WebhookCall(key, webhook.name, config, body, seconds * SECOND)])
        try:
            if isinstance(response, WebhookError):
                raise response
            return read_response(webhook.name, uid, version, response, mutates=mutates)
        except WebhookError as failure:
            if failure.is_simulated:
                # A real webhook would run in these pods. Otherwise every write would be refused.
                return Verdict(warnings=(f"webhook {webhook.name} was not called: {failure}",))
            text = f'failed calling webhook "{webhook.name}": {failure}'
            if webhook.fails_closed:
                raise api_errors.internal_error(text) from failure
            log.warning("A webhook failed and is ignored", webhook=webhook.name, error=failure)
            return Verdict()


def _in_version(review: Review, resource: Any) -> Review:
    """Return the review with its objects, which are in the stored form, in another version."""
    convert = resource.from_stored
    if resource is review.resource and convert is None:
        return review
    return msgspec.structs.replace(
        review,
        resource=resource,
        new=convert(review.new) if convert and review.new is not None else review.new,
        old=convert(review.old) if convert and review.old is not None else review.old,
    )
