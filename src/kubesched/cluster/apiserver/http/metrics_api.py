"""`metrics.k8s.io`: what nodes and pods use at present. Nothing is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from kubesched.api import Node, Pod
from kubesched.api.labels import Selector
from kubesched.cluster.apiserver.http.request_paths import RequestTarget
from kubesched.cluster.apiserver.http.response_rendering import json_answer
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.errors import SelectorError
from kubesched.foundation.http.http_messages import Request, Response

__all__ = ["METRICS", "METRICS_KINDS", "MetricsApi", "PodUsage"]

Json = dict[str, Any]

METRICS: Final = "metrics.k8s.io"
# The kind and whether it is namespaced, by plural.
METRICS_KINDS: Final = {"nodes": ("NodeMetrics", False), "pods": ("PodMetrics", True)}
_VERSION: Final = f"{METRICS}/v1beta1"
_WINDOW: Final = "15s"
_ALL_NODES: Final = RequestTarget(METRICS, "v1beta1", "nodes")
# CPU in billionths and memory in bytes.
_Amounts = tuple[int, int]


class PodUsage(Protocol):
    """Returns the use of each container of a pod: CPU in billionths, memory in bytes."""

    def __call__(self, pod: Pod, now_ns: int) -> Mapping[str, _Amounts]: ...


class MetricsApi:
    """Handles requests for the metrics of nodes and pods."""

    def __init__(self, store: Store, now_ns: Callable[[], int], usage: PodUsage) -> None:
        self._store, self._now_ns, self._usage = store, now_ns, usage
        self._nodes, self._pods = store.catalog.by_type(Node), store.catalog.by_type(Pod)

    def answer(self, request: Request, target: RequestTarget) -> Response:
        """Raises ApiError 400, 404 or 405."""
        found = METRICS_KINDS.get(target.plural)
        if found is None or target.version != "v1beta1" or target.subresource:
            raise api_errors.unknown_resource()
        kind, namespaced = found
        if target.namespace is not None and not namespaced:
            raise api_errors.unknown_resource()
        if request.method not in ("GET", "HEAD") or request.query.flag("watch"):
            raise api_errors.method_not_allowed()
        if target.name:
            items = self._items(target, Selector.parse(""))
            if not items:
                resource = f"{target.plural}.{METRICS}"
                raise api_errors.not_found(resource, _key(target))
            return _json({"kind": kind, "apiVersion": _VERSION, **items[0]})
        try:
            selector = Selector.parse(request.query.get("labelSelector"))
        except SelectorError as error:
            raise api_errors.bad_request(f"unable to parse the label selector: {error}") from error
        items = self._items(target, selector)
        head = {"kind": f"{kind}List", "apiVersion": _VERSION, "metadata": {}}
        return _json({**head, "items": items})

    def nodes(self) -> list[Json]:
        """Return the metrics of all nodes."""
        return self._items(_ALL_NODES, Selector.parse(""))

    def _items(self, target: RequestTarget, selector: Selector) -> list[Json]:
        resource = self._pods if target.plural == "pods" else self._nodes
        subjects: Iterable[Any] = (
            record.typed for record in self._store.collection(resource).objects.values()
        )
        subjects = [
            each
            for each in subjects
            if target.namespace in (None, each.metadata.namespace)
            and target.name in ("", each.metadata.name)
            and selector.matches(each.metadata.labels)
        ]
        now_ns = self._now_ns()
        if target.plural == "pods":
            return [shown for pod in subjects if (shown := self._pod(pod, now_ns)) is not None]
        totals = self._totals(now_ns, {each.metadata.name for each in subjects})
        return [
            {**_head(node, now_ns), "usage": _shown(totals[node.metadata.name])}
            for node in subjects
        ]

    def _pod(self, pod: Pod, now_ns: int) -> Json | None:
        used = self._usage(pod, now_ns)
        if not used:
            return None
        containers = [{"name": name, "usage": _shown(each)} for name, each in used.items()]
        return {**_head(pod, now_ns), "containers": containers}

    def _totals(self, now_ns: int, names: set[str]) -> dict[str, _Amounts]:
        """Return the usage of nodes: the sums over their pods."""
        totals: dict[str, _Amounts] = dict.fromkeys(names, (0, 0))
        for record in self._store.collection(self._pods).objects.values():
            node = record.typed.spec.node_name
            if node in names:
                for cpu, memory in self._usage(record.typed, now_ns).values():
                    totals[node] = totals[node][0] + cpu, totals[node][1] + memory
        return totals


def _key(target: RequestTarget) -> str:
    return f"{target.namespace}/{target.name}" if target.namespace else target.name


def _head(subject: Node | Pod, now_ns: int) -> Json:
    now, metadata = format_timestamp(now_ns), subject.metadata
    shown: Json = {"name": metadata.name, "creationTimestamp": now}
    if metadata.namespace:
        shown["namespace"] = metadata.namespace
    if metadata.labels:
        shown["labels"] = dict(metadata.labels)
    return {"metadata": shown, "timestamp": now, "window": _WINDOW}


def _shown(used: _Amounts) -> Json:
    cpu, memory = used
    return {"cpu": f"{cpu}n" if cpu else "0", "memory": f"{memory // 1024}Ki"}


def _json(document: Json) -> Response:
    return json_answer(200, document)
