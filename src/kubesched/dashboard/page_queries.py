"""The requests of the page, as functions from plain values to plain values.

Explanations and what-ifs take long. A forked child process computes them, so that they never block
the event loop (decision 0025).
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from kubesched.api import Deployment, PodGroup, StatefulSet
from kubesched.api.labels import Selector
from kubesched.api.pod_facts import pod_key
from kubesched.dashboard.bad_request import BadRequestError
from kubesched.dashboard.cluster_view import PageView
from kubesched.dashboard.configuration_text import read_configuration
from kubesched.dashboard.embedded_changes import EmbeddedChanges
from kubesched.dashboard.node_detail import node_detail
from kubesched.dashboard.page_state import Moment, PageState, PageStates
from kubesched.dashboard.plugin_panels import PluginPanels, have_panels, panels_of
from kubesched.dashboard.pod_group_rows import group_members, group_rows
from kubesched.dashboard.pod_history import pod_history
from kubesched.dashboard.queue_view import place_row, queue_view
from kubesched.dashboard.rows import by_importance, pod_row
from kubesched.dashboard.timeline import Timelines
from kubesched.errors import SelectorError
from kubesched.explain import Snapshot
from kubesched.explain.clusters.read_configuration import read_configuration_of
from kubesched.explain.explanation import Explanation
from kubesched.explain.whatif import Plan
from kubesched.foundation.util.forked import ChildError, in_child
from kubesched.scheduler.all_plugins import complete_registry
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.config.configuration_completion import as_written
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES, FeatureGates
from kubesched.scheduler.config.write import versioned, written
from kubesched.scheduler.config.yaml_output import dump_yaml
from kubesched.scheduler.options import scheduler_configuration

__all__ = ["LONGEST_S", "MOST_CHILDREN", "PageQueries"]

_NAME_PART: Final = re.compile(r"[-\w./]*", re.ASCII)
_MOST_HITS: Final = 30
_DECISIONS: Final = 200
_MEMBERS_SHOWN: Final = 500
LONGEST_S: Final = 60.0
_LONGEST_READ_S: Final = 30.0
MOST_CHILDREN: Final = 2  # child processes at the same time


async def _already_read() -> None:
    """The default of `read`: there is nothing to wait for."""


class UnreadableKinds(NamedTuple):
    """The kinds that may not be read, and those that may be read in one namespace only."""

    unknown: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    namespace: str = ""


class PageQueries:
    """Handles the requests of the page.

    With `changes` the page can change the cluster. `queue` returns the queue of a scheduler in this
    process, if there is one. `plugins` are its out-of-tree plugins. `limits` are the kinds that may
    not be read. `read` returns when all readable objects have been read once. `shadow` returns the
    ledger of a shadow. `panels` returns those of the plugins of a scheduler in this process;
    without it they are built from the objects.
    """

    def __init__(
        self,
        states: PageStates,
        *,
        title: str = "",
        queue: Callable[[], SchedulingQueue | None] = lambda: None,
        now_ns: Callable[[], int],
        plugins: Mapping[str, Any] | None = None,
        changes: EmbeddedChanges | None = None,
        gates: FeatureGates = DEFAULT_FEATURE_GATES,
        limits: UnreadableKinds | None = None,
        read: Callable[[], Awaitable[object]] = _already_read,
        shadow: Callable[[], Any] | None = None,
        panels: Callable[[], list[PluginPanels]] | None = None,
    ) -> None:
        self._states = states
        self._limits = limits or UnreadableKinds()
        self._gates = gates
        self._title = title
        self._queue = queue
        self._now_ns = now_ns
        self._plugins = plugins
        self._changes = changes
        self._read = read
        self._shadow = shadow
        self._panels = panels
        self._children = asyncio.Semaphore(MOST_CHILDREN)

    def decorated(self, frame: dict[str, Any]) -> dict[str, Any]:
        """Add the title, the queue lengths and the read limits to a frame."""
        if (queue := self._queue()) is not None:
            frame["queue"] = queue.lengths()
        if frame.get("all"):
            frame["title"] = self._title
            frame["writable"] = self._changes is not None
            frame["shadow"] = self._shadow is not None
            frame["panels"] = self._have_panels()
            if any(self._limits):
                frame["limits"] = self._limits._asdict()
        frame.setdefault("at", self._now_ns() // 1_000_000)
        return frame

    async def get(self, path: str, query: Mapping[str, str]) -> Any:
        """Handle a GET request.

        Raises:
            BadRequestError: the path is unknown, or the object does not exist.
        """
        if isinstance(self._states, Timelines):
            if path == "outline":
                return {"title": self._title, **self._states.outline()}
            if path == "moment":
                return self.decorated(self._states.frame(query))
        elif path == "outline":
            return None  # a live cluster has no timeline
        state = self._states.at(query)
        match path.split("/"):
            case ["explanations", namespace, name]:
                return await self._explanation(f"{namespace}/{name}", query)
            case ["group-explanations", namespace, name]:
                return await self._group_explanation(f"{namespace}/{name}", query)
            case ["verdicts", namespace, name]:
                return await self._verdicts(f"{namespace}/{name}", query)
            case ["panels"]:
                return await self._all_panels(query)
            case parts:
                return self._lookup(state, parts, query)

    def _lookup(self, state: PageState, path: Sequence[str], query: Mapping[str, str]) -> Any:
        """Handle a request that needs no child process."""
        match path:
            case ["nodes", name]:
                return self._node(state, name)
            case ["pods", namespace, name]:
                return self._pod(state, f"{namespace}/{name}")
            case ["shadow"] if self._shadow is not None:
                return self._shadow()
            case ["groups", namespace, name]:
                return _group(state, f"{namespace}/{name}")
            case ["queue"]:
                return queue_view(
                    state.view,
                    state.decisions,
                    self._queue(),
                    self._now_ns(),
                    state.of_kind(PodGroup),
                )
            case ["decisions"]:
                return self._decisions(state, query.get("before", ""))
            case ["search"]:
                return _search(state.view, query.get("text", ""))
            case ["selected"]:
                return _selected(state.view, query.get("text", ""))
            case ["workloads"]:
                return _workloads(state)
            case ["configuration"]:
                return {"text": self._configuration_text(state)}
        raise BadRequestError(f"no such path: {'/'.join(path)}", 404)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Run a what-if plan, or change the cluster.

        Raises:
            BadRequestError: the request is invalid, or the cluster cannot be changed.
        """
        if path == "whatif":
            return await self._whatif(body)
        if self._changes is None:
            raise BadRequestError("this page is read-only: the cluster is not embedded", 403)
        return await self._changes.post(path, body)

    def _decisions(self, state: PageState, before: str) -> dict[str, Any]:
        log = state.decisions
        is_number = before.isascii() and before.isdigit() and len(before) < 20
        last = int(before) if is_number else log.last
        return {"first": log.first, "last": log.last, "decisions": log.before(last, _DECISIONS)}

    def _node(self, state: PageState, name: str) -> dict[str, Any]:
        found = node_detail(state, name)
        if found is None:
            raise BadRequestError(f"no node named {name!r}", 404)
        return found

    def _pod(self, state: PageState, key: str) -> dict[str, Any]:
        """Return a pod and its history. The page requests its explanation separately."""
        pod = state.view.pod(key)
        if pod is None:
            raise BadRequestError(f"no pod {key}", 404)
        queue = self._queue()
        answer: dict[str, Any] = {
            "pod": pod_row(pod),
            "labels": pod.metadata.labels,
            "history": pod_history(pod, state.decisions.about(key), queue, key),
        }
        place = None if queue is None else queue.describe(key, self._now_ns())
        if place is not None:
            answer["queue"] = place_row(place)
        return answer

    async def _explanation(self, key: str, query: Moment) -> msgspec.Raw:
        versus = query.get("versus", "")
        return await self._in_child(
            query, lambda snapshot: snapshot.explain(key, versus=versus).to_dict()
        )

    async def _group_explanation(self, key: str, query: Moment) -> msgspec.Raw:
        return await self._in_child(
            query, lambda snapshot: snapshot.explain_group(key, suggest=False).to_dict()
        )

    async def _verdicts(self, key: str, query: Moment) -> msgspec.Raw:
        """Return the verdicts of a pod's filters about every node, for the map."""
        return await self._in_child(
            query, lambda snapshot: _verdicts_of(snapshot.explain(key, suggest=False))
        )

    def _have_panels(self) -> bool:
        try:
            configuration = self._states.at({}).configuration()
        except BadRequestError:
            return False
        return have_panels(configuration, complete_registry(self._plugins))

    async def _all_panels(self, query: Moment) -> Any:
        if self._panels is not None:
            return self._panels()
        return await self._in_child(
            query, lambda snapshot: panels_of(snapshot.model.frameworks.values())
        )

    async def _whatif(self, body: Mapping[str, Any]) -> msgspec.Raw:
        plan = self._plan(body)
        moment = {name: str(body[name]) for name in ("at", "run") if name in body}
        return await self._in_child(moment, lambda snapshot: snapshot.whatif(plan).to_dict())

    async def _in_child(self, moment: Moment, work: Callable[[Snapshot], Any]) -> msgspec.Raw:
        """Run `work` on the objects of a moment in a child process, and return its JSON.

        A request waits until the cluster was read completely: with a part of it the results would
        be wrong.
        """
        try:
            async with asyncio.timeout(_LONGEST_READ_S):
                await self._read()
        except TimeoutError:
            raise BadRequestError("the cluster is still being read; try again", 503) from None
        async with self._children:
            state = self._states.at(moment)

            def answer() -> bytes:
                registry = complete_registry(self._plugins)
                snapshot = Snapshot(
                    state.objects(),
                    configuration=state.configuration(),
                    unknown=self._limits.unknown,
                    partial=self._limits.partial,
                    plugins=registry,
                    gates=self._gates,
                )
                return msgspec.json.encode(work(snapshot))

            if not hasattr(os, "fork"):
                return msgspec.Raw(await asyncio.to_thread(answer))
            try:
                return msgspec.Raw(await in_child(answer, LONGEST_S))
            except ChildError as error:
                raise BadRequestError(str(error), 400 if error.is_refusal else 500) from error

    def _configuration_text(self, state: PageState) -> str:
        configuration = state.configuration()
        if configuration is None:
            configuration = scheduler_configuration()
        if self._changes is not None:
            return written(configuration)
        # Readers of the page need no keys of extenders.
        return dump_yaml(read_configuration_of(versioned(as_written(configuration))))

    def _plan(self, body: Mapping[str, Any]) -> Plan:
        try:
            plan = Plan(
                drain=tuple(str(each) for each in body.get("drain", ())),
                remove=tuple(str(each) for each in body.get("remove", ())),
                scale=tuple((str(target), int(count)) for target, count in body.get("scale", ())),
                add=int(body.get("add") or 0),
                like=str(body.get("like", "")),
            )
        except (TypeError, ValueError, OverflowError) as error:
            raise BadRequestError(f"invalid plan: {error}") from error
        if text := str(body.get("configuration", "")).strip():
            configuration = read_configuration(text, self._plugins)
            plan = msgspec.structs.replace(plan, configuration=configuration)
        if plan == Plan():
            raise BadRequestError(
                "empty plan: drain, add, remove or scale something, or change the configuration"
            )
        return plan


def _verdicts_of(found: Explanation) -> dict[str, Any]:
    return {
        "fits": [node for group in found.groups if not group.rejections for node in group.nodes],
        "rejected": {
            node: ", ".join(each.reason for each in group.rejections)
            for group in found.groups
            if group.rejections
            for node in group.nodes
        },
    }


def _search(view: PageView, text: str) -> list[dict[str, str]]:
    """Find nodes and pods by a part of their name; names with that prefix come first."""
    part = text.strip().lower()
    if not part:
        return []

    def found(kind: str, names: Any) -> list[dict[str, str]]:
        hits = [name for name in names if part in name.lower()]
        hits.sort(key=lambda name: (not name.split("/")[-1].lower().startswith(part), name))
        return [{"kind": kind, "name": name} for name in hits[:_MOST_HITS]]

    return [*found("node", view.names()), *found("pod", map(pod_key, view.pods()))]


def _selected(view: PageView, text: str) -> dict[str, int]:
    """Count pods per node whose labels match a selector, or whose name contains the text.

    A text of letters, digits, dots, slashes and hyphens only is a part of a name.

    Raises:
        BadRequestError: the selector does not parse.
    """
    selector = None
    if not _NAME_PART.fullmatch(text):
        try:
            selector = Selector.parse(text)
        except SelectorError as error:
            raise BadRequestError(f"selector {text!r}: {error}") from error
    counts: Counter[str] = Counter()
    for pod in view.pods():
        if not pod.spec.node_name:
            continue
        if text in pod_key(pod) if selector is None else selector.matches(pod.metadata.labels):
            counts[pod.spec.node_name] += 1
    return dict(counts)


def _group(state: PageState, key: str) -> dict[str, Any]:
    """Return a pod group and its pods."""
    rows = group_rows(state.of_kind(PodGroup), state.view.pods())
    row = next((each for each in rows if each["key"] == key), None)
    if row is None:
        raise BadRequestError(f"no pod group {key}", 404)
    pods = by_importance(group_members(state.view.pods()).get(key, []))
    return {"group": row, "pods": [pod_row(pod) for pod in pods[:_MEMBERS_SHOWN]]}


def _workloads(state: PageState) -> list[dict[str, Any]]:
    """List the workloads that can be scaled."""
    found: list[dict[str, Any]] = []
    kinds: tuple[type[Any], ...] = (Deployment, StatefulSet)
    for kind in kinds:
        each: Any
        for each in state.of_kind(kind):
            replicas = each.spec.replicas
            found.append(
                {
                    "kind": kind.kind,
                    "namespace": each.metadata.namespace,
                    "name": each.metadata.name,
                    "replicas": 1 if replicas is None else replicas,
                }
            )
    return sorted(found, key=lambda each: (each["namespace"], each["name"]))
