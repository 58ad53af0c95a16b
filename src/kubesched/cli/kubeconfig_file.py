"""The kubeconfig of a running cluster: a file, or a context in the user's file."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from kubesched.cluster.apiserver.http.client_kubeconfig import write_private
from kubesched.errors import KubeschedError
from kubesched.foundation.util.yaml_reader import load_yaml

__all__ = ["KubeconfigEntry", "kubeconfig_file", "remove_context"]

_LISTS: Final = ("clusters", "users", "contexts")
_CURRENT: Final = "current-context"
_LOCKED_FOR_S, _TRIED_EVERY_S = 5.0, 0.02


@contextlib.contextmanager
def kubeconfig_file(text: str, path: Path | None, name: str = "") -> Iterator[KubeconfigEntry]:
    """Write a kubeconfig to a file, or to a temporary file; remove it at the end of the block.

    If the file exists, the entries are added to it, and their context becomes the current one. At
    the end the entries are removed and the previous current context is restored; changes that
    others made meanwhile stay. With a name, the context has that name and replaces an existing one.

    Raises:
        KubeschedError: the file cannot be written, or is not a kubeconfig. It is not changed then.
    """
    if path is None:
        descriptor, made = tempfile.mkstemp(prefix="kubesched-", suffix=".kubeconfig")
        os.close(descriptor)
        path = Path(made)
        path.unlink()
    entry = KubeconfigEntry(path, load_yaml(text), name)
    entry.add()
    try:
        yield entry
    finally:
        entry.remove()


def remove_context(path: Path, name: str, before: str = "") -> None:
    """Remove a context with its cluster and user from a file, if the file has them.

    If it is the current context, `before` becomes the current one again, if it still exists.
    """
    path = _followed(path)
    with contextlib.suppress(OSError, KubeschedError), _locked(path):
        there = _read(path, path.read_bytes())
        if name in _names(there["contexts"]):
            _take_out(there, name, before)
            if _is_empty(there):
                path.unlink()
            else:
                write_private(path, _text(there))


class KubeconfigEntry:
    """One context with its cluster and user, in a file that may have others."""

    def __init__(self, path: Path, document: dict[str, Any], name: str = "") -> None:
        self.path = path
        self.context = name or document[_CURRENT]
        self.context_before = ""
        self._file = _followed(path)
        self._document = document
        self._replaces = bool(name)
        self._before: bytes | None = None  # None: there was no such file
        self._has_replaced = False
        self._written = b""

    def add(self) -> None:
        try:
            with _locked(self._file):
                self._before = self._file.read_bytes() if self._file.exists() else None
                there = _read(self._file, self._before)
                self._choose_name(_names(there["contexts"]))
                self.context_before = str(there.get(_CURRENT) or "")
                # Left by a process that was killed.
                self._has_replaced = self.context in _names(there["contexts"])
                _take_out(there, self.context, "")
                for key in _LISTS:
                    there[key] = there[key] + self._document[key]
                self._write(there | {_CURRENT: self.context})
        except OSError as exc:
            raise KubeschedError(f"cannot write {self.path}: {exc.strerror}") from exc

    def own_text(self) -> str:
        """Return a kubeconfig with only this context."""
        return _text(self._document)

    def remove(self) -> None:
        # the file was deleted, or is no longer a kubeconfig
        with contextlib.suppress(OSError, KubeschedError):
            with _locked(self._file):
                if self._file.read_bytes() == self._written and not self._has_replaced:
                    self._restore()
                    return
            remove_context(self._file, self.context, self.context_before)

    def _restore(self) -> None:
        if self._before is None:
            self._file.unlink()
        else:
            self._file.write_bytes(self._before)

    def _choose_name(self, taken: set[str]) -> None:
        """Choose a name that no other context of the file has."""
        (context,), (user,) = self._document["contexts"], self._document["users"]
        (cluster,) = self._document["clusters"]
        first = self.context
        number = 1
        while self.context in taken and not self._replaces:
            number += 1
            self.context = f"{first}-{number}"
        cluster["name"] = context["name"] = self._document[_CURRENT] = self.context
        user["name"] = _user(self.context)
        context["context"] |= {"cluster": self.context, "user": user["name"]}

    def _write(self, document: dict[str, Any]) -> None:
        text = _text(document)
        write_private(self._file, text)
        self._written = text.encode()


def _user(context: str) -> str:
    return f"{context}-admin"


def _take_out(there: dict[str, Any], context: str, before: str) -> None:
    own = {context, _user(context)}
    for key in _LISTS:
        there[key] = [each for each in there[key] if _name(each) not in own]
    if there.get(_CURRENT) == context:
        there[_CURRENT] = before if before in _names(there["contexts"]) else ""


def _is_empty(there: dict[str, Any]) -> bool:
    """Whether a file has no entries, so that it can be deleted."""
    return not any(value for key, value in there.items() if key not in ("apiVersion", "kind"))


def _read(path: Path, content: bytes | None) -> dict[str, Any]:
    """Return the content of a file, with empty lists for missing entries."""
    try:
        there = load_yaml(content or b"")
    except yaml.YAMLError as exc:
        raise KubeschedError(f"{path} is not YAML, and was left alone") from exc
    empty: dict[str, Any] = {"apiVersion": "v1", "kind": "Config"}
    there = empty if there is None else there
    if not isinstance(there, dict) or there.get("kind", "Config") != "Config":
        raise KubeschedError(f"{path} is not a kubeconfig, and was left alone")
    lists = {key: there.get(key) or [] for key in _LISTS}
    if not all(isinstance(each, list) for each in lists.values()):
        raise KubeschedError(f"{path} is not a kubeconfig, and was left alone")
    return there | lists


def _text(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False)


def _followed(path: Path) -> Path:
    """Return the target of a symbolic link of the user; links of other users are not followed."""
    try:
        is_own = path.is_symlink() and path.lstat().st_uid == os.getuid()
        return path.resolve() if is_own else path
    except (OSError, RuntimeError):
        return path


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock the file as kubectl does, against other writers."""
    if path.exists() and not path.is_file():  # such as /dev/stdout
        yield
        return
    lock = path.with_name(f"{path.name}.lock")
    until = time.monotonic() + _LOCKED_FOR_S
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL, 0o600))
            break
        except FileExistsError as exc:
            if time.monotonic() > until:
                error = KubeschedError(f"another program is writing {path}: {lock} exists")
                error.add_note("remove it if none is")
                raise error from exc
            time.sleep(_TRIED_EVERY_S)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()


def _names(entries: list[Any]) -> set[str]:
    return {_name(each) for each in entries}


def _name(entry: Any) -> str:
    return str(entry.get("name", "")) if isinstance(entry, dict) else ""
