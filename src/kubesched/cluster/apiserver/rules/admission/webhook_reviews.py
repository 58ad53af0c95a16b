"""AdmissionReview: the request to a webhook, and the interpretation of its response.

A response allows or denies a write, may patch the object, and may contain warnings.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api.access import ApiError
from kubesched.api.meta import Status, StatusDetails
from kubesched.cluster.apiserver.rules.admission.admission_review import Review
from kubesched.cluster.apiserver.rules.patching.patches import PatchError, json_patch
from kubesched.errors import KubeschedError

__all__ = ["Verdict", "WebhookError", "read_response", "review_request"]

Json = dict[str, Any]

_VERSIONS = ("v1", "v1beta1")
# The user of writes by components of the cluster.
_OWN_USER = {
    "username": "system:apiserver",
    "groups": ["system:masters", "system:authenticated"],
}
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class WebhookError(KubeschedError):
    """A webhook gave no usable response. The text gives the reason.

    `is_simulated` says that the webhook cannot be called because its pods are simulated.
    """

    def __init__(self, text: str, *, is_simulated: bool = False) -> None:
        super().__init__(text)
        self.is_simulated = is_simulated


class Verdict(msgspec.Struct, frozen=True):
    """A response of a webhook."""

    denial: ApiError | None = None
    patch: Sequence[Any] = ()
    warnings: tuple[str, ...] = ()

    def patched(self, document: Json) -> Json:
        """Apply the patch to an object. Raises WebhookError if it cannot be applied."""
        if not self.patch:
            return document
        try:
            changed = json_patch(document, self.patch)
        except PatchError as error:
            raise WebhookError(str(error)) from error
        if not isinstance(changed, dict):
            raise WebhookError("the patched document is not an object")
        return changed


def review_request(
    review: Review, requested: Review, versions: Sequence[str]
) -> tuple[str, str, bytes]:
    """Return the uid, the version and the body of the request for a review.

    `review` has the object in the version that the webhook accepts, `requested` in the version of
    the client's request. The uid depends on the content only, so that the same review has the same
    one.
    """
    version = next((each for each in versions if each in _VERSIONS), _VERSIONS[0])
    described = review.request()
    shown = requested.request()
    for key in ("requestKind", "requestResource", "requestSubResource"):
        described[key] = shown[key]
    user = {key: value for key, value in described["userInfo"].items() if value} or _OWN_USER
    options = _OPTIONS[review.operation]
    request: Json = {
        **{key: value for key, value in described.items() if value != ""},
        "userInfo": user,
        "object": _shown(review, review.new),
        "oldObject": _shown(review, review.old),
        "options": {"kind": options, "apiVersion": "meta.k8s.io/v1"},
    }
    digest = hashlib.sha256(msgspec.json.encode(request, order="sorted")).digest()
    request["uid"] = uid = str(uuid.UUID(bytes=digest[:16], version=4))
    body = {
        "kind": "AdmissionReview",
        "apiVersion": f"admission.k8s.io/{version}",
        "request": request,
    }
    return uid, version, msgspec.json.encode(body)


def _shown(review: Review, data: Json | None) -> Json | None:
    shown = review.shown(data)
    if shown is None or review.operation != "CREATE":
        return shown
    # The server adds the time when it stores the object, after admission.
    metadata = {**shown["metadata"], "creationTimestamp": None}
    return {**shown, "metadata": metadata}


def read_response(name: str, uid: str, version: str, body: bytes, *, mutates: bool) -> Verdict:
    """Return what a webhook's response means. Raises WebhookError if it is not valid."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise WebhookError(f"could not get REST client response: {error}") from error
    if not isinstance(document, dict):
        raise WebhookError("webhook response was absent")
    wanted = f"admission.k8s.io/{version}"
    kind, given = document.get("kind", ""), document.get("apiVersion", "")
    if (kind, given) != ("AdmissionReview", wanted):
        raise WebhookError(
            f"expected webhook response of {wanted}, Kind=AdmissionReview, got {given}, Kind={kind}"
        )
    response = document.get("response")
    if not isinstance(response, dict):
        raise WebhookError("webhook response was absent")
    if response.get("uid") != uid:
        raise WebhookError(f'expected response.uid="{uid}", got "{response.get("uid", "")}"')
    warnings = tuple(each for each in response.get("warnings") or () if isinstance(each, str))
    if response.get("allowed") is not True:
        return Verdict(_denial(name, response.get("status")), warnings=warnings)
    return Verdict(None, _patch_of(response, mutates=mutates), warnings)


def _patch_of(response: Mapping[str, Any], *, mutates: bool) -> Sequence[Any]:
    patch, kind = response.get("patch"), response.get("patchType")
    if not patch and not kind:
        return ()
    if not mutates:
        raise WebhookError("webhook returned response.patch, which validation cannot apply")
    if kind != "JSONPatch":
        raise WebhookError(f'webhook returned invalid response.patchType of "{kind or ""}"')
    try:
        decoded = msgspec.json.decode(base64.b64decode(str(patch), validate=True))
    except (binascii.Error, msgspec.DecodeError, RecursionError) as error:
        raise WebhookError(f"the patch cannot be decoded: {error}") from error
    if not isinstance(decoded, list):
        raise WebhookError("the patch is no list of operations")
    return decoded


def _denial(name: str, status: Any) -> ApiError:
    """Return the refusal of a write, with the status that a webhook gave."""
    given = status if isinstance(status, dict) else {}
    code = given.get("code")
    reason = given.get("reason")
    reason = reason if isinstance(reason, str) else ""
    message = given.get("message")
    text = f'admission webhook "{name}" denied the request'
    if isinstance(message, str) and message:
        text += f": {message}"
    elif reason:
        text += f": {reason}"
    else:
        text += " without explanation"
    return ApiError(
        Status(
            status="Failure",
            message=text,
            reason=reason,
            details=StatusDetails(),
            code=code if isinstance(code, int) and 400 <= code < 600 else 400,
        )
    )
