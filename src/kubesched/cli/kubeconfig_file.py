"""Where a kubeconfig goes while a cluster runs, and how it is taken out again."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from kubesched.apiserver.http.kubeconfig import write_private
from kubesched.util.errors import KubeschedError

__all__ = ["kubeconfig_file"]

_LISTS: Final = ("clusters", "users", "contexts")
_CURRENT: Final = "current-context"


@contextlib.contextmanager
def kubeconfig_file(text: str, path: Path | None) -> Iterator[Path]:
    """Write a kubeconfig to a file, or to a temporary one; at the end of the block it is gone.

    In a file that exists its entries are added to those that are there, its context becomes the
    current one, and at the end all is as it was before but for what others changed meanwhile.

    Raises:
        KubeschedError: the file cannot be written, or is no kubeconfig: it is left alone.
    """
    if path is None:
        descriptor, name = tempfile.mkstemp(prefix="kubesched-", suffix=".kubeconfig")
        os.close(descriptor)
        path = Path(name)
        path.unlink()
    entry = _Entry(path, yaml.safe_load(text))
    entry.add()
    try:
        yield path
    finally:
        entry.remove()


class _Entry:
    """One context with its cluster and user, in a file that may have others."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self._path = path
        self._document = document
        self._before: bytes | None = None  # None: there was no such file
        self._written = b""
        self._context_before: Any = None

    def add(self) -> None:
        try:
            self._before = self._path.read_bytes() if self._path.exists() else None
            there = self._read(self._before)
            self._rename(_names(there["contexts"]))
            self._context_before = there.get(_CURRENT)
            for key in _LISTS:
                own = self._names(key)
                there[key] = [each for each in there[key] if _name(each) not in own]
                there[key] += self._document[key]
            self._write(there | {_CURRENT: self._document[_CURRENT]})
        except OSError as exc:
            raise KubeschedError(f"cannot write {self._path}: {exc.strerror}") from exc

    def remove(self) -> None:
        with contextlib.suppress(OSError, KubeschedError):  # gone, or no longer what it was
            if self._path.read_bytes() == self._written:
                if self._before is None:
                    self._path.unlink()
                else:
                    self._path.write_bytes(self._before)
                return
            there = self._read(self._path.read_bytes())
            for key in _LISTS:
                own = self._names(key)
                there[key] = [each for each in there[key] if _name(each) not in own]
            if there.get(_CURRENT) == self._document[_CURRENT]:
                there[_CURRENT] = self._context_before or ""
            self._write(there)

    def _read(self, content: bytes | None) -> dict[str, Any]:
        """What a file holds, with an empty list for what it lacks."""
        try:
            there = yaml.safe_load(content or b"")
        except yaml.YAMLError as exc:
            raise KubeschedError(f"{self._path} is not YAML, and was left alone") from exc
        empty: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
        there = empty if there is None else there
        if not isinstance(there, dict) or there.get("kind", "Config") != "Config":
            raise KubeschedError(f"{self._path} is not a kubeconfig, and was left alone")
        lists = {key: there.get(key) or [] for key in _LISTS}
        if not all(isinstance(each, list) for each in lists.values()):
            raise KubeschedError(f"{self._path} is not a kubeconfig, and was left alone")
        return there | lists

    def _rename(self, taken: set[str]) -> None:
        """Take a name that no context of the file has."""
        (context,), (user,) = self._document["contexts"], self._document["users"]
        (cluster,) = self._document["clusters"]
        first = name = context["name"]
        number = 1
        while name in taken:
            number += 1
            name = f"{first}-{number}"
        cluster["name"] = context["name"] = self._document[_CURRENT] = name
        user["name"] = f"{name}-admin"
        context["context"] |= {"cluster": name, "user": user["name"]}

    def _names(self, key: str) -> set[str]:
        return _names(self._document[key])

    def _write(self, document: dict[str, Any]) -> None:
        text = yaml.safe_dump(document, sort_keys=False)
        write_private(self._path, text)
        self._written = text.encode()


def _names(entries: list[Any]) -> set[str]:
    return {_name(each) for each in entries}


def _name(entry: Any) -> str:
    return str(entry.get("name", "")) if isinstance(entry, dict) else ""
