"""Reads the objects of a cluster from files and dumps, a live cluster or a capture.

Only reading, and only kinds that scheduling depends on. What cannot be read is named.
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kubesched.api import ApiError
from kubesched.api.access import ApiAccess
from kubesched.api.base import ApiObject
from kubesched.api.codec import from_builtins
from kubesched.api.kinds import KINDS, Kind, by_api_version_kind
from kubesched.cluster.apiserver.rules.time_fields import time_problem
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.foundation.util.bounded_file import read_bounded, unzipped
from kubesched.foundation.util.yaml_documents import YamlProblem, read_documents

__all__ = ["SCHEDULING_KINDS", "Loaded", "Reading", "find_readable", "load_files", "read_cluster"]

# Kinds that scheduling reads; other objects of a dump are skipped.
_UNRELATED = frozenset(["ConfigMap", "Secret", "Lease", "Event", "Binding"])
SCHEDULING_KINDS: Final[tuple[Kind, ...]] = tuple(
    kind for kind in KINDS if kind.kind not in _UNRELATED
)
_STDIN = "-"
_PAGE = 5000
_REFUSED = (401, 403)
_UNSERVED = 404


class Loaded(NamedTuple):
    """The objects, and what could not be read."""

    objects: list[ApiObject]
    unknown: tuple[str, ...] = ()  # kinds that may not be read
    skipped: int = 0  # objects of kinds that scheduling does not read
    partial: tuple[str, ...] = ()  # kinds of which one namespace may be read


class Reading(NamedTuple):
    """The kinds that the user may list."""

    kinds: tuple[Kind, ...]
    unknown: tuple[str, ...] = ()  # kinds that may not be read
    partial: tuple[str, ...] = ()  # kinds that may be read in one namespace:
    namespace: str = ""

    def namespace_of(self, kind: Kind) -> str | None:
        """Return the namespace to list a kind in; None: all namespaces."""
        return self.namespace if kind.kind in self.partial else None


def load_files(paths: Sequence[str | Path], stdin: str = "") -> Loaded:
    """Read manifests or dumps, YAML or JSON, plain or gzipped; `-` is standard input.

    Raises:
        ExplainError: `FILE:LINE: what is wrong`, one line for each thing that is.
    """
    objects: list[ApiObject] = []
    problems: list[str] = []
    skipped = 0
    for path in paths:
        for file, text in _texts(str(path), stdin):
            for line, value in _documents(file, text, problems):
                found, left_out = _objects(file, line, value, problems)
                objects += found
                skipped += left_out
    if problems:
        raise ExplainError("\n".join(problems))
    return Loaded(objects, (), skipped)


def _texts(path: str, stdin: str) -> Iterator[tuple[str, bytes]]:
    if path == _STDIN:
        yield "<stdin>", stdin.encode()
        return
    place = Path(path)
    files = [place]
    if place.is_dir():
        files = sorted(
            each for each in place.iterdir() if each.suffix in (".yaml", ".yml", ".json")
        )
    for file in files:
        try:
            content = read_bounded(file)
        except OSError as error:
            raise ExplainError(f"{file}: cannot be read: {error.strerror}") from error
        try:
            yield str(file), unzipped(content) if content[:2] == b"\x1f\x8b" else content
        except (OSError, EOFError, zlib.error) as error:
            raise ExplainError(f"{file}: no gzip file: {error}") from error


def _documents(file: str, text: bytes, problems: list[str]) -> Iterator[tuple[int, Any]]:
    if text.lstrip()[:1] in (b"{", b"["):
        try:
            yield 1, msgspec.json.decode(text)
            return
        except (msgspec.DecodeError, RecursionError):
            pass  # YAML may begin like that as well
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.append(f"{file}:1: not UTF-8 text: {error.reason}")
        return
    for part in read_documents(decoded):
        if isinstance(part, YamlProblem):
            problems.append(f"{file}:{part.line}: {part.text}")
        else:
            yield part.line, part.value


def _objects(file: str, line: int, value: Any, problems: list[str]) -> tuple[list[ApiObject], int]:
    """Return the objects of a document or of its list, and the number of skipped ones."""
    if value is None:
        return [], 0
    if not isinstance(value, dict):
        problems.append(f"{file}:{line}: not an object")
        return [], 0
    kind = str(value.get("kind", ""))
    items = value.get("items")
    if kind.endswith("List") and isinstance(items, list):
        head = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
        found: list[ApiObject] = []
        skipped = 0
        for item in items:
            whole = item if kind == "List" or not isinstance(item, dict) else {**head, **item}
            each, left_out = _objects(file, line, whole, problems)
            found += each
            skipped += left_out
        return found, skipped
    known = by_api_version_kind(str(value.get("apiVersion", "")), kind)
    if known is None or known.kind in _UNRELATED:
        return [], 1
    try:
        parsed = from_builtins(_with_namespace(value, known), known.type)
    except msgspec.ValidationError as error:
        problems.append(f"{file}:{line}: {kind}: {error}")
        return [], 0
    if problem := time_problem(known.group, known.version, kind, value):
        problems.append(f"{file}:{line}: {kind}: {problem}")
        return [], 0
    return [parsed], 0


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
