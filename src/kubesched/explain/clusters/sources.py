"""Reads the objects of a cluster from files and dumps, a live cluster or a capture.

These functions only read, and only kinds that scheduling depends on. They return the names of what
could not be read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kubesched.api import ApiError, Node, Pod
from kubesched.api.access import ApiAccess
from kubesched.api.base import ApiObject
from kubesched.api.codec import from_builtins
from kubesched.api.custom_kinds import named_custom_kind
from kubesched.api.kinds import KINDS, Kind, by_api_version_kind
from kubesched.cluster.apiserver.rules.time_fields import time_problem
from kubesched.explain.clusters.absent_kinds import absent_kinds
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.clusters.dump_files import dumped_kinds, read_file_documents, read_texts

__all__ = ["SCHEDULING_KINDS", "Loaded", "Reading", "find_readable", "load_files", "read_cluster"]

# Kinds that scheduling reads; other objects of a dump are skipped.
_UNRELATED = frozenset(["ConfigMap", "Secret", "Lease", "Event", "Binding"])
SCHEDULING_KINDS: Final[tuple[Kind, ...]] = tuple(
    kind for kind in KINDS if kind.kind not in _UNRELATED
)
_SCHEDULING_GROUP_KINDS = frozenset((kind.group, kind.kind) for kind in SCHEDULING_KINDS)
_PAGE = 5000
_REFUSED = (401, 403)
_UNSERVED = 404


class Loaded(NamedTuple):
    """The objects, and what could not be read."""

    objects: list[ApiObject]
    unknown: tuple[str, ...] = ()  # kinds that may not be read
    skipped: int = 0  # objects of kinds that scheduling does not read
    partial: tuple[str, ...] = ()  # kinds that may be read in one namespace only
    # Of files: the pods that the first file is about, see `load_files`.
    pods: tuple[Pod, ...] = ()


class Reading(NamedTuple):
    """The kinds that the user may list."""

    kinds: tuple[Kind, ...]
    unknown: tuple[str, ...] = ()  # kinds that may not be read
    partial: tuple[str, ...] = ()  # kinds that may be read in this namespace only:
    namespace: str = ""

    def namespace_of(self, kind: Kind) -> str | None:
        """Return the namespace to list a kind in; None: all namespaces."""
        return self.namespace if kind.kind in self.partial else None


def load_files(paths: Sequence[str | Path], stdin: str = "") -> Loaded:
    """Read manifests or dumps, YAML or JSON, plain or gzipped; `-` is standard input.

    A folder is read with the folders in it. Kinds that objects refer to, and of which no file has
    an object or an empty list, are unknown. `pods` are those of the first file with pods; files
    that also have nodes come last.

    Raises:
        ExplainError: one line `FILE:LINE: problem` for each problem.
    """
    reader = _FileReader()
    parts = [reader.read(str(path), stdin) for path in paths]
    if reader.problems:
        raise ExplainError("\n".join(reader.problems))
    objects = [each for part in parts for each in part]
    unknown = absent_kinds(objects, reader.listed - reader.unreadable)
    return Loaded(objects, unknown, reader.skipped, pods=_first_pods(parts))


def _first_pods(parts: Iterable[Sequence[ApiObject]]) -> tuple[Pod, ...]:
    """Return the pods of the first file that has some, preferably of one without nodes."""
    for has_nodes in (False, True):
        for part in parts:
            pods = tuple(each for each in part if isinstance(each, Pod))
            if pods and any(isinstance(each, Node) for each in part) is has_nodes:
                return pods
    return ()


class _FileReader:
    """Reads objects from files, and counts and records what cannot be read."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.skipped = 0  # objects of kinds that scheduling does not read
        self.listed: set[str] = set()  # kinds that the files list, also if a list is empty
        self.unreadable: set[str] = set()  # kinds with objects of another version of the API

    def read(self, path: str, stdin: str) -> list[ApiObject]:
        """Return the objects of a file or folder."""
        found: list[ApiObject] = []
        for file, text in read_texts(path, stdin):
            self.listed |= dumped_kinds(text)
            if not text.strip():
                self.problems.append(f"{file}: is empty")
            for line, value in read_file_documents(file, text, self.problems):
                found += self._objects(file, line, value)
        return found

    def _objects(self, file: str, line: int, value: Any) -> list[ApiObject]:
        """Return the objects of a document or of its list."""
        if value is None:
            return []
        if not isinstance(value, dict):
            what = "a table or another text" if isinstance(value, str) else "no mapping"
            self.problems.append(
                f"{file}:{line}: not an object but {what}; objects come from manifests and from "
                "`kubectl get` with -o yaml or -o json"
            )
            return []
        kind, version = str(value.get("kind", "")), str(value.get("apiVersion", ""))
        items = value.get("items")
        if kind.endswith("List") and isinstance(items, list):
            head = {"apiVersion": version, "kind": kind.removesuffix("List")}
            self.listed.add(head["kind"])
            found: list[ApiObject] = []
            for item in items:
                whole = item if kind == "List" or not isinstance(item, dict) else {**head, **item}
                found += self._objects(file, line, whole)
            return found
        # Custom resources are read if a plugin uses them.
        known = by_api_version_kind(version, kind) or named_custom_kind(version, kind)
        if known is None or known.kind in _UNRELATED:
            self.skipped += 1
            if known is None and (version.rpartition("/")[0], kind) in _SCHEDULING_GROUP_KINDS:
                self.unreadable.add(kind)
            return []
        return self._parsed(f"{file}:{line}: {kind}", known, value)

    def _parsed(self, place: str, known: Kind, value: dict[str, Any]) -> list[ApiObject]:
        try:
            parsed = from_builtins(_with_namespace(value, known), known.type)
        except msgspec.ValidationError as error:
            self.problems.append(f"{place}: {error}")
            return []
        if problem := time_problem(known.group, known.version, known.kind, value):
            self.problems.append(f"{place}: {problem}")
            return []
        return [parsed]


def _with_namespace(value: dict[str, Any], kind: Kind) -> dict[str, Any]:
    metadata = value.get("metadata")
    if not kind.namespaced or not isinstance(metadata, dict) or metadata.get("namespace"):
        return value
    return {**value, "metadata": {**metadata, "namespace": "default"}}


async def read_cluster(
    api: ApiAccess, kinds: Iterable[Kind] = SCHEDULING_KINDS, namespace: str = ""
) -> Loaded:
    """List the objects that scheduling depends on; forbidden kinds are recorded, not fatal.

    Kinds that may not be listed in all namespaces are listed in the given one.

    Raises:
        ExplainError: pods cannot be read.
        ApiError: the server cannot be reached.
    """
    objects: list[ApiObject] = []
    unknown, partial = [], []
    for kind in kinds:
        found, where = await _first_allowed(api, kind, namespace, _list_all)
        if found is None:
            unknown.append(kind.kind)
        else:
            objects += found
            if where is not None:
                partial.append(kind.kind)
    return Loaded(objects, tuple(unknown), partial=tuple(partial))


async def find_readable(
    api: ApiAccess, kinds: Iterable[Kind] = SCHEDULING_KINDS, namespace: str = ""
) -> Reading:
    """Find out which kinds may be listed, without listing them completely.

    Raises:
        ExplainError: pods cannot be read.
        ApiError: the server cannot be reached.
    """
    readable, unknown, partial = [], [], []
    for kind in kinds:
        found, where = await _first_allowed(api, kind, namespace, _list_one)
        if found is None:
            unknown.append(kind.kind)
            continue
        if found:
            readable.append(kind)
        if where is not None:
            partial.append(kind.kind)
    return Reading(tuple(readable), tuple(unknown), tuple(partial), namespace)


_List = Callable[[ApiAccess, Kind, str | None], Awaitable[list[Any]]]


async def _first_allowed(
    api: ApiAccess, kind: Kind, namespace: str, listed: _List
) -> tuple[list[Any] | None, str | None]:
    """List all namespaces or, if forbidden, one; return the list and the namespace.

    The list is None if both are forbidden, and empty if the kind is not served.
    """
    places = (None, namespace) if kind.namespaced and namespace else (None,)
    refusal: ApiError | None = None
    for place in places:
        try:
            return await listed(api, kind, place), place
        except ApiError as error:
            if error.code == _UNSERVED:
                return [], None
            if error.code not in _REFUSED:
                raise
            refusal = error
    if kind.kind == "Pod":
        raise ExplainError(f"{kind.plural} cannot be read: {refusal}") from refusal
    return None, None


async def _list_one(api: ApiAccess, kind: Kind, namespace: str | None) -> list[Any]:
    """Check that the kind may be listed; return a list that is not empty if it may."""
    await api.list(kind.type, namespace, limit=1)
    return [kind]


async def _list_all(api: ApiAccess, kind: Kind, namespace: str | None) -> list[Any]:
    found: list[Any] = []
    token = ""
    while True:
        page = await api.list(kind.type, namespace, limit=_PAGE, continue_token=token)
        found += page.items
        token = page.continue_token
        if not token:
            return found
