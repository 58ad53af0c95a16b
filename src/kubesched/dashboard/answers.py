"""What the page may ask, and what it may have done: plain values in, plain values out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from kubesched.api import Deployment, Node, Pod, StatefulSet
from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.base import ApiObject
from kubesched.api.kinds import by_api_version_kind
from kubesched.backend.queue import SchedulingQueue
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.dashboard.cluster_view import ClusterView, pod_row, waiting_reason
from kubesched.explain import Snapshot
from kubesched.explain.whatif import Plan
from kubesched.util.errors import KubeschedError
from kubesched.util.yaml_documents import YamlProblem, read_documents

__all__ = ["Answers", "BadRequestError", "Changes"]

_FOUND = 50
_PODS_SHOWN = 300


class BadRequestError(KubeschedError):
    """What was asked cannot be answered; `status` is the HTTP status that says so."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Changes(Protocol):
    """What may be done to the cluster: only an embedded one has it."""

    async def stop_node(self, name: str) -> None: ...

    async def start_node(self, name: str) -> None: ...


class Answers:
    """Answers from a view and from all objects of a cluster.

    `objects` lists what scheduling depends on, as it is now. Without `api` nothing can be changed.
    """

    def __init__(
        self,
        view: ClusterView,
        objects: Callable[[], Iterable[ApiObject]],
        *,
        title: str = "",
        queue: SchedulingQueue | None = None,
        now_ns: Callable[[], int],
        configuration: KubeSchedulerConfiguration | None = None,
        plugins: Mapping[str, Any] | None = None,
        api: ApiAccess | None = None,
        changes: Changes | None = None,
    ) -> None:
        self._view = view
        self._objects = objects
        self._title = title
        self._queue = queue
        self._now_ns = now_ns
        self._configuration = configuration
        self._plugins = plugins
        self._api = api
        self._changes = changes

    def decorated(self, frame: dict[str, Any]) -> dict[str, Any]:
        """A frame of the stream with what only the scheduler knows."""
        if self._queue is not None:
            frame["queue"] = self._queue_lengths()
        if frame.get("all"):
            frame["title"] = self._title
            frame["writable"] = self._api is not None
        frame["at"] = self._now_ns() // 1_000_000
        return frame

    async def get(self, path: str, query: Mapping[str, str]) -> Any:
        match path.split("/"):
            case ["nodes", name]:
                return self._node(name)
            case ["pods", namespace, name]:
                return await self._pod(f"{namespace}/{name}", query.get("versus", ""))
            case ["verdicts", namespace, name]:
                return await self._verdicts(f"{namespace}/{name}")
            case ["queue"]:
                return self._queue_view()
            case ["decisions"]:
                last = int(query.get("before", self._view.decisions.last))
                return self._view.decisions.before(last, 200)
            case ["search"]:
                return self._search(query.get("text", ""))
            case ["selected"]:
                return self._selected(query.get("text", ""))
        raise BadRequestError(f"no such question: {path}", 404)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        match path.split("/"):
            case ["whatif"]:
                return await self._whatif(body)
            case ["apply"]:
                return await self._apply(body)
            case ["manifests"]:
                return await self._create(str(body.get("text", "")))
            case ["scale"]:
                return await self._scale(body)
            case ["nodes", name, ("stop" | "start") as what]:
                return await self._switch(name, what)
        raise BadRequestError(f"no such request: {path}", 404)

    def _node(self, name: str) -> dict[str, Any]:
        row = self._view.node_row(name)
        if row is None:
            raise BadRequestError(f"no node named {name!r}", 404)
        pods = sorted(map(pod_row, self._view.pods_on(name)), key=lambda pod: -pod["cpu"])
        return {**row, "list": pods}

    async def _pod(self, key: str, versus: str) -> dict[str, Any]:
        pod = self._view.pods.get(key)
        if pod is None:
            raise BadRequestError(f"no pod {key}", 404)
        answer: dict[str, Any] = {
            "pod": pod_row(pod),
            "story": self._view.decisions.story(key),
            "labels": pod.metadata.labels,
        }
        if self._queue is not None:
            place = self._queue.describe(key, self._now_ns())
            if place is not None:
                answer["queue"] = {
                    "place": str(place.place),
                    "attempts": place.attempts,
                    "rejectedBy": list(place.rejected_by),
                    "waitsFor": list(place.waits_for),
                    "gatedBy": place.gated_by,
                    "nominatedTo": place.nominated_to,
                    "story": [msgspec.to_builtins(each) for each in place.story],
                }
        snapshot = self._deferred_snapshot()
        try:
            found = await asyncio.to_thread(lambda: snapshot().explain(key, versus=versus))
            answer["explanation"] = found.to_dict()
        except KubeschedError as error:
            answer["error"] = str(error)
        return answer

    async def _verdicts(self, key: str) -> dict[str, Any]:
        """What a pod's filters say about every node, for the map."""
        snapshot = self._deferred_snapshot()
        found = await asyncio.to_thread(lambda: snapshot().explain(key, suggest=False))
        return {
            "fits": [
                node for group in found.groups if not group.rejections for node in group.nodes
            ],
            "rejected": {
                node: ", ".join(each.reason for each in group.rejections)
                for group in found.groups
                if group.rejections
                for node in group.nodes
            },
        }

    def _deferred_snapshot(self) -> Callable[[], Snapshot]:
        """A snapshot of the objects as they are now, to be built in another thread."""
        objects, configuration = list(self._objects()), self._configuration
        return lambda: Snapshot(objects, configuration=configuration)

    def _queue_lengths(self) -> dict[str, int]:
        assert self._queue is not None
        return {
            "active": len(self._queue.active_pods),
            "backoff": len(self._queue.backoff_pods),
            "unschedulable": len(self._queue.unschedulable_pods),
        }

    def _queue_view(self) -> dict[str, Any]:
        """Who waits where and for what; without a scheduler at hand, what pods say themselves."""
        waiting = self._view.waiting()
        reasons: Counter[str] = Counter(waiting_reason(pod) or "not tried yet" for pod in waiting)
        answer: dict[str, Any] = {
            "reasons": [
                {"reason": text, "count": count} for text, count in reasons.most_common(20)
            ],
            "waiting": [pod_row(pod) for pod in waiting[:_PODS_SHOWN]],
        }
        if self._queue is not None:
            now_ns = self._now_ns()
            places = []
            for pod in waiting[:_PODS_SHOWN]:
                key = f"{pod.metadata.namespace}/{pod.metadata.name}"
                place = self._queue.describe(key, now_ns)
                if place is not None:
                    places.append(
                        {
                            "pod": key,
                            "place": str(place.place),
                            "attempts": place.attempts,
                            "waitsFor": list(place.waits_for),
                            "rejectedBy": list(place.rejected_by),
                        }
                    )
            answer["places"] = places
        return answer

    def _search(self, text: str) -> list[dict[str, str]]:
        if not text:
            return []
        nodes = [{"kind": "node", "name": each} for each in self._view.nodes if text in each]
        pods = [{"kind": "pod", "name": each} for each in self._view.pods if text in each]
        return [*sorted(nodes, key=_by_name)[:_FOUND], *sorted(pods, key=_by_name)[:_FOUND]]

    def _selected(self, text: str) -> dict[str, int]:
        """How many pods with a label `key=value`, or with a name that holds the text, per node."""
        key, equals, value = text.partition("=")
        counts: Counter[str] = Counter()
        for name, pod in self._view.pods.items():
            if not pod.spec.node_name:
                continue
            matches = pod.metadata.labels.get(key) == value if equals else text in name
            if matches:
                counts[pod.spec.node_name] += 1
        return dict(counts)

    async def _whatif(self, body: Mapping[str, Any]) -> dict[str, Any]:
        plan = _plan(body)
        snapshot = self._deferred_snapshot()
        answer = await asyncio.to_thread(lambda: snapshot().whatif(plan))
        return answer.to_dict()

    def _writable(self) -> ApiAccess:
        if self._api is None:
            raise BadRequestError("this page only reads: the cluster is not embedded", 403)
        return self._api

    async def _apply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out the edits of a suggestion."""
        api = self._writable()
        edits = body.get("edits")
        if not isinstance(edits, list) or not edits:
            raise BadRequestError("no edits")
        for edit in edits:
            await _carry_out(api, edit)
        return {"done": len(edits)}

    async def _create(self, text: str) -> dict[str, Any]:
        """Create the objects of a YAML text."""
        api = self._writable()
        made = []
        for part in read_documents(text):
            if isinstance(part, YamlProblem):
                raise BadRequestError(f"line {part.line}: {part.text}")
            if part.value is None:
                continue
            found = _typed(part.value)
            try:
                created: Any = await api.create(found)
            except ApiError as error:
                raise BadRequestError(f"line {part.line}: {error}") from error
            made.append(f"{type(found).__name__} {created.metadata.name}")
        return {"made": made}

    async def _scale(self, body: Mapping[str, Any]) -> dict[str, Any]:
        api = self._writable()
        kinds: dict[str, Any] = {"Deployment": Deployment, "StatefulSet": StatefulSet}
        kind = kinds.get(str(body.get("kind")))
        replicas = body.get("replicas")
        if kind is None or not isinstance(replicas, int) or not 0 <= replicas <= 10_000:
            raise BadRequestError("expected kind, namespace, name and replicas up to 10000")
        name, namespace = str(body.get("name")), str(body.get("namespace", "default"))
        change = {"spec": {"replicas": replicas}}
        await api.patch(kind, name, namespace, change, patch_type="merge")
        return {"replicas": replicas}

    async def _switch(self, name: str, what: str) -> dict[str, Any]:
        self._writable()
        if self._changes is None:
            raise BadRequestError("nodes of this cluster cannot be stopped", 403)
        if name not in self._view.nodes:
            raise BadRequestError(f"no node named {name!r}", 404)
        if what == "stop":
            await self._changes.stop_node(name)
        else:
            await self._changes.start_node(name)
        return {"node": name, "state": what}


def _by_name(found: dict[str, str]) -> str:
    return found["name"]


def _plan(body: Mapping[str, Any]) -> Plan:
    try:
        drain = tuple(str(each) for each in body.get("drain", ()))
        remove = tuple(str(each) for each in body.get("remove", ()))
        scale = tuple((str(target), int(count)) for target, count in body.get("scale", ()))
        plan = Plan(
            drain=drain,
            remove=remove,
            scale=scale,
            add=int(body.get("add") or 0),
            like=str(body.get("like", "")),
        )
    except (TypeError, ValueError) as error:
        raise BadRequestError(f"not a plan: {error}") from error
    if plan == Plan():
        raise BadRequestError("nothing to play: drain, add, remove or scale something")
    return plan


def _typed(value: Any) -> ApiObject:
    if not isinstance(value, dict):
        raise BadRequestError("not an object")
    kind = by_api_version_kind(str(value.get("apiVersion")), str(value.get("kind")))
    if kind is None:
        raise BadRequestError(f"no kind {value.get('kind')!r} in {value.get('apiVersion')!r}")
    document = {key: each for key, each in value.items() if key not in ("apiVersion", "kind")}
    metadata = document.get("metadata")
    if kind.namespaced and isinstance(metadata, dict):
        document["metadata"] = {"namespace": "default", **metadata}
    try:
        return msgspec.convert(document, kind.type)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"{kind.kind}: {error}") from error


async def _carry_out(api: ApiAccess, edit: Any) -> None:
    """One edit of a suggestion. A pod cannot be changed in place: it is made anew."""
    if not isinstance(edit, dict):
        raise BadRequestError("not an edit")
    kind = by_api_version_kind(str(edit.get("api_version")), str(edit.get("kind")))
    if kind is None:
        raise BadRequestError(f"no kind {edit.get('kind')!r}")
    name, namespace = str(edit.get("name")), str(edit.get("namespace", "")) or None
    action = edit.get("action")
    if action == "delete":
        await api.delete(kind.type, name, namespace, grace_period_seconds=0)
        return
    wanted: Any = _typed(edit.get("document"))
    if action == "create":
        await api.create(replace(wanted, metadata=_fresh(wanted)))
    elif issubclass(kind.type, Pod):
        await api.delete(kind.type, name, namespace, grace_period_seconds=0)
        await api.create(replace(wanted, metadata=_fresh(wanted)))
    elif issubclass(kind.type, Node):
        current = await api.get(Node, name)
        await api.update(
            replace(
                current,
                spec=wanted.spec,
                metadata=replace(current.metadata, labels=wanted.metadata.labels),
            )
        )
    else:
        raise BadRequestError(f"a {kind.kind} is not changed from here")


def _fresh(wanted: Any) -> Any:
    return replace(
        wanted.metadata,
        uid="",
        resource_version="",
        creation_timestamp=None,
    )
