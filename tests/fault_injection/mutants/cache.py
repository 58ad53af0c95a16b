"""Mutants of the cache, the event handlers, the snapshot and the node table."""

from __future__ import annotations

from typing import Any

from kubesched.api import Pod
from tests.fault_injection.mutants.mutant import (
    Mutant,
    no,
    nothing,
    replace,
    replace_names,
    skip_every,
    with_value,
    without_call,
    wrap,
    yes,
)

__all__ = ["MUTANTS"]

_CACHE = "kubesched.scheduler.backend.cache.Cache"
_HANDLERS = "kubesched.scheduler.events.event_handlers.EventHandlers"
_SNAPSHOT = "kubesched.scheduler.backend.cluster_snapshot.ClusterSnapshot"
_NODE_INFO = "kubesched.framework.node_info.NodeInfo"
_TABLE = "kubesched.framework.engine.node_table"
_COUNTS = "kubesched.framework.engine.domain_counts"


def _take_recreated_pod_for_the_old_one(original: Any, self: Any, old: Pod, new: Pod) -> None:
    if old.metadata.uid == new.metadata.uid:
        original(self, old, new)
    elif old.spec.node_name:
        self._update_assigned(old, new)
    elif new.spec.node_name:
        self._add_assigned(new)
        if self._is_responsible(old):
            self._queue.delete(old)
    elif self._is_responsible(old):
        self._update_waiting(old, new)


def _ignore_assigned_tombstones(
    original: Any, self: Any, pod: Pod, is_tombstone: bool = False
) -> None:
    if not is_tombstone:
        original(self, pod)
    elif self._is_responsible(pod):
        self._delete_waiting(pod)


def _write_node_once(original: Any, self: Any, row: int, info: Any) -> None:
    if info.name in self._written_nodes:
        self._written_nodes[info.name] = info.node
    original(self, row, info)


def _keep_attributes(*names: str) -> Any:
    """A wrapper of a method that leaves some attributes as they were."""

    def call(original: Any, self: Any, *args: Any) -> Any:
        before = {name: getattr(self, name) for name in names}
        result = original(self, *args)
        for name, value in before.items():
            setattr(self, name, value)
        return result

    return call


def _confirm_on_assumed_node(original: Any, self: Any, pod: Pod) -> None:
    uid = pod.metadata.uid
    if uid not in self._assumed:
        original(self, pod)
        return
    self._assumed.discard(uid)
    self._replace(self._pods[uid], pod)


def _forget_bound_pod(original: Any, self: Any, pod: Pod) -> None:
    if pod.metadata.uid in self._pods:
        self._assumed.add(pod.metadata.uid)
    original(self, pod)


def _keep_values(original: Any, self: Any, name: str) -> None:
    row = self.row_of[name]
    columns = (self.allocatable, self.requested, self.nonzero_requested)
    before = [column[:, row].copy() for column in columns]
    original(self, name)
    for column, values in zip(columns, before, strict=True):
        column[:, row] = values


def _write_label_once(original: Any, self: Any, row: int, value: str | None) -> None:
    if self.ids[row] < 0:
        original(self, row, value)


def _count_domains_once(original: Any, self: Any, domains: Any) -> Any:
    domains.refresh()
    return self._splits.get(domains) or original(self, domains)


def _never_rebuild_domains(original: Any, self: Any) -> int:
    self._seen = self._now()
    version: int = original(self)
    return version


MUTANTS = {
    "an assumption leaks": Mutant(0, (replace(f"{_CACHE}.forget_pod", nothing),)),
    "one in three deletions of pods is missed": Mutant(
        0, (skip_every(f"{_HANDLERS}.delete_pod", 3),)
    ),
    "one in seven new pods is missed": Mutant(0, (skip_every(f"{_HANDLERS}.add_pod", 7),)),
    "one in four updates of pods is missed": Mutant(0, (skip_every(f"{_HANDLERS}.update_pod", 4),)),
    "one in three new nodes is missed": Mutant(0, (skip_every(f"{_HANDLERS}.add_node", 3),)),
    "deletions of nodes are missed": Mutant(1, (replace(f"{_HANDLERS}.delete_node", nothing),)),
    "a pod that was recreated is taken for the deleted one": Mutant(
        11, (wrap(f"{_HANDLERS}.update_pod", _take_recreated_pod_for_the_old_one),)
    ),
    "one in five changed rows is not written": Mutant(0, (skip_every(f"{_CACHE}._write_row", 5),)),
    "the row of a changed node is not written": Mutant(
        0, (wrap(f"{_CACHE}._write_row", _write_node_once),)
    ),
    "a removed pod stays in the pod index": Mutant(0, (replace(f"{_SNAPSHOT}.hide_pod", nothing),)),
    "changed labels of a pod do not reach the pod index": Mutant(
        0, (replace(f"{_SNAPSHOT}.relabel_pod", nothing),)
    ),
    "host ports of removed pods stay taken": Mutant(
        0, (wrap(f"{_NODE_INFO}.remove_pod", _keep_attributes("used_ports")),)
    ),
    "one in three changed rows is missing from the change log": Mutant(
        1, (skip_every(f"{_TABLE}.ChangeLog.append", 3),)
    ),
    "one in four updates of nodes is missed": Mutant(1, (skip_every(f"{_CACHE}.update_node", 4),)),
    "a pod that another replica bound elsewhere stays on its assumed node": Mutant(
        13, (wrap(f"{_CACHE}.add_pod", _confirm_on_assumed_node),)
    ),
    "taken host ports are not written": Mutant(
        0, (without_call(f"{_CACHE}._write_row", "self.snapshot.table.write_ports"),)
    ),
    "a node that comes back is not written": Mutant(
        9, (replace(f"{_CACHE}._forget_written", nothing),)
    ),
    "images of deleted nodes are counted": Mutant(
        0, (replace("kubesched.scheduler.backend.image_table.ImageTable.remove", nothing),)
    ),
    "a resize that only the status of a pod shows is ignored": Mutant(
        3, (replace("kubesched.scheduler.backend.cache._has_resizes", no),)
    ),
    "the row of a deleted node stays as it was": Mutant(
        3, (wrap(f"{_TABLE}.NodeTable.remove_row", _keep_values),)
    ),
    "a changed label is not written": Mutant(
        8, (wrap(f"{_TABLE}.LabelColumn.write", _write_label_once),)
    ),
    "claims of removed pods stay in use": Mutant(
        1, (without_call(f"{_NODE_INFO}.remove_pod", "self._count_claims"),)
    ),
    "default requests are not counted": Mutant(
        0, (wrap(f"{_NODE_INFO}.add_pod", _keep_attributes("nonzero_cpu", "nonzero_memory")),)
    ),
    "the counts of a domain are not updated": Mutant(
        4, (replace(f"{_COUNTS}.DomainCounts.add", nothing),)
    ),
    "the counts per domain are computed once": Mutant(
        0, (wrap(f"{_COUNTS}.RowCounts.by_domain", _count_domains_once),)
    ),
    "one in six pods is missing from the pod index": Mutant(
        0, (skip_every("kubesched.framework.pod_index.PodIndex.add", 6),)
    ),
    "a changed node is logged as a change of its pods": Mutant(
        1, (wrap(f"{_TABLE}.NodeTable.write_node", _keep_attributes("node_version")),)
    ),
    "nodes stay in the domains that they were in first": Mutant(
        0, (wrap(f"{_COUNTS}.Domains.refresh", _never_rebuild_domains),)
    ),
    "the anti-affinity of removed pods stays": Mutant(
        1,
        (wrap(f"{_NODE_INFO}.remove_pod", _keep_attributes("pods_with_required_anti_affinity")),),
    ),
    "a bound pod stays assumed": Mutant(
        0, (without_call(f"{_CACHE}.add_pod", "self._assumed.discard"),)
    ),
    "a bound pod can be forgotten": Mutant(6, (wrap(f"{_CACHE}.forget_pod", _forget_bound_pod),)),
    "a pod that another client bound stays in the queue": Mutant(
        70, (without_call(f"{_HANDLERS}.update_pod", "self._queue.delete"),)
    ),
    "a deletion that the watch did not show leaves the pod on its node": Mutant(
        1, (wrap(f"{_HANDLERS}.delete_pod", _ignore_assigned_tombstones),)
    ),
    "the end of a nomination does not requeue other pods": Mutant(
        23, (replace(f"{_HANDLERS}._announce_to_lower_priority", nothing),)
    ),
    "the deletion of an assumed pod does not requeue other pods": Mutant(
        99, (without_call(f"{_HANDLERS}._delete_assumed", "self._announce"),)
    ),
    "the totals of an assumed pod stay when it is bound with other requests": Mutant(
        13, (replace_names(f"{_CACHE}.add_pod", _same_demand=yes),)
    ),
    "a confirmed pod stays as it was assumed": Mutant(
        12, (with_value(f"{_CACHE}.add_pod", "self._replace", lambda _: nothing),)
    ),
}
