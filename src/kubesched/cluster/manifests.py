"""Manifests: objects from users' YAML files, completely checked before any of them is created.

A file contains any mix of kinds, in several documents or in lists. Every object has its file and
line, and every problem names the line of its field. The store's own rules check the objects,
together with the other objects of the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubesched.api.access import ApiError
from kubesched.api.base import ApiObject
from kubesched.api.core import Namespace
from kubesched.api.custom_kinds import CustomObject
from kubesched.api.plain_kinds import PlainObject
from kubesched.api.quantity import quantity_from_json
from kubesched.api.scheduling import PodGroup, Workload
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.rules.errors.api_errors import not_found
from kubesched.cluster.apiserver.rules.request_documents import remove_nulls
from kubesched.cluster.apiserver.rules.schema import unknown_fields
from kubesched.cluster.apiserver.rules.strategies.server_features import (
    POD_GROUPS,
    SWITCHED_FEATURES,
)
from kubesched.cluster.apiserver.store.custom_resource_definitions import serve_definition
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.manifest_kinds import (
    ManifestKind,
    ManifestKinds,
    is_definition,
    serve_everything,
)
from kubesched.cluster.named_accounts import create_named_accounts
from kubesched.errors import ManifestError, QuantityError
from kubesched.foundation.util.bounded_file import read_bounded_text
from kubesched.foundation.util.standard_input import read_standard_text
from kubesched.foundation.util.yaml_documents import YamlDocument, YamlProblem, read_documents

__all__ = ["Manifest", "apply_manifests", "load_manifests"]

_STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json")
# Fields that a server has written into an exported object.
_SERVER_METADATA = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_AMOUNTS = frozenset({"requests", "limits", "capacity", "allocatable", "overhead"})
_INVALID = 422
_NOT_FOUND = 404
_FORBIDDEN = 403


class Manifest(msgspec.Struct, frozen=True):
    """An object of a user's file, with the line where it starts."""

    file: str
    line: int
    object: ApiObject
    # The object as JSON, with fields that its type does not declare.
    document: dict[str, Any]
    # Whether it was exported from a cluster, and is loaded with its identity.
    is_dumped: bool = False

    @property
    def location(self) -> str:
        return f"{self.file}:{self.line}"


def load_manifests(
    paths: Sequence[str | Path], definitions: Iterable[dict[str, Any]] = ()
) -> list[Manifest]:
    """Read the objects of files, those that others refer to first; `-` is standard input.

    `definitions` are the custom resources that the cluster serves already.

    Raises:
        ManifestError: one line `FILE:LINE: problem` for each problem.
    """
    problems = _Problems()
    parts: list[tuple[str, YamlDocument]] = []
    for path in paths:
        for file, text in _texts(str(path), problems):
            problems.begin(file)
            for part in read_documents(text):
                if isinstance(part, YamlProblem):
                    problems.add(file, part.line, part.text)
                else:
                    parts += ((file, each) for each in _items(file, part, problems))
    store = Store(features=SWITCHED_FEATURES)  # the server refuses what its gates turn off
    serve_everything(store)
    for each in definitions:
        serve_definition(store, each)
    kinds = ManifestKinds(store, (part.value for _, part in parts))
    read = (_object(file, part, kinds, problems) for file, part in parts)
    found = [each for each in read if each is not None]
    found.sort(key=lambda each: kinds.rank(type(each.object)))
    _validate(found, store, problems)
    problems.raise_if_any()
    return [each.manifest() for each in found]


async def apply_manifests(
    api: LocalApi, manifests: Iterable[Manifest], *, keep_existing: bool = False
) -> None:
    """Create the objects, with the status of their files, and the service accounts they name.

    With `keep_existing` existing objects are not changed. Dumped objects never replace existing
    ones; they keep uids, owners, nodes and status, and missing namespaces are created.

    Raises:
        ManifestError: the server refuses an object; those before it have been created.
    """
    manifests = list(manifests)
    for manifest in manifests:
        kind, document = type(manifest.object), manifest.document
        if isinstance(manifest.object, CustomObject | PlainObject):
            serve_everything(api.store)
        try:
            if manifest.is_dumped:
                api.load(kind, document)
            else:
                namespace = document["metadata"].get("namespace")
                created: Any = await api.create_document(kind, namespace, document)
                await _apply_status(api, manifest, created)
            if is_definition(kind):
                serve_definition(api.store, dict(api.document(kind, document["metadata"]["name"])))
        except ApiError as error:
            if keep_existing and error.reason == "AlreadyExists":
                continue
            text = f"{manifest.location}: {error}"
            if kind in (PodGroup, Workload) and error.reason == "NotFound":
                text += f" ({kind.kind} needs the feature gate {POD_GROUPS})"
            raise ManifestError(text) from error
    await create_named_accounts(api, (each.document for each in manifests))


async def _apply_status(api: LocalApi, manifest: Manifest, created: Any) -> None:
    status = getattr(manifest.object, "status", None)
    if is_definition(type(manifest.object)):
        return  # the server writes this status
    if isinstance(created, CustomObject):
        namespace = manifest.document["metadata"].get("namespace")
        resource = api.store.catalog.by_type(type(manifest.object))
        if status and resource.strategy.has_status:
            name = created.metadata.name
            patch = {"status": status}
            await api.patch(
                type(manifest.object),
                name,
                namespace,
                patch,
                patch_type="merge",
                subresource="status",
            )
    elif status is not None and "status" in manifest.document and created.status != status:
        changed = msgspec.structs.replace(created, status=status)
        await api.update(changed, subresource="status")


def _texts(path: str, problems: _Problems) -> Iterator[tuple[str, str]]:
    """Yield the files of a path, which may be a folder, with their content."""
    if path == _STDIN:
        yield "<stdin>", read_standard_text()
        return
    place = Path(path)
    files = [place]
    if place.is_dir():
        files = sorted(file for file in place.iterdir() if file.suffix in _SUFFIXES)
        if not files:
            problems.add(path, 1, "a directory without YAML or JSON files")
    for file in files:
        try:
            yield str(file), read_bounded_text(file, "utf-8-sig")
        except UnicodeDecodeError as error:
            problems.add(str(file), 1, f"not UTF-8 text: {error.reason}")
        except OSError as error:
            problems.add(str(file), 1, f"cannot be read: {error.strerror}")


class _Problems:
    """Problems of all files, reported in the order of files and lines."""

    def __init__(self) -> None:
        self._files: dict[str, int] = {}
        self._found: list[tuple[int, int, str]] = []

    def begin(self, file: str) -> int:
        """Register a file, and return its position in the report."""
        return self._files.setdefault(file, len(self._files))

    def add(self, file: str, line: int, text: str) -> None:
        self._found.append((self.begin(file), line, f"{file}:{line}: {text}"))

    def raise_if_any(self) -> None:
        if self._found:
            raise ManifestError("\n".join(text for _, _, text in sorted(self._found)))


class _Found:
    """A parsed object, before it becomes a manifest."""

    def __init__(
        self,
        file: str,
        source: YamlDocument,
        document: Any,
        parsed: ApiObject,
        *,
        is_dumped: bool,
    ) -> None:
        self.is_dumped = is_dumped
        self.file = file
        self.source = source
        self.document = document
        self.object = parsed

    def manifest(self) -> Manifest:
        return Manifest(
            self.file, self.source.line, self.object, self.document, is_dumped=self.is_dumped
        )


def _items(file: str, source: YamlDocument, problems: _Problems) -> list[YamlDocument]:
    """Return the objects of a document: itself, or the items of a list."""
    value = source.value
    if value is None:
        return []
    if not isinstance(value, dict):
        problems.add(file, source.line, f"not an object but a {_name(value)}")
        return []
    kind = value.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(value.get("items"), list):
        found: list[YamlDocument] = []
        for index, item in enumerate(value["items"]):
            part = source.item("items", index)
            if isinstance(item, dict) and kind != "List":
                # Items of a typed list may leave out kind and version.
                head = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
                part.value = {**head, **item}
            found += _items(file, part, problems)
        return found
    return [source]


def _object(
    file: str, source: YamlDocument, kinds: ManifestKinds, problems: _Problems
) -> _Found | None:
    value = source.value
    is_dumped = _is_dumped(value)
    kind = _kind_of(file, source, kinds, problems, is_dumped=is_dumped)
    if kind is None:
        return None
    if not is_dumped:
        for path in unknown_fields(kind.group, kind.version, kind.kind, value):
            problems.add(file, source.line_of(path), f'unknown field "{path}"')
    document = remove_nulls(
        {k: v for k, v in value.items() if k not in ("apiVersion", "kind")}, None
    )
    if wrong := _wrong_amounts_of(kind.type, document):
        for at, text in wrong:
            problems.add(file, source.line_of(at), f"{at}: {text}")
        return None
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        document["metadata"] = _own_metadata(
            metadata, is_dumped=is_dumped, namespaced=kind.namespaced
        )
    if not _has_name(document):
        line = source.line if metadata is None else source.line_of("metadata")
        problems.add(file, line, "metadata.name is missing")
        return None
    try:
        parsed = msgspec.convert(document, kind.type)
    except msgspec.ValidationError as error:
        path, text = _explained(error, document)
        problems.add(file, source.line_of(path), text)
        return None
    return _Found(file, source, document, parsed, is_dumped=is_dumped)


def _kind_of(
    file: str, source: YamlDocument, kinds: ManifestKinds, problems: _Problems, *, is_dumped: bool
) -> ManifestKind | None:
    """Return the kind of an object, or report why it has none."""
    missing = [field for field in ("apiVersion", "kind") if not source.value.get(field)]
    for field in missing:
        problems.add(file, source.line, f"{field} is missing")
    if missing:
        return None
    named = str(source.value["apiVersion"]), str(source.value["kind"])
    kind = kinds.find(*named)
    # A dump may contain kinds that this server does not have.
    if kind is None and not is_dumped:
        problems.add(file, source.line_of("kind"), kinds.unknown(*named))
    return kind


def _has_name(document: dict[str, Any]) -> bool:
    """Whether an object has a name; the decoder reports metadata of another type."""
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        return bool(metadata.get("name") or metadata.get("generateName"))
    return metadata is not None


def _wrong_amounts_of(kind: type[Any], document: Any) -> list[tuple[str, str]]:
    """In objects without a declared schema a field `limits` need not be quantities."""
    has_schema = not issubclass(kind, CustomObject | PlainObject)
    return _wrong_amounts(document, "") if has_schema else []


def _own_metadata(metadata: dict[str, Any], *, is_dumped: bool, namespaced: bool) -> dict[str, Any]:
    """Drop the fields that the server sets, unless it has set them; default the namespace."""
    if not is_dumped:
        metadata = {k: v for k, v in metadata.items() if k not in _SERVER_METADATA}
    if namespaced:
        metadata.setdefault("namespace", "default")
    return metadata


def _is_dumped(value: dict[str, Any]) -> bool:
    """Whether a server has created the object: then it has a uid."""
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("uid"))


_JSON_TYPES = {"array": list, "object": dict, "bool": bool, "int": int, "float": float, "str": str}
_ANY_KEY = "[...]"


def _explained(error: msgspec.ValidationError, document: Any) -> tuple[str, str]:
    """Return the path of a type error, and a text that begins with it."""
    text, _, path = str(error).partition(" - at `$")
    path = path.rstrip("`").removeprefix(".")
    text = text.replace("`", "")
    before, wildcard, after = path.partition(_ANY_KEY)
    if wildcard:
        # The error does not name the key of a map: search for a value of the type it names.
        got = _JSON_TYPES.get(text.rpartition("got ")[2])
        for key, value in _walk(document, before).items():
            if after or type(value) is got:
                path = f"{before}[{key}]{after}"
                break
    shown = text[:1].lower() + text[1:]
    return path, f"{path}: {shown}" if path else shown


def _walk(document: Any, path: str) -> dict[str, Any]:
    """Return the map at a path; empty if there is none."""
    value = document
    for index, key in re.findall(r"\[(\d+)\]|([^.\[\]]+)", path):
        value = value[int(index)] if index else value.get(key, {})
    return value if isinstance(value, dict) else {}


def _wrong_amounts(value: Any, path: str) -> list[tuple[str, str]]:
    """Return the paths of invalid quantities, with texts."""
    wrong: list[tuple[str, str]] = []
    if isinstance(value, list):
        for index, item in enumerate(value):
            wrong += _wrong_amounts(item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            at = f"{path}.{key}" if path else key
            if key in _AMOUNTS and isinstance(item, dict):
                wrong += _wrong_quantities(item, at)
            else:
                wrong += _wrong_amounts(item, at)
    return wrong


def _wrong_quantities(amounts: dict[str, Any], path: str) -> list[tuple[str, str]]:
    wrong = []
    for name, raw in amounts.items():
        if isinstance(raw, dict | list | bool):
            continue  # the capacity of a device, or a type error that is reported later
        try:
            quantity_from_json(raw)
        except QuantityError as error:
            wrong.append((f"{path}[{name}]", f"{raw!r} is no quantity: {error}"))
    return wrong


def _name(value: Any) -> str:
    return {list: "list", str: "text", int: "number", float: "number", bool: "boolean"}.get(
        type(value), type(value).__name__
    )


def _validate(found: Sequence[_Found], store: Store, problems: _Problems) -> None:
    """Create all objects in an empty store, and record its errors."""
    namespaces = store.catalog.by_type(Namespace)
    for each in found:
        if each.is_dumped:
            # Another server has validated it already.
            if is_definition(type(each.object)):
                store.load(store.catalog.by_type(type(each.object)), dict(each.document), 0)
                serve_everything(store)
            continue
        namespace = each.document["metadata"].get("namespace")
        try:
            resource = store.catalog.by_type(type(each.object))
            if resource.namespaced and store.find("namespaces", namespace) is None:
                line = each.source.line_of("metadata.namespace")
                problems.add(each.file, line, str(not_found("namespaces", namespace)))
                store.create(namespaces, None, {"metadata": {"name": namespace}}, 0)
            created = store.create(resource, namespace, each.document, 0)
            if is_definition(type(each.object)):
                serve_definition(store, created.data)
        except ApiError as error:
            if isinstance(each.object, CustomObject) and error.code == _NOT_FOUND:
                continue  # its definition is invalid, which is reported
            for path, text in _complaints(error):
                problems.add(each.file, each.source.line_of(path), text)


def _complaints(error: ApiError) -> list[tuple[str, str]]:
    """Return the paths and texts of a refusal."""
    details = error.status.details
    if details is None or not details.causes or error.code != _INVALID:
        path = "spec.priorityClassName" if error.code == _FORBIDDEN else "metadata.name"
        return [(path, str(error))]
    complaints = []
    for cause in details.causes:
        path = cause.field
        if path.startswith("metadata.taints"):
            path = path.replace("metadata", "spec", 1)  # the reference's path is off
        complaints.append((path, f"{path}: {cause.message}"))
    return complaints
