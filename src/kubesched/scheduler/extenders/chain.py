"""Calls all extenders of a scheduler and combines their responses.

They filter one after another, score in parallel, and one of them may bind (docs/reference/04 §18.3
to §18.6). An ignorable extender is skipped when it fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence

from kubesched.api import Pod
from kubesched.api.int64 import wrap_int64
from kubesched.foundation.client.extender_client import ExtenderError
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.go_format import quote
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import SUCCESS, Diagnosis, PodInfo, Snapshot, Status, Victims
from kubesched.scheduler.extenders.answers import MetaVictims
from kubesched.scheduler.extenders.extender import ExtenderNode, HTTPExtender

__all__ = ["Extenders"]

log = get_logger(__name__)

# Extenders score from 0 to 10, plugins from 0 to 100.
_SCALE = 10


class Extenders:
    """The extenders of a scheduler, in the order in which they are called.

    `may_act` says whether this process may still write to the cluster: an extender that binds
    writes on its behalf.
    """

    def __init__(
        self,
        extenders: Sequence[HTTPExtender],
        metrics: SchedulerMetrics,
        may_act: Callable[[], bool] | None = None,
    ) -> None:
        self._all = tuple(extenders)
        self._may_act = may_act
        self._prioritizing = metrics.goroutines.labels("prioritizing_extender")

    def __iter__(self) -> Iterator[HTTPExtender]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def narrow_or_rank(self) -> bool:
        """Whether any of them filters or ranks nodes."""
        return any(each.settings.filter_verb or each.settings.prioritize_verb for each in self._all)

    def interested_in(self, pod: Pod) -> tuple[HTTPExtender, ...]:
        """Return the extenders that an attempt at this pod has to call."""
        return tuple(
            each for each in self._all if each.takes_part_in_attempts and each.is_interested(pod)
        )

    def names_asked_about(self, pod: Pod) -> frozenset[str]:
        return frozenset(each.name for each in self.interested_in(pod))

    async def close(self) -> None:
        for each in self._all:
            await each.client.close()

    async def filter(
        self,
        extenders: Sequence[HTTPExtender],
        pod: bytes,
        nodes: Sequence[ExtenderNode],
        diagnosis: Diagnosis,
    ) -> list[ExtenderNode]:
        """Return the nodes that every extender accepts; record the others in the diagnosis.

        Raises:
            ExtenderError: an extender failed that is not ignorable.
        """
        left = list(nodes)
        for extender in extenders:
            if not left:
                break
            try:
                filtered = await extender.filter(pod, left)
            except ExtenderError as exc:
                if not extender.settings.ignorable:
                    raise
                log.info(
                    "Skipping extender as it returned error and has ignorable flag set",
                    extender=extender.name,
                    err=exc,
                )
                continue
            hopeless = filtered.failed_and_unresolvable
            for name, message in hopeless.items():
                diagnosis.add_node_status(name, Status.unresolvable(message))
            for name, message in filtered.failed.items():
                if name not in hopeless:
                    diagnosis.add_node_status(name, Status.unschedulable(message))
            left = filtered.nodes
        return left

    async def prioritize(
        self, extenders: Sequence[HTTPExtender], pod: bytes, nodes: Sequence[ExtenderNode]
    ) -> dict[str, int]:
        """Return what to add to the nodes' totals; an extender that fails adds nothing."""
        totals: dict[str, int] = {}
        async with asyncio.TaskGroup() as tasks:
            for extender in extenders:
                if extender.settings.prioritize_verb:
                    work = self._score(extender, pod, nodes, totals)
                    tasks.create_task(work, name=f"prioritize by {extender.name}")
        return {name: wrap_int64(total * _SCALE) for name, total in totals.items()}

    async def _score(
        self,
        extender: HTTPExtender,
        pod: bytes,
        nodes: Sequence[ExtenderNode],
        totals: dict[str, int],
    ) -> None:
        self._prioritizing.inc()
        try:
            scores = await extender.prioritize(pod, nodes)
        except ExtenderError as exc:
            log.detail(
                5,
                "Failed to run extender's priority function. No score given by this extender.",
                extender=extender.name,
                err=exc,
            )
            return
        finally:
            self._prioritizing.dec()
        for name, score in scores:
            totals[name] = totals.get(name, 0) + score * extender.settings.weight

    async def review_victims(
        self,
        extenders: Sequence[HTTPExtender],
        pod: bytes,
        victims: Mapping[str, Victims],
        snapshot: Snapshot,
        body_of: Callable[[Pod], bytes],
    ) -> Mapping[str, Victims]:
        """Return the candidate nodes and victims that the extenders accept.

        Raises:
            ExtenderError: an extender failed that is not ignorable.
        """
        for extender in extenders:
            if not extender.settings.preempt_verb:
                continue
            present = {node: each.present for node, each in victims.items()}
            try:
                answer = await extender.preempt(pod, victims, body_of)
                named = _named_victims(extender, answer, present, snapshot)
            except ExtenderError as exc:
                if not extender.settings.ignorable:
                    raise
                log.info(
                    "Skipped extender as it returned error and has ignorable flag set",
                    extender=extender.name,
                    err=exc,
                )
                continue
            victims = _with_victims(extender, named)
            if not victims:
                break
        return victims

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        """Bind the pod with the first extender that binds such pods; None if there is none."""
        for extender in self._all:
            if not extender.settings.bind_verb or not extender.is_interested(pod):
                continue
            if self._may_act is not None and not self._may_act():
                return Status.failure("not sent: the lease may be in other hands")
            try:
                await extender.bind(pod, node_name)
            except ExtenderError as exc:
                if not extender.settings.ignorable:
                    return Status.failure(exc)
                log.info(
                    "Skipping extender in bind as it returned error and has ignorable flag set",
                    extender=extender.name,
                    err=exc,
                )
                continue
            return SUCCESS
        return None


def _named_victims(
    extender: HTTPExtender,
    answer: Mapping[str, MetaVictims],
    present: Mapping[str, Mapping[str, PodInfo]],
    snapshot: Snapshot,
) -> dict[str, Victims]:
    """Return the pods with the uids of a response, by node."""
    found: dict[str, Victims] = {}
    for node_name, meta in answer.items():
        pods_on_node = present.get(node_name)
        if pods_on_node is None:
            node = snapshot.get(node_name)
            if node is None:
                raise ExtenderError(f"nodeinfo not found for node name {quote(node_name)}")
            pods_on_node = {pod_info.uid: pod_info for pod_info in node.pods}
        for uid in meta.uids:
            if uid not in pods_on_node:
                raise ExtenderError(
                    f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: "
                    f"{node_name}, but the pod is not found on that node"
                )
        pods = tuple(pods_on_node[uid] for uid in meta.uids)
        found[node_name] = Victims(pods, meta.violations, pods_on_node)
    return found


def _with_victims(extender: HTTPExtender, named: Mapping[str, Victims]) -> dict[str, Victims]:
    """Return the nodes that have victims."""
    kept: dict[str, Victims] = {}
    for node_name, victims in named.items():
        if victims.pods:
            kept[node_name] = victims
        elif extender.settings.ignorable:
            log.info(
                "Ignored node for which the extender didn't report victims",
                node=node_name,
                extender=extender.name,
            )
        else:
            raise ExtenderError(f"expected at least one victim pod on node {quote(node_name)}")
    return kept
