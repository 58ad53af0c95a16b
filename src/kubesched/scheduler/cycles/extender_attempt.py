"""An attempt at a pod that extenders have a say in: it waits for them (docs/reference/04 §11, §18).

Between two waits nothing else runs, so each step sees one state of the cluster. After a wait the
cluster may be another one. What was found before is then worked out anew for the nodes that are
left: a pod is placed where it fits now, not where it fitted when the extenders were asked. If
none of those nodes is left, or the pod itself has changed, the attempt begins again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.errors import KubeschedError
from kubesched.foundation.client.document_keeper import DocumentKeeper
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
from kubesched.scheduler.extenders.extender import AskedNode, HTTPExtender
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.search_outcomes import PreFilterOutcome
from kubesched.scheduler.search.fit_checks import FitChecks
from kubesched.scheduler.search.node_filtering import NodeFiltering
from kubesched.scheduler.search.node_scoring import NodeScoring
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["ExtenderAttempt", "ExtenderContext", "PodGoneError"]

log = get_logger(__name__)

# So often an attempt begins again because others were quicker; then it has failed.
_ROUNDS = 3


class PodGoneError(KubeschedError):
    """While extenders were asked, the pod was deleted, or somebody bound it."""


class _OvertakenError(KubeschedError):
    """While extenders were asked, others took the room, or the pod changed."""

    def __init__(self, error: FitError | None = None) -> None:
        super().__init__()
        self.error = error


class ExtenderContext(NamedTuple):
    """What attempts that ask extenders work with."""

    cache: Cache
    filtering: NodeFiltering
    scoring: NodeScoring
    fit_checks: FitChecks
    extenders: Extenders
    documents: DocumentKeeper
    pods: Lister[Pod]
    # By uid of a pod: nodes that fitted and that extenders refused, when it was last tried.
    refused: dict[str, frozenset[str]]


class ExtenderAttempt:
    """One try to place one pod. `state` is what the plugins noted last, about what is now."""

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
        # Whether it failed only because others were quicker, time and again.
        self.is_overtaken = False
        self._version: ClusterVersion | None = None
        self._with_bodies = any(extender.is_sent_nodes for extender in extenders)
        self._body = b""

    @property
    def state(self) -> CycleState:
        """The state of the plugins' latest calls."""
        return self._search.state

    @property
    def pod_info(self) -> PodInfo:
        return self._queued.pod_info

    async def choose(self) -> str:
        """The name of the node to place the pod on.

        Raises:
            NoNodesError: there is no node.
            FitError: no node fits; unless `is_overtaken`, `state` is good for PostFilter.
            PluginError: a plugin failed.
            ExtenderError: an extender failed that may not be ignored.
            PodGoneError: there is nothing left to place.
        """
        overtaken: FitError | None = None
        for _ in range(_ROUNDS):
            try:
                return await self._choose()
            except _OvertakenError as exc:
                overtaken = exc.error
                log.detail(2, "Overtaken while asking extenders", pod=self.pod_info.pod)
        if overtaken is None:
            raise ExtenderError("the pod kept changing while extenders were asked")
        self.is_overtaken = True
        raise overtaken

    async def _choose(self) -> str:
        context, framework = self._context, self._framework
        context.refused.pop(self.pod_info.uid, None)
        # One version of the pod is shown to all, whatever happens to it meanwhile.
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
        left = await self._ask(asked, diagnosis)
        known, unknown = self._known(left, asked)
        if len(left) != len(asked) or not known:
            diagnosis.unschedulable_plugins.add(EXTENDER)
        if not known:
            self._look_for_more(diagnosis, {node.name for node in asked})
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
        """The node the pod is nominated to, if it fits and nobody objects; else nothing."""
        nominated = self._context.filtering.nominated_node(self._search, diagnosis)
        if nominated is None:
            return ""
        asked = self._nodes(nominated)
        try:
            left = await self._ask(asked, diagnosis)
        except ExtenderError as exc:
            log.error("Evaluation of the nominated node failed", exc=exc, pod=self.pod_info.pod)
            return ""
        left, _ = self._known(left, asked)
        if not left:
            return ""
        _, left = self._still_fitting(left, diagnosis)
        return left[0].name

    async def _rank(
        self,
        feasible: NodeView,
        nodes: list[AskedNode],
        unknown: list[AskedNode],
        diagnosis: Diagnosis,
    ) -> str:
        """The best of several nodes, by the plugins' scores and the extenders'.

        Extenders are shown nodes too that are `unknown` here; the pod is not placed there.
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

    def _scores(self, feasible: NodeView, nodes: Sequence[AskedNode]) -> NDArray[np.int64]:
        infos: list[NodeInfo] | None = None
        if any(node.is_returned for node in nodes):
            infos = [node.info() or info for node, info in zip(nodes, feasible, strict=True)]
        return self._context.scoring.score(self._search, feasible, infos).total

    def _nodes(self, view: NodeView) -> list[AskedNode]:
        if not self._with_bodies:
            return [AskedNode(name) for name in view.names]
        body_of = self._context.documents.node
        return [
            AskedNode(info.name, body_of(info.node), info.node)
            for info in view
            if info.node is not None
        ]

    async def _ask(self, nodes: Sequence[AskedNode], diagnosis: Diagnosis) -> list[AskedNode]:
        """What the extenders leave of the nodes, and what they add."""
        extenders = self._context.extenders
        left = await extenders.filter(self.extenders, self._body, nodes, diagnosis)
        self._check_pod()
        return left

    def _known(
        self, left: Sequence[AskedNode], asked: Sequence[AskedNode]
    ) -> tuple[list[AskedNode], list[AskedNode]]:
        """Nodes that there are, and others that an extender made up."""
        snapshot, names = self._context.cache.snapshot, {node.name for node in asked}
        known: list[AskedNode] = []
        unknown: list[AskedNode] = []
        for node in left:
            if node.name in names or snapshot.get(node.name) is not None:
                known.append(node)
            else:
                unknown.append(node)
                log.error("Extender returned a node that does not exist", node=node.name)
        return known, unknown

    def _check_pod(self) -> None:
        """See whether the pod is still the one that is being placed."""
        pod, current = self.pod_info.pod, self._current_pod()
        if current is None:
            raise PodGoneError
        if current is not pod and _differ(current, pod):
            self._queued.pod_info = PodInfo(current)
            raise _OvertakenError

    @property
    def is_pod_gone(self) -> bool:
        """Whether there is nothing left to place."""
        return self._current_pod() is None

    def _current_pod(self) -> Pod | None:
        """The pod as it is now, if it still waits for a node."""
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
        self, nodes: Sequence[AskedNode], diagnosis: Diagnosis
    ) -> tuple[NodeView, list[AskedNode]]:
        """Those of the nodes that fit by now, in the same order, and what extenders said of them.

        Raises:
            _OvertakenError: none does.
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

    def _look_for_more(self, diagnosis: Diagnosis, refused: Collection[str]) -> None:
        """The extenders left no node: see whether others fit by now, and give up if not.

        Raises:
            FitError: no node fits that has not been refused.
            _OvertakenError: one does.
        """
        context = self._context
        if not self.is_pod_gone:  # nobody would take it out again
            context.refused[self.pod_info.uid] = frozenset(refused)
        if not self._renew():
            raise self._unfit(diagnosis)
        again = Diagnosis(diagnosis.names)
        fitting = context.fit_checks.feasible_now(self._search, again)
        is_new = not set(fitting.names) <= set(refused)
        told = diagnosis.node_statuses()
        for name in fitting.names:
            if name in told:
                again.add_node_status(name, told[name])
        again.unschedulable_plugins.add(EXTENDER)
        raise _OvertakenError(self._unfit(again)) if is_new else self._unfit(again)

    def _renew(self) -> bool:
        """Bring the snapshot up to date; with a new state if the last one is out of date."""
        self._context.cache.update_snapshot()
        version = self._framework.dry_run.version
        if version == self._version:
            return False
        self._version = version
        self._search = self._new_search()
        return True

    def _new_search(self) -> SearchAttempt:
        state = CycleState()
        state.plugin_timer = self._framework.point_metrics.sample()
        return SearchAttempt(self._framework, state, self.pod_info)

    def _unfit(self, diagnosis: Diagnosis) -> FitError:
        return FitError(len(self._context.cache.snapshot), diagnosis)


def _differ(one: Pod, other: Pod) -> bool:
    """Whether two versions of a pod may have to be placed differently."""
    return one.spec != other.spec or one.metadata.labels != other.metadata.labels
