"""The search for a node with extenders, which it awaits (docs/reference/04 §11, §18).

Between two awaits nothing else runs, so each step reads one state of the cluster. After an await
the cluster may have changed. The remaining nodes are then filtered again: a pod is placed where it
fits now, not where it fitted when the extenders were called. If none of those nodes is left, or
the pod itself has changed, the attempt begins again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.errors import KubeschedError
from kubesched.foundation.client.document_cache import DocumentCache
from kubesched.foundation.client.extender_client import ExtenderError
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    ClusterVersion,
    CycleState,
    Diagnosis,
    FitError,
    Lister,
    NodeInfo,
    NodeView,
    PodInfo,
    QueuedPodInfo,
)
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue.queueing_hints import EXTENDER
from kubesched.scheduler.extenders.chain import Extenders
from kubesched.scheduler.extenders.extender import ExtenderNode, HTTPExtender
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.search_outcomes import PreFilterOutcome
from kubesched.scheduler.search.fit_checks import FitChecks
from kubesched.scheduler.search.node_filtering import NodeFiltering
from kubesched.scheduler.search.node_scoring import NodeScoring
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["ExtenderAttempt", "ExtenderContext", "PodGoneError"]

log = get_logger(__name__)

# The maximum number of times that an attempt begins again.
_ROUNDS = 3


class PodGoneError(KubeschedError):
    """The pod was deleted or bound while the attempt waited for extenders."""


class _OvertakenError(KubeschedError):
    """The nodes or the pod changed while the attempt waited: it must begin again."""

    def __init__(self, error: FitError | None = None) -> None:
        super().__init__()
        self.error = error


class ExtenderContext(NamedTuple):
    """The collaborators of all attempts with extenders."""

    cache: Cache
    filtering: NodeFiltering
    scoring: NodeScoring
    fit_checks: FitChecks
    extenders: Extenders
    documents: DocumentCache
    pods: Lister[Pod]
    # By uid of a pod: the feasible nodes that extenders refused in its last attempt.
    refused: dict[str, frozenset[str]]


class ExtenderAttempt:
    """One attempt to find a node for one pod."""

    def __init__(
        self,
        context: ExtenderContext,
        framework: Framework,
        queued: QueuedPodInfo,
        extenders: Sequence[HTTPExtender],
    ) -> None:
        self._context = context
        self._framework = framework
        self._queued = queued
        self.extenders = extenders
        self._search = SearchAttempt(framework, CycleState(), queued.pod_info)
        # Whether it failed only because the cluster changed during every round.
        self.is_overtaken = False
        self._version: ClusterVersion | None = None
        self._with_bodies = any(extender.is_sent_nodes for extender in extenders)
        self._body = b""

    @property
    def state(self) -> CycleState:
        """The state of the plugins' latest calls, for the current cluster."""
        return self._search.state

    @property
    def pod_info(self) -> PodInfo:
        return self._queued.pod_info

    async def choose(self) -> str:
        """Return the name of the node to place the pod on.

        Raises:
            NoNodesError: there is no node.
            FitError: no node fits; unless `is_overtaken`, PostFilter may run with `state`.
            PluginError: a plugin failed.
            ExtenderError: an extender failed that is not ignorable.
            PodGoneError: the pod was deleted or bound.
        """
        overtaken: FitError | None = None
        for _ in range(_ROUNDS):
            try:
                return await self._choose()
            except _OvertakenError as exc:
                overtaken = exc.error
                log.detail(2, "Attempt overtaken during calls of extenders", pod=self.pod_info.pod)
        if overtaken is None:
            raise ExtenderError("the pod kept changing during calls of extenders")
        self.is_overtaken = True
        raise overtaken

    async def _choose(self) -> str:
        context, framework = self._context, self._framework
        context.refused.pop(self.pod_info.uid, None)
        # All extenders of one round are sent the same version of the pod.
        self._body = context.documents.pod(self.pod_info.pod)
        diagnosis = Diagnosis(context.cache.snapshot.table.names)
        self._version = None
        self._renew()
        outcome = self._pre_filter(diagnosis)
        if self.pod_info.pod.status.nominated_node_name:
            nominated = await self._nominated_node(diagnosis)
            if nominated:
                return nominated
            if self._renew():
                outcome = self._pre_filter(diagnosis)
        start_index = context.filtering.sampling.start_index
        with framework.point_metrics.timing("Filter"):
            feasible = context.filtering.find_enough(self._search, outcome, diagnosis)
        if not len(feasible):
            raise self._unfit(diagnosis)
        diagnosis.settle()
        asked = self._nodes(context.filtering.sampling.in_search_order(feasible, start_index))
        left = await self._filter_by_extenders(asked, diagnosis)
        known, unknown = self._split_by_existence(left, asked)
        if len(left) != len(asked) or not known:
            diagnosis.unschedulable_plugins.add(EXTENDER)
        if not known:
            self._search_other_nodes(diagnosis, {node.name for node in asked})
        feasible, known = self._still_fitting(known, diagnosis)
        if len(known) + len(unknown) > 1:
            return await self._rank(feasible, known, unknown, diagnosis)
        return known[0].name

    def _pre_filter(self, diagnosis: Diagnosis) -> PreFilterOutcome:
        filtering = self._context.filtering
        outcome = filtering.pre_filter(self._search)
        if not outcome.status.is_success:
            filtering.reject_all(outcome, diagnosis)
            raise self._unfit(diagnosis)
        return outcome

    async def _nominated_node(self, diagnosis: Diagnosis) -> str:
        """Return the nominated node if plugins and extenders accept it; otherwise an empty text."""
        nominated = self._context.filtering.nominated_node(self._search, diagnosis)
        if nominated is None:
            return ""
        asked = self._nodes(nominated)
        try:
            left = await self._filter_by_extenders(asked, diagnosis)
        except ExtenderError as exc:
            log.error("Evaluation of the nominated node failed", exc=exc, pod=self.pod_info.pod)
            return ""
        left, _ = self._split_by_existence(left, asked)
        if not left:
            return ""
        _, left = self._still_fitting(left, diagnosis)
        return left[0].name

    async def _rank(
        self,
        feasible: NodeView,
        nodes: list[ExtenderNode],
        unknown: list[ExtenderNode],
        diagnosis: Diagnosis,
    ) -> str:
        """Return the best of several nodes, by the scores of plugins and extenders.

        Extenders also rank nodes that are `unknown` to the cache; the pod is not placed there.
        """
        totals = self._scores(feasible, nodes)
        shown = [*nodes, *unknown]
        added = await self._context.extenders.prioritize(self.extenders, self._body, shown)
        self._check_pod()
        before = self._version
        feasible, nodes = self._still_fitting(nodes, diagnosis)
        if self._version != before:
            if len(nodes) == 1:
                return nodes[0].name
            totals = self._scores(feasible, nodes)
        extra = np.array([added.get(node.name, 0) for node in nodes], dtype=np.int64)
        names = [node.name for node in nodes]
        return self._context.scoring.choose_named(self._framework, totals + extra, names)

    def _scores(self, feasible: NodeView, nodes: Sequence[ExtenderNode]) -> NDArray[np.int64]:
        infos: list[NodeInfo] | None = None
        if any(node.is_returned for node in nodes):
            infos = [node.info() or info for node, info in zip(nodes, feasible, strict=True)]
        return self._context.scoring.score(self._search, feasible, infos).total

    def _nodes(self, view: NodeView) -> list[ExtenderNode]:
        if not self._with_bodies:
            return [ExtenderNode(name) for name in view.names]
        body_of = self._context.documents.node
        return [
            ExtenderNode(info.name, body_of(info.node), info.node)
            for info in view
            if info.node is not None
        ]

    async def _filter_by_extenders(
        self, nodes: Sequence[ExtenderNode], diagnosis: Diagnosis
    ) -> list[ExtenderNode]:
        """Return the nodes that the extenders accept, and those that they add."""
        extenders = self._context.extenders
        left = await extenders.filter(self.extenders, self._body, nodes, diagnosis)
        self._check_pod()
        return left

    def _split_by_existence(
        self, left: Sequence[ExtenderNode], asked: Sequence[ExtenderNode]
    ) -> tuple[list[ExtenderNode], list[ExtenderNode]]:
        """Split the nodes into those that exist and those that do not."""
        snapshot, names = self._context.cache.snapshot, {node.name for node in asked}
        known: list[ExtenderNode] = []
        unknown: list[ExtenderNode] = []
        for node in left:
            if node.name in names or snapshot.get(node.name) is not None:
                known.append(node)
            else:
                unknown.append(node)
                log.error("Extender returned a node that does not exist", node=node.name)
        return known, unknown

    def _check_pod(self) -> None:
        """Check that the pod still waits and has not changed.

        Raises:
            PodGoneError: it was deleted or bound.
            _OvertakenError: it has changed.
        """
        pod, current = self.pod_info.pod, self._current_pod()
        if current is None:
            raise PodGoneError
        if current is not pod and _differ(current, pod):
            self._queued.pod_info = PodInfo(current)
            raise _OvertakenError

    @property
    def is_pod_gone(self) -> bool:
        """Whether the pod was deleted or bound."""
        return self._current_pod() is None

    def _current_pod(self) -> Pod | None:
        """Return the informer's version of the pod if it still waits for a node."""
        metadata = self.pod_info.pod.metadata
        current = self._context.pods.get(metadata.name, metadata.namespace)
        if (
            current is None
            or current.metadata.uid != metadata.uid
            or current.metadata.deletion_timestamp is not None
            or current.spec.node_name
        ):
            return None
        return current

    def _still_fitting(
        self, nodes: Sequence[ExtenderNode], diagnosis: Diagnosis
    ) -> tuple[NodeView, list[ExtenderNode]]:
        """Return the nodes that fit now, in the same order, as a view and as the extenders' nodes.

        Raises:
            _OvertakenError: none of them fits any more.
        """
        context = self._context
        snapshot = context.cache.snapshot
        by_name = {node.name: node for node in nodes}
        left = list(by_name)
        if self._renew():
            again = Diagnosis(diagnosis.names)
            fitting = context.fit_checks.feasible_now(self._search, again, by_name)
            if not len(fitting):
                again.settle()
                diagnosis.merge(again)
                raise _OvertakenError(self._unfit(diagnosis))
            still = set(fitting.names)
            left = [name for name in left if name in still]
        rows = np.array([snapshot.table.row_of[name] for name in left], dtype=np.intp)
        return snapshot.nodes.at_rows(rows), [by_name[name] for name in left]

    def _search_other_nodes(self, diagnosis: Diagnosis, refused: Collection[str]) -> None:
        """Search for nodes that fit now, after extenders refused all that fitted before.

        Raises:
            FitError: no node fits except those that were refused.
            _OvertakenError: another node fits now.
        """
        context = self._context
        if not self.is_pod_gone:  # the entry of a deleted pod would never be removed
            context.refused[self.pod_info.uid] = frozenset(refused)
        if not self._renew():
            raise self._unfit(diagnosis)
        again = Diagnosis(diagnosis.names)
        fitting = context.fit_checks.feasible_now(self._search, again)
        is_new = not set(fitting.names) <= set(refused)
        statuses = diagnosis.node_statuses()
        for name in fitting.names:
            if name in statuses:
                again.add_node_status(name, statuses[name])
        again.unschedulable_plugins.add(EXTENDER)
        raise _OvertakenError(self._unfit(again)) if is_new else self._unfit(again)

    def _renew(self) -> bool:
        """Update the snapshot; return whether the cluster has changed since the plugins ran.

        If it has, the attempt gets a new state.
        """
        self._context.cache.update_snapshot()
        version = self._framework.dry_run.version
        if version == self._version:
            return False
        self._version = version
        self._search = self._new_search()
        return True

    def _new_search(self) -> SearchAttempt:
        state = CycleState()
        state.may_pause = True  # it fails instead, and the next attempt continues
        state.plugin_timer = self._framework.point_metrics.sample()
        return SearchAttempt(self._framework, state, self.pod_info)

    def _unfit(self, diagnosis: Diagnosis) -> FitError:
        return FitError(len(self._context.cache.snapshot), diagnosis)


def _differ(one: Pod, other: Pod) -> bool:
    """Whether two versions of a pod differ in what plugins read."""
    return one.spec != other.spec or one.metadata.labels != other.metadata.labels
