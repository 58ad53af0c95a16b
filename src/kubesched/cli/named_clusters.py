"""Named clusters: their files, their state, and their termination.

Each cluster has a private folder in the user's state directory, with its data, log, kubeconfig and
process record. The process of a cluster holds a lock in the folder while it runs. A killed process
is therefore detected even if its number is reused.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec

from kubesched.cli.kubeconfig_file import remove_context
from kubesched.cluster.apiserver.http.client_kubeconfig import write_private
from kubesched.errors import ConfigError, KubeschedError

__all__ = [
    "ClusterFolder",
    "ClusterRecord",
    "State",
    "known_clusters",
    "named_cluster",
    "state_folder",
]

State = Literal["starting", "running", "stopped", "killed"]

_TRIES, _BETWEEN_S = 5, 0.02
_ENDS_WITHIN_S, _LOOKED_EVERY_S = 15.0, 0.02


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The record of a cluster's process."""

    pid: int
    since: str
    address: str = ""  # empty until it serves
    # The user's kubeconfig with its context, and the context that was current there before.
    kubeconfig: str = ""
    context: str = ""
    context_before: str = ""
    has_ended: bool = False  # in an orderly way


class ClusterFolder:
    """The folder of one named cluster."""

    def __init__(self, root: Path, name: str) -> None:
        self.name = name
        self.path = root / name
        self.data = self.path / "cluster.db"
        self.log = self.path / "log"
        self.kubeconfig = self.path / "kubeconfig"
        self._record = self.path / "cluster.json"
        self._lock = self.path / "lock"

    @property
    def context(self) -> str:
        """The name of its context in kubeconfigs."""
        return f"kubesched-{self.name}"

    def exists(self) -> bool:
        return self.path.is_dir()

    def create(self) -> bool:
        """Create the folder; return whether it is new.

        Raises:
            KubeschedError: the folder cannot be created.
        """
        is_new = not self.exists()
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise KubeschedError(f"cannot write {self.path}: {exc.strerror}") from exc
        return is_new

    @contextlib.contextmanager
    def prepared(self) -> Iterator[None]:
        """Create the folder; remove a new one again if the block fails."""
        is_new = self.create()
        try:
            yield
        except BaseException:
            if is_new:
                self.remove()
            raise

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the lock of this cluster while the block runs.

        Raises:
            KubeschedError: another process holds it.
        """
        descriptor = self._claim()
        if descriptor is None:
            raise KubeschedError(
                f"cluster {self.name!r} runs already; kubesched down {self.name} ends it"
            )
        try:
            yield
        finally:
            os.close(descriptor)

    def state(self) -> State:
        record = self.record()
        if self._is_claimed():
            return "running" if record is not None and record.address else "starting"
        return "stopped" if record is not None and record.has_ended else "killed"

    def record(self) -> ClusterRecord | None:
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=ClusterRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def write_record(self, record: ClusterRecord) -> None:
        write_private(self._record, msgspec.json.encode(record).decode())

    def begin_record(self, pid: int, since: str) -> int:
        """Write the record of a new process; return the port of the previous one, or 0.

        Contexts that a killed process left in a kubeconfig are removed.
        """
        before = self.record()
        if before is not None and before.kubeconfig and not before.has_ended:
            remove_context(Path(before.kubeconfig), before.context, before.context_before)
        self.write_record(ClusterRecord(pid=pid, since=since))
        port = "" if before is None else before.address.rpartition(":")[2]
        return int(port) if port.isdecimal() else 0

    def end(self) -> None:
        """End the process of the cluster, if it runs; kill it if it does not end in time."""
        record = self.record()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if record is not None and self._is_claimed():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(record.pid, number)
            until = time.monotonic() + _ENDS_WITHIN_S
            while self._is_claimed() and time.monotonic() < until:
                time.sleep(_LOOKED_EVERY_S)
        if self._is_claimed():
            raise KubeschedError(f"the process of cluster {self.name!r} does not end")

    def remove(self) -> None:
        """Remove the folder and the context of the cluster.

        Raises:
            KubeschedError: the cluster runs, or a file cannot be removed.
        """
        with self.claimed():
            record = self.record()
            if record is not None and record.kubeconfig:
                remove_context(Path(record.kubeconfig), record.context, record.context_before)
            try:
                shutil.rmtree(self.path)
            except OSError as exc:
                raise KubeschedError(f"cannot remove {self.path}: {exc.strerror}") from exc

    def _is_claimed(self) -> bool:
        """Whether a process holds the lock; creates no file."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _claim(self) -> int | None:
        """Take the lock; return its descriptor, or None if another process has it."""
        for _ in range(_TRIES):
            self.create()
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The folder may have been removed in the meantime; then this lock file is stale.
                if self._lock.stat().st_ino == os.fstat(descriptor).st_ino:
                    return descriptor
            except BlockingIOError:
                # A process that checks the state holds the lock for a moment.
                time.sleep(_BETWEEN_S)
            except FileNotFoundError:
                pass
            os.close(descriptor)
        return None


def state_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's clusters, in the XDG state directory."""
    base = environment.get("XDG_STATE_HOME", "")
    # The XDG specification ignores relative paths.
    folder = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    return folder / "kubesched" / "clusters"


def known_clusters(root: Path) -> list[ClusterFolder]:
    """Return all named clusters, running or not, sorted by name."""
    if not root.is_dir():
        return []
    return [ClusterFolder(root, each.name) for each in sorted(root.iterdir()) if each.is_dir()]


def named_cluster(root: Path, name: str) -> ClusterFolder:
    """Return the cluster of that name.

    Raises:
        ConfigError: there is no such cluster.
    """
    names = [each.name for each in known_clusters(root)]
    if name in names:
        return ClusterFolder(root, name)
    error = ConfigError(f"no cluster is named {name!r}")
    if near := difflib.get_close_matches(name, names, n=1):
        error.add_note(f"did you mean {near[0]!r}?")
    elif names:
        error.add_note(f"there are: {', '.join(names)}")
    else:
        error.add_note(f"kubesched up --name {name} --detach makes it")
    raise error
