"""Recording of the pods of a live cluster as a trace (`traces.py` has the format)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from kubesched.api import ApiAccess, ApiError, ObjectMeta, Pod
from kubesched.api.base import ApiObject
from kubesched.api.time import format_time, parse_time
from kubesched.explain.clusters.read_fields import with_read_fields
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.sim.trace_objects import as_written, read_missing
from kubesched.sim.traces import FORMAT

__all__ = ["Recording", "record"]

_GONE = 410
_RETRY_NS = SECOND


class Recording:
    """Turns changes of pods into lines of a trace. Plain state, without a file or a clock."""

    def __init__(self, start_ns: int) -> None:
        self._start_ns = start_ns
        self._known: set[str] = set()
        self._ended: set[str] = set()
        self.added = 0
        self.ended = 0

    def head(self) -> bytes:
        return _line({"format": FORMAT, "start": format_time(self._start_ns)})

    def is_new(self, kind: str, pod: Pod) -> bool:
        """Whether the change is a pod's arrival: a gated pod arrives when its gates are removed."""
        is_known = pod.metadata.uid in self._known
        return not is_known and kind != "DELETED" and not pod.spec.scheduling_gates

    def record(
        self, kind: str, pod: Pod, now_ns: int, needed: Iterable[ApiObject] = ()
    ) -> Iterator[bytes]:
        """Yield the lines for a change of a pod: its creation, its end.

        `needed` are objects to write in front of a new pod.
        """
        uid = pod.metadata.uid
        time = round((now_ns - self._start_ns) / SECOND, 6)
        if self.is_new(kind, pod):
            self._known.add(uid)
            self.added += 1
            for each in needed:
                yield _line({"time": time, "object": as_written(each)})
            yield _line({"time": time, "add": _pruned(pod)})
        is_over = kind == "DELETED" or pod.status.phase in ("Succeeded", "Failed")
        if is_over and uid in self._known and uid not in self._ended:
            self._ended.add(uid)
            self.ended += 1
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            yield _line({"time": time, "end": key, "ran": _ran(pod, now_ns)})
        if kind == "DELETED":
            self._known.discard(uid)
            self._ended.discard(uid)


async def record(
    api: ApiAccess,
    clock: Clock,
    write: Callable[[bytes], object],
    duration_ns: int | None,
    recording: Recording | None = None,
) -> None:
    """Record the pods of a cluster for a time, or until cancelled.

    Pods that exist at the start have time zero. A pod is preceded by the objects that it needs and
    that have not been written yet, if they can be read (`trace_objects.py`). Nothing is written
    before the first list of pods succeeds. Afterwards failed requests are retried.

    Raises:
        ApiError: the server forbids reading pods, or the first list fails.
    """
    start_ns = clock.now_ns()
    recording = Recording(start_ns) if recording is None else recording
    begun = False
    version = ""
    known: set[Any] = set()

    async def note(kind: str, pod: Pod) -> None:
        now_ns = clock.now_ns()
        needed = await read_missing(api, pod, known) if recording.is_new(kind, pod) else []
        for line in recording.record(kind, pod, now_ns, needed):
            write(line)

    while duration_ns is None or clock.now_ns() - start_ns < duration_ns:
        try:
            if not version:
                listed = await api.list(Pod)
                if not begun:
                    write(recording.head())
                    begun = True
                for pod in listed.items:
                    await note("ADDED", pod)
                version = listed.resource_version
            async for event in api.watch(Pod, resource_version=version):
                if event.object is not None:
                    await note(event.type, event.object)
                version = event.resource_version or version
        except ApiError as error:
            if error.code in (401, 403) or not begun:
                raise
            if error.code == _GONE:
                version = ""
            else:
                await clock.sleep(_RETRY_NS)


def _pruned(pod: Pod) -> dict[str, Any]:
    """Return the parts of a pod that scheduling reads, without its node and its status."""
    read: Pod = with_read_fields(pod)
    metadata = ObjectMeta(
        name=read.metadata.name,
        namespace=read.metadata.namespace,
        uid=read.metadata.uid,
        labels=read.metadata.labels,
        annotations=read.metadata.annotations,
        owner_references=read.metadata.owner_references,
    )
    spec = msgspec.structs.replace(read.spec, node_name="")
    found: dict[str, Any] = msgspec.to_builtins(Pod(metadata=metadata, spec=spec))
    return found


def _ran(pod: Pod, now_ns: int) -> float:
    """Return how long a pod's containers ran, in seconds."""
    began = pod.status.start_time
    if began is None:
        return 0.0
    ended = [
        status.state.terminated.finished_at
        for status in pod.status.container_statuses
        if status.state is not None and status.state.terminated is not None
    ]
    known = [parse_time(each) for each in ended if each]
    end_ns = max(known, default=now_ns)
    return round(max(0, end_ns - parse_time(began)) / SECOND, 6)


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
