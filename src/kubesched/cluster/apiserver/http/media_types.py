"""Which forms a client can read, and which it has written.

Answers are JSON or YAML. Objects are in Kubernetes' binary form only for clients that read nothing
else, metadata alone for those that like it better. Bodies may be in any of them.
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
    """How to show objects: in which language, and how much of them."""

    language: str = "json"
    shape: Shape = "object"
    # Of the group `meta.k8s.io`, for tables and metadata.
    version: str = "v1"


def accepted_form(accept: str) -> Form:
    """The first form in an Accept header that the server can give. Raises ApiError 406.

    Objects that can be had in JSON are: it is made once for all who read it. Metadata alone is
    not, and its binary form lacks what clients compare: the kind of every item of a list.
    """
    if not accept:
        return Form()
    binary: Form | None = None
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        language = _LANGUAGES.get(media)
        if language is None:
            continue
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        wanted = given.get("as")
        version = given.get("v", "v1")
        if wanted is None:
            found = Form(language)
        elif wanted in _SHAPES and given.get("g") == "meta.k8s.io" and version in _META_VERSIONS:
            found = Form(language, _SHAPES[wanted], version)
        else:
            continue
        if language != "protobuf" or (binary is None and found.shape == "metadata"):
            return found
        if binary is None and found.shape != "table":
            binary = found
    if binary is not None:
        return binary
    raise api_errors.not_acceptable(_NOT_ACCEPTABLE)


def body_language(content_type: str) -> str:
    """`json`, `yaml` or `protobuf`. Raises ApiError 415."""
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
    """The kind of patch that a body is. Raises ApiError 415."""
    media = content_type.partition(";")[0].strip()
    found = _PATCHES.get(media)
    if found is None or (found == "strategic" and not strategic):
        raise _unsupported_patch(strategic=strategic)
    return found


def _unsupported_patch(*, strategic: bool) -> ApiError:
    names = [name for name in _PATCHES if strategic or "strategic" not in name]
    return api_errors.unsupported_media_type(_UNKNOWN_BODY + ", ".join(names))
