"""Conversion of request bodies to checked documents.

A checked document contains no nulls, and every field that its type declares has that type. The
rules rely on this.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.api.base import ApiStruct
from kubesched.cluster.apiserver.rules.errors.api_errors import bad_request
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.schema import type_problem
from kubesched.cluster.apiserver.rules.schema.definitions import definition_of
from kubesched.cluster.apiserver.rules.strategies.shared_specs import (
    SharedSpec,
    compute_once,
    share_spec,
)
from kubesched.cluster.apiserver.rules.time_fields import InvalidTimeError, canonical_times

__all__ = [
    "check_document",
    "check_types_of_fields",
    "decode_details",
    "invalid_body",
    "remove_nulls",
]

Json = dict[str, Any]

# A place in the Go source, which the message names.
_SCHEME = "pkg/api/legacyscheme/scheme.go:30"
_encode = msgspec.json.Encoder().encode


def check_document(resource: Resource, body: Any) -> Json:
    """Check a body and return it without its kind and version.

    Raises:
        ApiError: 400, it is not an object of this kind.
    """
    if not isinstance(body, dict):
        raise invalid_body(resource, "expected an object")
    _check_kind(resource, body)
    document: Json = {k: v for k, v in body.items() if k not in ("kind", "apiVersion")}
    if resource.type is not Pod or (spec := _valid_shared_spec(document.get("spec"))) is None:
        return _checked(resource, document)
    rest = _checked(resource, {key: document[key] for key in document if key != "spec"})
    whole = {**rest, "spec": spec}
    return {key: whole[key] for key in document if key in whole}


def _check_kind(resource: Resource, body: Json) -> None:
    """Raises ApiError 400 for a body that names another kind or version."""
    kind, version = body.get("kind") or resource.kind, body.get("apiVersion")
    version = version or resource.api_version
    if (kind, version) == (resource.kind, resource.api_version):
        return
    if resource.type is None or not isinstance(kind, str) or not isinstance(version, str):
        message = (
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"got {version}, Kind={kind}"
        )
        raise bad_request(message)
    group, _, short = version.rpartition("/")
    if definition_of(group, short, kind) is None:
        problem = f'no kind "{kind}" is registered for version "{version}" in scheme "{_SCHEME}"'
    elif kind == resource.kind and group == resource.group:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    else:
        package = resource.group.partition(".")[0] or "core"
        problem = f"converting ({short}.{kind}) to ({package}.{resource.kind}): unknown conversion"
    text = f'{kind} in version "{short}" cannot be handled as a {resource.kind}: {problem}'
    raise bad_request(text)


def _checked(resource: Resource, document: Json) -> Json:
    if resource.type is not None:
        if _may_have_nulls(document):
            document = remove_nulls(document, None)
        try:
            msgspec.convert(document, resource.type)
        except msgspec.ValidationError as exc:
            raise invalid_body(resource, str(exc)) from exc
        check_types_of_fields(resource, document)
    return decode_details(resource, document)


def check_types_of_fields(resource: Resource, document: Json, known: Json | None = None) -> None:
    """Check the types of all fields in the published schema of the resource.

    Parts that are the same objects as in the `known` document are not checked again.

    Raises:
        ApiError: 400.
    """
    wrong = type_problem(resource.group, resource.version, resource.kind, document, known)
    if wrong is not None:
        raise invalid_body(resource, wrong)


def _valid_shared_spec(spec: Any) -> SharedSpec | None:
    """Return the shared form of a pod's spec if it is valid, else None.

    Equal specs are checked only once. For an invalid spec the caller checks the whole pod, which
    finds the problem. A spec with a time that is not canonical is not shared either.
    """
    if not isinstance(spec, dict):
        return None
    try:
        shared_spec = share_spec(spec)
    except (TypeError, ValueError, RecursionError):
        return None
    return shared_spec if compute_once(_is_valid, shared_spec) else None


def _is_valid(spec: Json) -> bool:
    document = {"spec": spec}
    if _may_have_nulls(document):
        return False
    try:
        msgspec.convert(document, Pod)
    except msgspec.ValidationError:
        return False
    if type_problem("", "v1", "Pod", document) is not None:
        return False
    try:
        return canonical_times("", "v1", "Pod", document) is document
    except InvalidTimeError:
        return False


def decode_details(resource: Resource, document: Json, known: Json | None = None) -> Json:
    """Decode the fields that the struct types do not: times and `metadata.managedFields`.

    Returns the document with its times in canonical form. Parts that are the same objects as in
    the `known` document are not decoded again.

    Raises:
        ApiError: 400.
    """
    group, version, kind = resource.group, resource.version, resource.kind
    try:
        document = canonical_times(group, version, kind, document, known)
    except InvalidTimeError as exc:
        raise invalid_body(resource, str(exc)) from exc
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("managedFields"):
        return document
    try:
        msgspec.convert(metadata["managedFields"], list[_ManagedFields])
    except msgspec.ValidationError as exc:
        place = str(exc).replace("$", "$.metadata.managedFields", 1)
        raise invalid_body(resource, place) from exc
    return document


_SCALARS = (str, int, float)


class _ManagedFields(ApiStruct):
    """An entry of `metadata.managedFields`, which `ObjectMeta` does not declare."""

    manager: str = ""
    operation: str = ""
    api_version: str = ""
    time: str | None = None
    fields_type: str = ""
    fields_v1: dict[str, Any] | None = msgspec.field(name="fieldsV1", default=None)
    subresource: str = ""


def invalid_body(resource: Resource, text: str) -> ApiError:
    """Return a 400 error for a body whose fields do not have the declared types."""
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {text}"
    )


def _may_have_nulls(document: Json) -> bool:
    """Whether a document may contain nulls. Encoding it is faster than walking through it."""
    try:
        return b"null" in _encode(document)
    except (TypeError, ValueError, RecursionError):
        return True


def remove_nulls(value: Any, known: Any) -> Any:
    """Remove nulls from a value. Parts that are the same objects as in `known` have none."""
    if value is known:
        return value
    if isinstance(value, dict):
        before = known if isinstance(known, dict) else {}
        return {
            key: item if isinstance(item, _SCALARS) else remove_nulls(item, before.get(key))
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        items = known if isinstance(known, list) else ()
        return [
            remove_nulls(item, items[index] if index < len(items) else None)
            for index, item in enumerate(value)
        ]
    return value
