"""Bodies of requests: from anything a client may send to JSON that the rules can rely on.

After this no null is left, and every field that a type declares has the declared type.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.api.base import ApiStruct
from kubesched.api.plain_kinds import PlainObject
from kubesched.cluster.apiserver.rules.errors.api_errors import bad_request
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.schema import type_problem
from kubesched.cluster.apiserver.rules.strategies.shared_specs import SharedSpec, once, shared
from kubesched.cluster.apiserver.rules.time_fields import time_problem

__all__ = ["check_details", "checked_document", "cleaned", "unreadable"]

Json = dict[str, Any]

_encode = msgspec.json.Encoder().encode


def checked_document(resource: Resource, body: Any) -> Json:
    """An object as a client sent it, without its kind and version.

    Raises:
        ApiError: 400, it is not an object of this kind.
    """
    if not isinstance(body, dict):
        raise unreadable(resource, "expected an object")
    kind, version = body.get("kind"), body.get("apiVersion")
    if (kind and kind != resource.kind) or (version and version != resource.api_version):
        message = (
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"got {version or ''}, Kind={kind or ''}"
        )
        raise bad_request(message)
    document: Json = {k: v for k, v in body.items() if k not in ("kind", "apiVersion")}
    if resource.type is not Pod or (spec := _readable_spec(document.get("spec"))) is None:
        return _readable(resource, document)
    rest = _readable(resource, {key: document[key] for key in document if key != "spec"})
    whole = {**rest, "spec": spec}
    return {key: whole[key] for key in document if key in whole}


def _readable(resource: Resource, document: Json) -> Json:
    if resource.type is not None:
        if _may_have_nulls(document):
            document = cleaned(document, None)
        try:
            msgspec.convert(document, resource.type)
        except msgspec.ValidationError as exc:
            raise unreadable(resource, str(exc)) from exc
        if issubclass(resource.type, PlainObject):
            wrong = type_problem(resource.group, resource.version, resource.kind, document)
            if wrong is not None:
                raise unreadable(resource, wrong)
    check_details(resource, document)
    return document


def _readable_spec(given: Any) -> SharedSpec | None:
    """The spec of a pod, if it can be read as it is; of many that are equal one is looked at.

    What is wrong with any other is for the look at the whole pod to say.
    """
    if not isinstance(given, dict):
        return None
    try:
        spec = shared(given)
    except (TypeError, ValueError, RecursionError):
        return None
    return spec if once(_is_readable, spec) else None


def _is_readable(spec: Json) -> bool:
    document = {"spec": spec}
    if _may_have_nulls(document):
        return False
    try:
        msgspec.convert(document, Pod)
    except msgspec.ValidationError:
        return False
    return not time_problem("", "v1", "Pod", document)


def check_details(resource: Resource, document: Json, known: Json | None = None) -> None:
    """Check what the types of objects leave open: times, and who owns which fields.

    Raises:
        ApiError: 400.
    """
    group, version, kind = resource.group, resource.version, resource.kind
    if problem := time_problem(group, version, kind, document, known):
        raise unreadable(resource, problem)
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("managedFields"):
        return
    try:
        msgspec.convert(metadata["managedFields"], list[_ManagedFields])
    except msgspec.ValidationError as exc:
        place = str(exc).replace("$", "$.metadata.managedFields", 1)
        raise unreadable(resource, place) from exc


_SCALARS = (str, int, float)


class _ManagedFields(ApiStruct):
    """`ObjectMeta` has no such field, because nobody else reads it."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str | None = None
    fields_type: str = ""
    fields_v1: dict[str, Any] | None = msgspec.field(name="fieldsV1", default=None)
    subresource: str = ""


def unreadable(resource: Resource, text: str) -> ApiError:
    """400 for a body that does not have the types of its kind."""
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {text}"
    )


def _may_have_nulls(document: Json) -> bool:
    """Whether it is worth looking for nulls. Writing a document down is quicker than a walk."""
    try:
        return b"null" in _encode(document)
    except (TypeError, ValueError, RecursionError):
        return True


def cleaned(value: Any, known: Any) -> Any:
    """The value without nulls, down to the parts that are known to have none."""
    if value is known:
        return value
    if isinstance(value, dict):
        before = known if isinstance(known, dict) else {}
        return {
            key: item if isinstance(item, _SCALARS) else cleaned(item, before.get(key))
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        items = known if isinstance(known, list) else ()
        return [
            cleaned(item, items[index] if index < len(items) else None)
            for index, item in enumerate(value)
        ]
    return value
