"""What simulated containers use of CPU and memory, for the metrics API and autoscalers.

| annotation `kubesched.io/...` | on | meaning |
|---|---|---|
| `cpu-usage`, `memory-usage`, also with `.CONTAINER` | a pod | what a container uses |
| `cpu-load`, `memory-load` | a workload | what its running pods use together, in equal parts |

A value is a quantity (`250m`, `1Gi`), a percentage of the request (`80%`), or a curve: points in
time with a value each, such as `0s=100m 5m=800m 10m=100m`. Between two points the value changes
steadily, after the last point it stays, and with the word `repeat` at the end the curve begins
again. Time counts from the start of the pod, for a load from the creation of the workload. A
container without an annotation uses 1m of CPU and 1Mi of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kubesched.api import Pod
from kubesched.api.pod import Container
from kubesched.api.quantity import parse_quantity
from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.nodes.pod_behavior import PREFIX, duration_ns
from kubesched.errors import QuantityError
from kubesched.foundation.util.logging import get_logger

__all__ = ["ContainerUsage", "Usage", "UsageCurve"]

Json = Mapping[str, Any]

_NANO: Final = 10**9
_CPU, _MEMORY = "cpu", "memory"
_REPEAT: Final = "repeat"
# What a container without an annotation uses: an idle process.
_IDLE: Final = {_CPU: _NANO // 1000, _MEMORY: (1 << 20) * _NANO}
# The owners that are searched for a load: a ReplicaSet and its Deployment.
_MOST_OWNERS: Final = 3

log = get_logger(__name__)


class Usage(NamedTuple):
    """The use of a container: CPU in billionths of a core, memory in bytes."""

    cpu_nanos: int
    memory_bytes: int


class UsageCurve:
    """A value over time, from its text."""

    def __init__(self, text: str) -> None:
        """Raises ValueError."""
        words = text.replace(",", " ").split()
        self._repeats = bool(words) and words[-1] == _REPEAT
        if self._repeats:
            words.pop()
        if not words:
            raise ValueError("there is no value")
        if len(words) == 1 and "=" not in words[0]:
            self._points = [(0, _amount(words[0]))]
            return
        self._points = [_point(word) for word in words]
        times = [time for time, _ in self._points]
        if times != sorted(set(times)):
            raise ValueError("the times of a curve must increase")

    def at(self, elapsed_ns: int, request_nanos: int) -> int:
        """Return the value in billionths after some time.

        A percentage is relative to the request.
        """
        points = self._points
        if self._repeats and points[-1][0]:
            elapsed_ns %= points[-1][0]
        values = [value.nanos(request_nanos) for _, value in points]
        if elapsed_ns <= points[0][0]:
            return values[0]
        for number in range(1, len(points)):
            begin, end = points[number - 1][0], points[number][0]
            if elapsed_ns < end:
                change = values[number] - values[number - 1]
                return values[number - 1] + change * (elapsed_ns - begin) // (end - begin)
        return values[-1]


class _Amount(NamedTuple):
    """A quantity in billionths, or a share of a request."""

    value: int
    is_share: bool

    def nanos(self, request_nanos: int) -> int:
        return request_nanos * self.value // (100 * _NANO) if self.is_share else self.value


def _amount(text: str) -> _Amount:
    is_share = text.endswith("%")
    try:
        value = parse_quantity(text.removesuffix("%")).nanos
    except QuantityError as error:
        raise ValueError(f"{text!r} is no quantity") from error
    if value < 0:
        raise ValueError(f"{text!r} is negative")
    return _Amount(value, is_share)


def _point(word: str) -> tuple[int, _Amount]:
    time, equals, value = word.partition("=")
    at_ns = 0 if time == "0" else duration_ns(time)
    if not equals or at_ns is None:
        raise ValueError(f"{word!r} is not TIME=QUANTITY")
    return at_ns, _amount(value)


class ContainerUsage:
    """Computes the use of the containers of pods in a store."""

    def __init__(
        self, store: Store, rules: Callable[[Pod], Mapping[str, str]] | None = None
    ) -> None:
        """`rules` returns further annotations of a pod; its own have precedence."""
        self._store, self._rules = store, rules
        self._pods = store.catalog.by_type(Pod)
        self._curves: dict[str, UsageCurve | None] = {}
        # The number of running pods by the uid of a workload, at a revision of the store.
        self._counts: dict[str, int] = {}
        self._counted_at = -1

    def of(self, pod: Pod, now_ns: int) -> dict[str, Usage]:
        """Return the use of each container; empty if the pod does not run."""
        if pod.status.phase != "Running":
            return {}
        annotations: Mapping[str, str] = pod.metadata.annotations
        if self._rules is not None:
            annotations = {**self._rules(pod), **annotations}
        started = pod.status.start_time
        elapsed_ns = max(0, now_ns - parse_time(started)) if started else 0
        loads = self._loads(pod, now_ns)
        count = len(pod.spec.containers)
        used: dict[str, Usage] = {}
        for container in pod.spec.containers:
            nanos = {}
            for resource in (_CPU, _MEMORY):
                if resource in loads:
                    nanos[resource] = loads[resource] // count
                    continue
                key = f"{PREFIX}{resource}-usage"
                text = annotations.get(f"{key}.{container.name}", annotations.get(key, ""))
                curve = self._curve(text) if text else None
                nanos[resource] = (
                    _IDLE[resource]
                    if curve is None
                    else curve.at(elapsed_ns, _requested(container, resource))
                )
            used[container.name] = Usage(nanos[_CPU], nanos[_MEMORY] // _NANO)
        return used

    def _curve(self, text: str) -> UsageCurve | None:
        if text not in self._curves:
            if len(self._curves) > 1000:
                self._curves.clear()
            try:
                self._curves[text] = UsageCurve(text)
            except ValueError as error:
                log.warning("An annotation of usage is ignored", value=text, error=error)
                self._curves[text] = None
        return self._curves[text]

    def _loads(self, pod: Pod, now_ns: int) -> dict[str, int]:
        """Return a pod's part of the loads of its workload, by resource."""
        loads: dict[str, int] = {}
        # A Deployment comes before its ReplicaSet, which has a copy of its annotations.
        for owner in reversed(self._owners(pod)):
            metadata = owner["metadata"]
            for resource in (_CPU, _MEMORY):
                text = metadata.get("annotations", {}).get(f"{PREFIX}{resource}-load", "")
                curve = self._curve(text) if text else None
                if curve is not None:
                    elapsed_ns = max(0, now_ns - parse_time(metadata["creationTimestamp"]))
                    loads[resource] = curve.at(elapsed_ns, 0) // self._running(metadata["uid"])
            if loads:
                return loads
        return loads

    def _owners(self, pod: Pod) -> list[Json]:
        """Return the controller of a pod, the controller of that, and so on."""
        record = self._store.find_record(self._pods, pod.metadata.namespace, pod.metadata.name)
        found: list[Json] = []
        current: Json | None = None if record is None else record.data
        while current is not None and len(found) < _MOST_OWNERS:
            current = self._controller(current)
            if current is not None:
                found.append(current)
        return found

    def _controller(self, document: Json) -> Json | None:
        metadata = document["metadata"]
        for reference in metadata.get("ownerReferences") or ():
            if reference.get("controller"):
                group = reference.get("apiVersion", "").rpartition("/")[0]
                plural = f"{reference.get('kind', '').lower()}s"
                for resource in self._store.catalog.all():
                    if (resource.group, resource.plural) == (group, plural):
                        record = self._store.find_record(
                            resource, metadata.get("namespace"), reference.get("name", "")
                        )
                        return None if record is None else record.data
        return None

    def _running(self, uid: str) -> int:
        """Return how many running pods a workload has; at least 1."""
        if self._counted_at != self._store.revision:
            self._counts.clear()
            self._counted_at = self._store.revision
        if uid not in self._counts:
            count = 0
            for record in self._store.collection(self._pods).objects.values():
                pod = record.typed
                if pod.status.phase == "Running" and pod.metadata.owner_references:
                    count += any(each["metadata"]["uid"] == uid for each in self._owners(pod))
            self._counts[uid] = count
        return max(1, self._counts[uid])


def _requested(container: Container, resource: str) -> int:
    quantity = container.resources.requests.get(resource)
    return 0 if quantity is None else parse_quantity(quantity).nanos
