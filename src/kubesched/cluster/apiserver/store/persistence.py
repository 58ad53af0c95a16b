"""Persistence: the SQLite file that holds the objects of a cluster.

The store writes every change to the file before any client can see it. Each change is one
commit, and a commit reaches the operating system at once, so acknowledged writes survive the
death of this process. The log of changes is not in the file. A watch that resumes after a
restart therefore gets 410 and must list again.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import built_in_resources
from kubesched.cluster.apiserver.rules.strategies.server_features import ALL_FEATURES
from kubesched.cluster.apiserver.store.admission_policies import enforce_policies
from kubesched.cluster.apiserver.store.custom_resource_definitions import (
    CUSTOM_RESOURCE_DEFINITION,
    serve_stored_definitions,
)
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.resource_collection import RestoredObject
from kubesched.cluster.apiserver.store.stored_records import StoredChange
from kubesched.errors import KubeschedError
from kubesched.foundation.util.logging import get_logger

__all__ = ["DataFile", "open_store"]

log = get_logger(__name__)

_FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS revision (id INTEGER PRIMARY KEY CHECK (id = 1), value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)"
_REMOVE = "DELETE FROM objects WHERE resource = ? AND key = ?"
_COUNT = "INSERT OR REPLACE INTO revision VALUES (1, ?)"


def _check_private(path: Path) -> None:
    """Raises OSError if other users may read the file. It holds a token and a private key."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise OSError(
            f"others may use it (mode {mode:04o}), and it holds a token and a private key; "
            f"try chmod 600 {path}"
        )


class DataFile:
    """The data file of one cluster. Only one process can have it open."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it.

        Raises:
            KubeschedError: the file cannot be used: another process uses it, or it is not a data
                file.
        """
        self._path = path
        self._is_failing = False
        try:
            path.touch(mode=0o600)
            _check_private(path)
            self._connection = sqlite3.connect(path, isolation_level=None, timeout=0)
            self._prepare()
        except (sqlite3.Error, OSError) as exc:
            detail = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
            reason = "another process uses it" if "locked" in str(exc) else detail
            raise KubeschedError(f"cannot use {path}: {reason}") from exc
        self._encode = msgspec.json.Encoder().encode

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        # A commit reaches the operating system, which writes it to the disk later.
        execute("PRAGMA synchronous = NORMAL")
        version = execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _FORMAT):
            raise sqlite3.DatabaseError(f"its format {version} is not known")
        self._connection.executescript(f"BEGIN EXCLUSIVE; {_SCHEMA} COMMIT")
        execute(f"PRAGMA user_version = {_FORMAT}")

    @property
    def revision(self) -> int:
        """The number of the last change; 0 for a new file.

        Raises:
            KubeschedError: the stored number is damaged.
        """
        found = self._connection.execute("SELECT value FROM revision").fetchone()
        if found is None:
            return 0
        if not isinstance(found[0], int):
            raise self._damaged("the number of the last change")
        return found[0]

    def objects(self) -> Iterator[RestoredObject]:
        """Yield the stored objects. Raises KubeschedError if one is damaged."""
        rows = self._connection.execute("SELECT resource, key, revision, data FROM objects")
        for resource, key, revision, data in rows:
            try:
                decoded = msgspec.json.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError, TypeError) as exc:
                raise self._damaged(f"the object {key} of {resource}") from exc
            if not (isinstance(decoded, dict) and isinstance(revision, int)):
                raise self._damaged(f"the object {key} of {resource}")
            yield RestoredObject(resource, key, revision, decoded)

    def write(self, change: StoredChange) -> None:
        """Write a change. Raises ApiError 500 if that fails; the file is then unchanged."""
        record = change.record
        resource = record.resource.group_resource
        execute = self._connection.execute
        try:
            execute("BEGIN")
            if change.type == "DELETED":
                execute(_REMOVE, (resource, record.key))
            else:
                execute(_PUT, (resource, record.key, change.revision, self._encode(record.data)))
            execute(_COUNT, (change.revision,))
            execute("COMMIT")
        except sqlite3.Error as exc:
            with contextlib.suppress(sqlite3.Error):
                execute("ROLLBACK")
            if not self._is_failing:
                # Log this once: a full disk fails every write, and the logs may be on it.
                log.error("Changes cannot be written", exc=exc, file=str(self._path))
            self._is_failing = True
            raise api_errors.internal_error(f"cannot write the data file: {exc}") from exc
        if self._is_failing:
            log.info("Changes can be written again", file=str(self._path))
            self._is_failing = False

    def drop(self, restored: RestoredObject) -> None:
        """Delete an object from the file."""
        self._connection.execute(_REMOVE, (restored.resource, restored.key))

    def secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        """Return the secret of that name. `make` creates it the first time.

        Raises:
            KubeschedError: the stored secret is damaged.
        """
        query = "SELECT value FROM secrets WHERE name = ?"
        found = self._connection.execute(query, (name,)).fetchone()
        if found is not None:
            if not isinstance(found[0], bytes):
                raise self._damaged(f"the secret {name}")
            return found[0]
        value = make()
        self._connection.execute("INSERT INTO secrets VALUES (?, ?)", (name, value))
        return value

    def has_secret(self, name: str) -> bool:
        """Whether a secret of that name has been created."""
        query = "SELECT 1 FROM secrets WHERE name = ?"
        return self._connection.execute(query, (name,)).fetchone() is not None

    def close(self) -> None:
        self._connection.close()

    def _damaged(self, part: str) -> KubeschedError:
        return KubeschedError(f"cannot use {self._path}: {part} is damaged")


def open_store(
    data: DataFile,
    rng: random.Random,
    now_ns: int,
    features: frozenset[str] = ALL_FEATURES,
) -> Store:
    """Create the store of a data file, with all acknowledged writes, or a new store.

    Objects of disabled features stay in the file until the features are enabled again.
    """
    revision = data.revision
    if not revision:
        return Store(rng, now_ns=now_ns, on_change=data.write, features=features)
    # The generator must not repeat earlier numbers, because uids are unique.
    rng = random.Random(f"{rng.getrandbits(64)}/{revision}/{os.urandom(8).hex()}")
    store = Store(rng, now_ns=now_ns, on_change=data.write, empty=True, features=features)
    definitions = CUSTOM_RESOURCE_DEFINITION.group_resource
    objects = list(data.objects())
    store.register(CUSTOM_RESOURCE_DEFINITION)
    store.restore([each for each in objects if each.resource == definitions], revision)
    serve_stored_definitions(store)
    enforce_policies(store)
    served = {each.group_resource for each in store.catalog.all()}
    # If the process ended right after it deleted a definition, its objects are still in the file.
    built_in = {each.group_resource for each in built_in_resources()}
    for each in objects:
        if each.resource not in served | built_in:
            data.drop(each)
    remaining = [each for each in objects if each.resource in served - {definitions}]
    store.restore(remaining, revision)
    store.finish_deletions(now_ns)
    return store
