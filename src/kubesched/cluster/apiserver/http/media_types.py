"""Content negotiation: the formats that a client accepts and the format of a body.

The server answers in JSON or YAML. It sends protobuf only to clients that accept nothing else,
and for metadata-only objects to clients that prefer it. Request bodies may have any format.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kubesched.api.access import ApiError, PatchType
from kubesched.cluster.apiserver.http.protobuf import PROTOBUF
from kubesched.cluster.apiserver.rules.errors import api_errors

__all__ = ["NO_METADATA", "Form", "accepted_form", "body_language", "patch_type"]

Shape = Literal["object", "table", "metadata"]
_SHAPES: dict[str, Shape] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
_META_VERSIONS = ("v1", "v1beta1")
_LANGUAGES = {
    "application/json": "json",
    "application/yaml": "yaml",
    PROTOBUF: "protobuf",
    "application/*": "json",
    "*/*": "json",
}
_NOT_ACCEPTABLE = (
    "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
    "application/vnd.kubernetes.protobuf, application/json;stream=watch, "
    "application/vnd.kubernetes.protobuf;stream=watch"
)
NO_METADATA = (
    "the server could not find the requested resource as a table or as metadata: it is an answer, "
    "not an object"
)
_UNKNOWN_BODY = "the body of the request was in an unknown format - accepted media types include: "
_PATCHES: dict[str, PatchType] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


class Form(NamedTuple):
    """The format and the shape of the objects in a response."""

    language: str = "json"
    shape: Shape = "object"
    version: str = "v1"  # of the group `meta.k8s.io`, for tables and metadata


def accepted_form(accept: str) -> Form:
    """Choose the form of a response from an Accept header. Raises ApiError 406.

    This is the first form in the header that the server supports, with one exception: the
    server prefers JSON to protobuf for whole objects, because it encodes an object as JSON only
    once for all clients. Metadata-only objects are not cached. Their protobuf form is used if
    it comes first.
    """
    if not accept:
        return Form()
    binary: Form | None = None
    for clause in accept.split(","):
        found = _form_of(clause)
        if found is None:
            continue
        if found.language != "protobuf" or (binary is None and found.shape == "metadata"):
            return found
        if binary is None and found.shape != "table":
            binary = found
    if binary is not None:
        return binary
    raise api_errors.not_acceptable(_NOT_ACCEPTABLE)


def _form_of(clause: str) -> Form | None:
    """Parse one clause of an Accept header; None if the server does not support it."""
    media, *parameters = (part.strip() for part in clause.split(";"))
    language = _LANGUAGES.get(media)
    if language is None:
        return None
    options = dict(parameter.partition("=")[::2] for parameter in parameters)
    shape = options.get("as")
    if shape is None:
        return Form(language)
    version = options.get("v", "v1")
    if shape in _SHAPES and options.get("g") == "meta.k8s.io" and version in _META_VERSIONS:
        return Form(language, _SHAPES[shape], version)
    return None


def body_language(content_type: str) -> str:
    """Return `json`, `yaml` or `protobuf`. Raises ApiError 415."""
    media = content_type.partition(";")[0].strip()
    if not media or media == "application/json":
        return "json"
    if media == "application/yaml":
        return "yaml"
    if media == PROTOBUF:
        return "protobuf"
    accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    raise api_errors.unsupported_media_type(_UNKNOWN_BODY + accepted)


def patch_type(content_type: str, *, strategic: bool) -> PatchType:
    """Return the patch type of a content type. Raises ApiError 415.

    `strategic` says whether the resource supports strategic merge patches.
    """
    media = content_type.partition(";")[0].strip()
    found = _PATCHES.get(media)
    if found is None or (found == "strategic" and not strategic):
        raise _unsupported_patch(strategic=strategic)
    return found


def _unsupported_patch(*, strategic: bool) -> ApiError:
    names = [name for name in _PATCHES if strategic or "strategic" not in name]
    return api_errors.unsupported_media_type(_UNKNOWN_BODY + ", ".join(names))
