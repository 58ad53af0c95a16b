"""The documents in files: manifests, dumps of `kubectl get`, and `kubectl cluster-info dump`.

`kubectl cluster-info dump` writes JSON lists one after another, with the logs of containers
between them, or a folder with a file for each kind.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from kubesched.api.kinds import KINDS, Kind
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.foundation.util.bounded_file import read_bounded, unzipped
from kubesched.foundation.util.yaml_documents import YamlProblem, read_documents

__all__ = ["DUMPED", "dumped_kinds", "name_for_kubectl", "read_file_documents", "read_texts"]

# `kubesched dump-command` writes this comment and a kind for each kind that it has listed.
DUMPED: Final = "# kubesched-dumped:"
_STDIN: Final = "-"
_SUFFIXES: Final = (".yaml", ".yml", ".json", ".yaml.gz", ".yml.gz", ".json.gz")
_LOGS: Final = re.compile(
    r"^==== START logs for container .*?^==== END logs for container [^\n]*$",
    re.MULTILINE | re.DOTALL,
)
_DUMPED_LINE: Final = re.compile(rb"^" + DUMPED.encode() + rb" *([a-z0-9.]+)\s*$", re.MULTILINE)
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Encodings of these names in JSON, in YAML and as plain text. Other texts match, too, which only
# costs time.
_MAY_CONTROL: Final = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\\[uUxabefvN0r_]"
)
_SPACE: Final = re.compile(r"\s*")


def read_texts(path: str, stdin: str) -> Iterator[tuple[str, bytes]]:
    """Return the name and content of a file, of all files of a folder, or of standard input.

    Raises:
        ExplainError: a file cannot be read.
    """
    if path == _STDIN:
        yield "<stdin>", stdin.encode()
        return
    for file in _files_of(Path(path)):
        try:
            content = read_bounded(file)
        except OSError as error:
            raise ExplainError(f"{file}: cannot be read: {error.strerror}") from error
        try:
            yield str(file), unzipped(content) if content[:2] == b"\x1f\x8b" else content
        except (OSError, EOFError, zlib.error) as error:
            raise ExplainError(f"{file}: no gzip file: {error}") from error


def _files_of(place: Path) -> list[Path]:
    if not place.is_dir():
        return [place]
    found = sorted(
        each for each in place.rglob("*") if each.name.endswith(_SUFFIXES) and each.is_file()
    )
    if not found:
        error = ExplainError(f"{place}: the folder has no file of {', '.join(_SUFFIXES[:3])}")
        error.add_note("folders in it have been searched as well")
        raise error
    return found


def dumped_kinds(text: bytes) -> set[str]:
    """Return the kinds that comments of `kubesched dump-command` name."""
    named = {each.decode() for each in _DUMPED_LINE.findall(text)}
    return {kind.kind for kind in KINDS if name_for_kubectl(kind) in named}


def name_for_kubectl(kind: Kind) -> str:
    """Return the argument of `kubectl get` for a kind, such as `podgroups.scheduling.k8s.io`."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def read_file_documents(file: str, text: bytes, problems: list[str]) -> Iterator[tuple[int, Any]]:
    """Return the documents of a text, each with the number of its first line; record errors.

    Control characters are replaced, because a terminal would interpret those in a name as commands.
    """
    may_control = _MAY_CONTROL.search(text) is not None
    for line, value in _documents(file, text, problems):
        try:
            printable = _printable(value) if may_control else value
        except RecursionError:
            problems.append(f"{file}:{line}: nested too deeply")
            continue
        yield line, printable


def _printable(value: Any) -> Any:
    """Return a value in whose texts only line ends and tabs are left of the control characters."""
    if isinstance(value, str):
        return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {_printable(key): _printable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return value


def _documents(file: str, text: bytes, problems: list[str]) -> Iterator[tuple[int, Any]]:
    is_json = text.lstrip()[:1] in (b"{", b"[")
    if is_json:
        try:
            yield 1, msgspec.json.decode(text)
            return
        except (msgspec.DecodeError, RecursionError):
            pass  # several documents, or YAML with such a beginning
    try:
        decoded = text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problems.append(f"{file}:1: not UTF-8 text: {error.reason}")
        return
    decoded = _LOGS.sub(_blank, decoded)
    if is_json and (values := _json_values(decoded)) is not None:
        yield from values
        return
    for part in read_documents(decoded):
        if isinstance(part, YamlProblem):
            problems.append(f"{file}:{part.line}: {part.text}")
        else:
            yield part.line, part.value


def _blank(logs: re.Match[str]) -> str:
    """Return the same number of empty lines, so that later line numbers stay correct."""
    return "\n" * logs[0].count("\n")


def _json_values(text: str) -> list[tuple[int, Any]] | None:
    """Return consecutive JSON values; None if the text contains anything else."""
    decoder = json.JSONDecoder()
    found: list[tuple[int, Any]] = []
    place, line, counted = 0, 1, 0
    while True:
        blank = _SPACE.match(text, place)
        place = place if blank is None else blank.end()
        if place == len(text):
            return found
        line += text.count("\n", counted, place)
        counted = place
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return None
        found.append((line, value))
