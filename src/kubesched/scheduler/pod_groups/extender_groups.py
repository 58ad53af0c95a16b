"""Group cycles of pods that extenders are interested in (decision 0047).

A group cycle never awaits. Therefore the extenders are called before it, for one member after
another, and the cycle uses their responses. During the calls the loop continues with other pods.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kubesched.api import Pod
from kubesched.errors import KubeschedError
from kubesched.foundation.util.components import BackgroundTasks
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import CycleState, Diagnosis, NodeView, PodInfo, QueuedPodInfo
from kubesched.scheduler.cycles.extender_attempt import ExtenderContext
from kubesched.scheduler.cycles.extender_tasks import ExtenderTasks
from kubesched.scheduler.extenders.extender import ExtenderNode, HTTPExtender
from kubesched.scheduler.pod_groups.extender_answers import AnsweredSearch, ExtenderAnswer
from kubesched.scheduler.pod_groups.group_cycle import PodGroupCycle
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["ExtenderGroups"]

log = get_logger(__name__)


class ExtenderGroups:
    """Calls extenders about the members of groups, and then runs the group cycle."""

    def __init__(
        self,
        context: ExtenderContext,
        running: ExtenderTasks,
        search: AnsweredSearch,
        cycle: PodGroupCycle,
        *,
        preempts_together: bool,
    ) -> None:
        """With `preempts_together` groups preempt as a whole, so any node may become feasible."""
        self._context = context
        self._running = running
        self._search = search
        self._cycle = cycle
        self._preempts_together = preempts_together

    def takes(self, members: Sequence[QueuedPodInfo]) -> bool:
        """Whether an attempt at the group calls extenders."""
        return any(self._running.extenders_of(queued.pod) for queued in members)

    def start(
        self, tasks: BackgroundTasks, framework: Framework, members: list[QueuedPodInfo]
    ) -> None:
        """Start an attempt at the group."""
        task = tasks.spawn(self._attempt(framework, members), "extenders of a group")
        self._running.track(task, framework)

    async def _attempt(self, framework: Framework, members: list[QueuedPodInfo]) -> None:
        names = {each.name for queued in members for each in self._extenders_of(queued)}
        answers: dict[str, ExtenderAnswer] = {}
        async with self._running.reserved(names):
            for queued in members:
                if extenders := self._extenders_of(queued):
                    uid = queued.pod.metadata.uid
                    try:
                        answers[uid] = await self._call_extenders(
                            framework, queued.pod_info, extenders
                        )
                    except KubeschedError as exc:
                        answers[uid] = ExtenderAnswer(error=exc)
                        # the group fails with this error, whatever the results for the other
                        # members are
                        break
        # From here to the end nothing is awaited.
        for queued in members:
            current = self._current(queued.pod)
            if current is not None and current is not queued.pod:
                queued.pod_info = PodInfo(current)
        self._search.answers = answers
        try:
            self._cycle.place(members, reviewed=self._reviewed(members))
        finally:
            self._search.answers = {}

    def _extenders_of(self, queued: QueuedPodInfo) -> Sequence[HTTPExtender]:
        return self._running.extenders_of(queued.pod)

    def _reviewed(self, members: Sequence[QueuedPodInfo]) -> Collection[str]:
        """Return the uids of members whose victims extenders would review."""
        return {
            queued.pod.metadata.uid
            for queued in members
            if any(each.settings.preempt_verb for each in self._extenders_of(queued))
        }

    def _current(self, pod: Pod) -> Pod | None:
        """Return the informer's version of a pod."""
        found = self._context.pods.get(pod.metadata.name, pod.metadata.namespace)
        return found if found is not None and found.metadata.uid == pod.metadata.uid else None

    async def _call_extenders(
        self, framework: Framework, pod_info: PodInfo, extenders: Sequence[HTTPExtender]
    ) -> ExtenderAnswer:
        """Call the extenders about the nodes that a member may get.

        Raises:
            KubeschedError: an extender failed that is not ignorable, or a plugin failed.
        """
        context = self._context
        nodes = self._nodes_to_send(framework, pod_info)
        if not len(nodes):
            return ExtenderAnswer()
        body = context.documents.pod(pod_info.pod)
        asked = self._shown(nodes, extenders)
        diagnosis = Diagnosis(context.cache.snapshot.table.names)
        left = await context.extenders.filter(extenders, body, asked, diagnosis)
        refusals = diagnosis.node_statuses()
        accepted = frozenset(node.name for node in left)
        scores = {}
        if len(left) > 1:
            scores = await context.extenders.prioritize(extenders, body, left)
        return ExtenderAnswer(accepted, refusals, scores)

    def _nodes_to_send(self, framework: Framework, pod_info: PodInfo) -> NodeView:
        """Return the nodes that fit the member alone, or all if others may make more nodes fit."""
        context = self._context
        snapshot = context.cache.update_snapshot()
        if self._preempts_together or pod_info.required_affinity_terms:
            return snapshot.nodes
        attempt = SearchAttempt(framework, CycleState(), pod_info)
        outcome = context.filtering.pre_filter(attempt)
        diagnosis = Diagnosis(snapshot.table.names)
        if not outcome.status.is_success:
            return context.filtering.reject_all(outcome, diagnosis)
        nodes = snapshot.nodes
        if outcome.only_nodes is not None:
            nodes = context.filtering.narrowed(outcome, diagnosis)
        return context.filtering.filter(attempt, nodes, diagnosis)

    def _shown(self, nodes: NodeView, extenders: Sequence[HTTPExtender]) -> list[ExtenderNode]:
        if not any(extender.is_sent_nodes for extender in extenders):
            return [ExtenderNode(name) for name in nodes.names]
        body_of = self._context.documents.node
        return [
            ExtenderNode(info.name, body_of(info.node), info.node)
            for info in nodes
            if info.node is not None
        ]
