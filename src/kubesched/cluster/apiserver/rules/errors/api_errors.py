"""The errors of the API server, with the reference's codes and texts.

Each function returns an `ApiError` for the caller to raise. The name of a resource is that in
messages: its plural, with its group after a dot (`leases.coordination.k8s.io`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api.access import ApiError
from kubesched.api.meta import ListMeta, Status, StatusCause, StatusDetails
from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.foundation.util.go_format import quote

__all__ = [
    "access_denied",
    "already_exists",
    "apply_conflict",
    "bad_patch",
    "bad_request",
    "conflict",
    "denied_by_policy",
    "expired",
    "forbidden",
    "internal_error",
    "invalid",
    "method_not_allowed",
    "missing_field_manager",
    "namespace_terminating",
    "not_acceptable",
    "not_found",
    "stale",
    "timed_out",
    "too_large",
    "too_many_operations",
    "too_many_requests",
    "too_many_values",
    "too_much_to_check",
    "too_new",
    "unauthorized",
    "unknown_failure",
    "unknown_resource",
    "unsupported_media_type",
    "unsupported_option",
    "unsupported_patch",
    "wrong_uid",
]

STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def _refusal(
    code: int,
    reason: str,
    message: str,
    details: StatusDetails | None = None,
    continue_token: str = "",
) -> ApiError:
    return ApiError(
        Status(
            metadata=ListMeta(continue_token=continue_token),
            status="Failure",
            message=message,
            reason=reason,
            details=details,
            code=code,
        )
    )


def _about(resource: str, name: str, causes: Sequence[StatusCause] = ()) -> StatusDetails:
    plural, _, group = resource.partition(".")
    return StatusDetails(name=name, group=group, kind=plural, causes=tuple(causes))


_CODES = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


def denied_by_policy(resource: str, name: str, text: str, reason: str) -> ApiError:
    """Refuse a write because of an admission policy."""
    message = f"{resource} {quote(name)} is forbidden: {text}"
    causes = [StatusCause(message=text)]
    return _refusal(_CODES.get(reason, 422), reason, message, _about(resource, name, causes))


def not_found(resource: str, name: str) -> ApiError:
    message = f"{resource} {quote(name)} not found"
    return _refusal(404, "NotFound", message, _about(resource, name))


def unknown_resource() -> ApiError:
    message = "the server could not find the requested resource"
    return _refusal(404, "NotFound", message, StatusDetails())


def already_exists(resource: str, name: str) -> ApiError:
    message = f"{resource} {quote(name)} already exists"
    return _refusal(409, "AlreadyExists", message, _about(resource, name))


def conflict(resource: str, name: str, text: str) -> ApiError:
    message = f"Operation cannot be fulfilled on {resource} {quote(name)}: {text}"
    return _refusal(409, "Conflict", message, _about(resource, name))


def stale(resource: str, name: str) -> ApiError:
    """Refuse a write that is based on an older version of the object."""
    return conflict(resource, name, STALE)


def wrong_uid(resource: str, key: str, name: str, requested: str, stored: str) -> ApiError:
    """Refuse a write for another object of the same name."""
    plural = resource.partition(".")[0]
    text = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{plural}/{key}, "
        "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: "
        f"UID in precondition: {requested}, UID in object meta: {stored}"
    )
    return conflict(resource, name, text)


def invalid(kind: str, name: str, problems: Sequence[FieldProblem]) -> ApiError:
    """Refuse an invalid object.

    `kind` has its group after a dot, if it has one: `Pod`, `Lease.coordination.k8s.io`.
    """
    texts = list(dict.fromkeys(str(problem) for problem in problems))
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    causes = [
        StatusCause(reason=problem.reason, message=problem.body, field=problem.field)
        for problem in problems
    ]
    message = f"{kind} {quote(name)} is invalid: {listed}"
    return _refusal(422, "Invalid", message, _about(kind, name, causes))


def forbidden(resource: str, name: str, text: str, causes: Sequence[StatusCause] = ()) -> ApiError:
    message = f"{resource} {quote(name)} is forbidden: {text}"
    return _refusal(403, "Forbidden", message, _about(resource, name, causes))


def missing_account(metadata: Mapping[str, Any], namespace: str, name: str) -> ApiError:
    """Return the refusal of a pod whose service account does not exist."""
    text = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
    return forbidden("pods", metadata.get("name") or metadata.get("generateName") or "", text)


def bad_request(message: str) -> ApiError:
    return _refusal(400, "BadRequest", message)


def bad_patch(text: str) -> ApiError:
    return _refusal(422, "Invalid", f"the server rejected our request due to an error: {text}")


def unsupported_patch(*, strategic: bool) -> ApiError:
    """Refuse a patch type that the resource does not support (415)."""
    accepted = ["application/json-patch+json", "application/merge-patch+json"]
    if strategic:
        accepted.append("application/strategic-merge-patch+json")
    return unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )


def namespace_terminating(resource: str, name: str, namespace: str) -> ApiError:
    text = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = StatusCause(
        reason="NamespaceTerminating",
        message=f"namespace {namespace} is being terminated",
        field="metadata.namespace",
    )
    return forbidden(resource, name, text, [cause])


def unsupported_media_type(message: str) -> ApiError:
    return _refusal(415, "UnsupportedMediaType", message)


def unknown_failure(message: str) -> ApiError:
    """Return an error of code 500 without a reason, as the reference does for untyped errors."""
    return _refusal(500, "", message)


def expired(message: str, continue_token: str = "") -> ApiError:
    return _refusal(410, "Expired", message, continue_token=continue_token)


def not_acceptable(message: str) -> ApiError:
    return _refusal(406, "NotAcceptable", message, StatusDetails())


def unauthorized() -> ApiError:
    return _refusal(401, "Unauthorized", "Unauthorized")


def access_denied(resource: str, name: str, message: str) -> ApiError:
    """Refuse a request that the user is not authorized to make; `message` is the whole text."""
    return _refusal(403, "Forbidden", message, _about(resource, name))


def method_not_allowed() -> ApiError:
    message = "the server does not allow this method on the requested resource"
    return _refusal(405, "MethodNotAllowed", message, StatusDetails())


def not_supported_now(resource: str, message: str) -> ApiError:
    """Refuse a method that the resource does not support in its present state (405)."""
    return _refusal(405, "MethodNotAllowed", message, _about(resource, ""))


def not_possible(message: str) -> ApiError:
    """Refuse a request that an embedded server cannot fulfill (501)."""
    return _refusal(501, "NotImplemented", message)


def too_large(limit: int) -> ApiError:
    message = f"Request entity too large: limit is {limit}"
    return _refusal(413, "RequestEntityTooLarge", message)


def too_many_values(limit: int) -> ApiError:
    message = f"Request entity too large: limit is {limit} values in an object"
    return _refusal(413, "RequestEntityTooLarge", message)


def too_many_operations(count: int, limit: int) -> ApiError:
    message = (
        "Request entity too large: The allowed maximum operations in a JSON patch is "
        f"{limit}, got {count}"
    )
    return _refusal(413, "RequestEntityTooLarge", message)


def too_much_to_check(limit: int) -> ApiError:
    message = f"Request entity too large: checking it takes more than {limit} steps"
    return _refusal(413, "RequestEntityTooLarge", message)


def too_many_requests(
    message: str, retry_after_seconds: int, causes: Sequence[StatusCause] = ()
) -> ApiError:
    details = StatusDetails(retry_after_seconds=retry_after_seconds, causes=tuple(causes))
    return _refusal(429, "TooManyRequests", message, details)


def internal_error(message: str) -> ApiError:
    return _refusal(500, "InternalError", f"Internal error occurred: {message}")


def service_unavailable(message: str) -> ApiError:
    return _refusal(503, "ServiceUnavailable", message)


def unsupported_option(kind: str, field: str, value: str, supported: Sequence[str]) -> ApiError:
    """Refuse a parameter with an unsupported value (422)."""
    listed = ", ".join(quote(each) for each in supported)
    text = f"Unsupported value: {quote(value)}: supported values: {listed}"
    return invalid(kind, "", [FieldProblem(field, "FieldValueNotSupported", text)])


def too_new(revision: int, current: int) -> ApiError:
    """Refuse a list at a revision that does not exist yet (504)."""
    message = f"Too large resource version: {revision}, current: {current}"
    cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
    details = StatusDetails(causes=(cause,), retry_after_seconds=1)
    return _refusal(504, "Timeout", message, details)


def apply_conflict(causes: Sequence[StatusCause]) -> ApiError:
    """Refuse an apply that would change fields of other managers (409)."""
    if len(causes) == 1:
        text = f"1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        by_owner: dict[str, list[str]] = {}
        for cause in causes:
            by_owner.setdefault(cause.message.removeprefix("conflict with "), []).append(
                cause.field
            )
        listed = "\n".join(
            f"conflicts with {owner}:\n" + "\n".join(f"- {field}" for field in fields)
            for owner, fields in sorted(by_owner.items())
        )
        text = f"{len(causes)} conflicts: {listed}"
    return _refusal(
        409, "Conflict", f"Apply failed with {text}", StatusDetails(causes=tuple(causes))
    )


def missing_field_manager() -> ApiError:
    text = "Required value: is required for apply patch"
    problem = FieldProblem("fieldManager", "FieldValueRequired", text)
    return invalid("PatchOptions.meta.k8s.io", "", [problem])


def timed_out(message: str) -> ApiError:
    return _refusal(408, "Timeout", message)
