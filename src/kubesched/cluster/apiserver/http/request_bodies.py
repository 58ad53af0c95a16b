"""Parsing of request bodies: JSON, YAML or protobuf. Errors have the reference's texts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.http.media_types import body_language
from kubesched.cluster.apiserver.http.protobuf import read_protobuf
from kubesched.cluster.apiserver.http.protobuf.wire_encoding import MalformedError
from kubesched.cluster.apiserver.rules.custom import CustomStrategy
from kubesched.cluster.apiserver.rules.custom.structural_schema import unknown_paths
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import forbidden
from kubesched.cluster.apiserver.rules.errors.value_limit import (
    MOST_VALUES,
    check_values,
    value_refusal,
)
from kubesched.cluster.apiserver.rules.patching.patches import MOST_OPERATIONS
from kubesched.cluster.apiserver.rules.request_documents import remove_nulls
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.schema.unknown_fields import duplicate_fields, unknown_fields
from kubesched.foundation.http.http_messages import Request
from kubesched.foundation.util.yaml_limits import TooManyValuesError
from kubesched.foundation.util.yaml_reader import YamlLoader, load_yaml

__all__ = [
    "check_delete_options",
    "check_types",
    "field_problems",
    "read_applied",
    "read_applied_scale",
    "read_body",
    "read_document",
    "read_json",
    "read_options",
    "read_patch",
]

_PRECONDITIONS = ("uid", "resourceVersion")
_SHOWN_BYTES = 30
_VALIDATIONS = ("Ignore", "Warn", "Strict")


def read_document(request: Request, resource: Resource) -> tuple[dict[str, Any], Sequence[str]]:
    """Parse the object in a body. Returns it with warnings for the client.

    Raises:
        ApiError: 400, 415.
    """
    body = request.body
    document = read_body(request, resource.kind)
    if body_language(request.headers.get("content-type")) != "json":
        body = b""  # only JSON is checked for duplicate fields
    if not isinstance(document, dict):
        raise api_errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get "
            "version/kind; json parse error: json: cannot unmarshal "
            f"{_go_kind(document)} into Go value of type struct "
            '{ APIVersion string "json:\\"apiVersion,omitempty\\""; '
            f'Kind string "json:\\"kind,omitempty\\"" }} ({_summary(request.body)})'
        )
    return document, field_problems(request, resource, document, body)


def read_applied(request: Request, resource: Resource) -> tuple[dict[str, Any], Sequence[str]]:
    """Parse the body of an apply patch. Returns it without nulls, with warnings for the client.

    Raises:
        ApiError: 400.
    """
    document = _read_yaml(request.body, resource.kind)
    repeated = _repeated_keys(request)
    if not isinstance(document, dict) or not isinstance(document.get("metadata", {}), dict):
        raise api_errors.bad_request("error decoding YAML: expected an object")
    kind, version = document.get("kind"), document.get("apiVersion")
    if (kind, version) != (resource.kind, resource.api_version):
        raise api_errors.bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): "
            f"got {version or ''}, Kind={kind or ''}"
        )
    if unknown := _unknown(resource, document):
        raise _undeclared(resource, document, unknown)
    problems = repeated
    applied: dict[str, Any] = remove_nulls(document, None)
    if applied.get("metadata", {}).get("managedFields"):
        raise api_errors.bad_request("metadata.managedFields must be nil")
    return applied, problems


def read_applied_scale(request: Request) -> dict[str, Any]:
    """Parse a Scale in the body of an apply patch. Raises ApiError 400."""
    document = _read_yaml(request.body, "Scale")
    if not isinstance(document, dict):
        raise api_errors.bad_request("error decoding YAML: expected an object")
    kind, version = document.get("kind"), document.get("apiVersion")
    if (kind, version) != ("Scale", "autoscaling/v1"):
        raise api_errors.bad_request(
            "the object provided is unrecognized (must be of type Scale): "
            f"got {version or ''}, Kind={kind or ''}"
        )
    check_types(document, "Scale", {"metadata": dict, "spec": dict})
    check_types(document.get("spec") or {}, "Scale", {"replicas": int})
    return document


def field_problems(
    request: Request, resource: Resource, document: Any, body: bytes = b""
) -> Sequence[str]:
    """Find unknown and duplicate fields to warn about. Raises ApiError 400 if strict."""
    validation = request.query.get("fieldValidation") or "Warn"
    if validation not in _VALIDATIONS:
        options = "CreateOptions.meta.k8s.io"
        raise api_errors.unsupported_option(options, "fieldValidation", validation, _VALIDATIONS)
    if validation == "Ignore":
        return ()
    repeated = [f'duplicate field "{path}"' for path in (duplicate_fields(body) if body else ())]
    unknown = _unknown(resource, document)
    problems = [*(f'unknown field "{path}"' for path in unknown), *repeated]
    if problems and validation == "Strict":
        raise api_errors.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: strict decoding error: {', '.join(problems)}"
        )
    return problems


def _unknown(resource: Resource, document: Any) -> list[str]:
    """Return the paths of fields that the resource does not have."""
    strategy = resource.strategy
    if isinstance(strategy, CustomStrategy) and strategy.custom is not None:
        return list(unknown_paths(document, strategy.custom.schema, is_resource=True))
    return unknown_fields(resource.group, resource.version, resource.kind, document)


def _undeclared(resource: Resource, document: dict[str, Any], paths: Sequence[str]) -> ApiError:
    """Create a 500 error for unknown fields in an apply. No manager can own such fields."""
    metadata = document.get("metadata") or {}
    place = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    lines = [f".{path}: field not declared in schema" for path in paths]
    listed = lines[0] if len(lines) == 1 else "errors:\n  " + "\n  ".join(lines)
    return api_errors.unknown_failure(
        f"failed to create typed patch object ({place}; {resource.api_version}, "
        f"Kind={resource.kind}): {listed}"
    )


def _repeated_keys(request: Request) -> Sequence[str]:
    """Find duplicate keys in a YAML body to warn about. Raises ApiError 400 if strict."""
    validation = request.query.get("fieldValidation") or "Warn"
    if validation == "Ignore":
        return ()
    if _as_json(request.body) is not None and not duplicate_fields(request.body):
        return ()
    try:
        root = yaml.compose(request.body, Loader=YamlLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return ()  # `_read_yaml` has already refused such a body
    found = [f'line {line}: key "{key}" already set in map' for line, key in _repeated(root)]
    if found and validation == "Strict":
        lines = "\n  ".join(found)
        text = "error decoding YAML: error converting YAML to JSON: yaml: unmarshal errors"
        raise api_errors.bad_request(f"{text}:\n  {lines}")
    return found


def _repeated(root: Any) -> Iterator[tuple[int, str]]:
    """Iterate over duplicate keys with their lines."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if isinstance(key.value, str):
                    if key.value in seen:
                        yield key.start_mark.line + 1, key.value
                    seen.add(key.value)
                waiting.append(value)


def read_body(request: Request, kind: str) -> Any:
    """Parse a body in the format of its content type. Raises ApiError 400, 415."""
    language = body_language(request.headers.get("content-type"))
    if language == "yaml":
        return _read_yaml(request.body, kind)
    if language == "json":
        return read_json(request.body, kind)
    try:
        return read_protobuf(request.body)
    except MalformedError as exc:
        raise api_errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): {exc} "
            f"({_summary(request.body)})"
        ) from exc


def read_json(body: bytes, kind: str) -> Any:
    """Parse a JSON body. Raises ApiError 400, 413."""
    check_values(body)
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise api_errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            f"version/kind; json parse error: {_parse_error(body)} ({_summary(body)})"
        ) from None


def read_patch(request: Request, patch_type: str, kind: str) -> Any:
    """Parse the body of a patch that is not an apply. Raises ApiError 400, 413, 422."""
    if "force" in request.query:
        text = "may not be specified for non-apply patch"
        raise api_errors.invalid("PatchOptions.meta.k8s.io", "", [forbidden("force", text)])
    patch = read_json(request.body, kind)
    if patch_type == "json":
        if not isinstance(patch, list):
            raise api_errors.bad_request(_cannot_decode(patch, "jsonpatch.Patch"))
        if len(patch) > MOST_OPERATIONS:
            raise api_errors.too_many_operations(len(patch), MOST_OPERATIONS)
    elif not isinstance(patch, dict):
        text = _cannot_decode(patch, "map[string]interface {}")
        prefix = "error decoding patch: " if patch_type == "merge" else ""
        raise api_errors.bad_request(prefix + text)
    return patch


def _cannot_decode(value: Any, wanted: str) -> str:
    return f"json: cannot unmarshal {_go_kind(value)} into Go value of type {wanted}"


def read_options(request: Request) -> dict[str, Any]:
    """Parse the DeleteOptions in a body; empty without a body. Raises ApiError 400, 415."""
    if not request.body:
        return {}
    options = read_body(request, "DeleteOptions")
    if not isinstance(options, dict):
        raise api_errors.bad_request("expected DeleteOptions")
    check_delete_options(options)
    return options


def check_delete_options(options: Any) -> None:
    """Check the types of the fields that are read. Raises ApiError 400."""
    kind = "DeleteOptions"
    check_types({kind: options}, kind, {kind: dict})
    if options:
        check_types(options, kind, {"preconditions": dict, "dryRun": list})
        check_types(options.get("preconditions") or {}, kind, dict.fromkeys(_PRECONDITIONS, str))


def check_types(part: Mapping[str, Any], kind: str, types: Mapping[str, type]) -> None:
    """Check the types of fields; None is allowed. Raises ApiError 400."""
    for name, wanted in types.items():
        value = part.get(name)
        if value is not None and not isinstance(value, wanted):
            raise api_errors.bad_request(
                f'{kind} in version "v1" cannot be handled as a {kind}: json: cannot unmarshal '
                f"{_go_kind(value)} into Go struct field {kind}.{name}"
            )


def _as_json(body: bytes) -> Any:
    """Parse a YAML body that is also JSON, as most clients send it. Returns None otherwise.

    The JSON parser is a hundred times as fast as the YAML parser.
    """
    if body[:1] != b"{":
        return None
    check_values(body)
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _read_yaml(body: bytes, kind: str) -> Any:
    if (document := _as_json(body)) is not None:
        return document
    try:
        return load_yaml(body, most_values=MOST_VALUES)
    except TooManyValuesError:
        raise value_refusal() from None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as exc:
        problem = " ".join(str(exc).split())
        raise api_errors.bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get "
            f"version/kind; json parse error: yaml: {problem} ({_summary(body)})"
        ) from None


def _parse_error(body: bytes) -> str:
    """Return the error text of Go's JSON decoder for an invalid body."""
    try:
        text = body.decode()
        json.loads(text)
    except UnicodeDecodeError as exc:
        return f"invalid character {_quoted(chr(body[exc.start]))} looking for beginning of value"
    except RecursionError:
        return "exceeded max depth"
    except json.JSONDecodeError as exc:
        if exc.pos >= len(text) or exc.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        place = {
            "Extra data": "after top-level value",
            "Expecting ',' delimiter": "after object key:value pair",
            "Expecting ':' delimiter": "after object key",
            "Expecting property name enclosed in double quotes": (
                "looking for beginning of object key string"
            ),
        }.get(exc.msg, "looking for beginning of value")
        return f"invalid character {_quoted(text[exc.pos])} {place}"
    return "invalid JSON"


def _quoted(character: str) -> str:
    return "'\\''" if character == "'" else f"'{character}'"


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    cut = body[:_SHOWN_BYTES]
    text = cut.decode(errors="replace") if body[:1] == b"{" else cut.hex()
    return text + " ..." if len(body) > _SHOWN_BYTES else text


def _go_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return {list: "array", dict: "object", str: "string", type(None): "null"}.get(
        type(value), "number"
    )
