"""Deployments: one ReplicaSet per version of the template, and rollouts between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kubesched.api import Deployment, Pod, ReplicaSet
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import (
    ObjectIndex,
    controller_of,
    controller_reference,
)
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Create,
    Delete,
    Patch,
    RecordEvent,
    conditions_with,
    status_patch,
)
from kubesched.cluster.controllers.revisions import template_hash
from kubesched.cluster.controllers.triggers import (
    AdoptableObject,
    OwnChange,
    RelatedChange,
    controlled,
)
from kubesched.foundation.util.clock import SECOND

__all__ = ["DEPLOYMENT_CONTROLLER", "HASH_LABEL", "plan_deployment"]

Json = dict[str, Any]

HASH_LABEL = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAX = "deployment.kubernetes.io/max-replicas"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Annotations that a Deployment and its ReplicaSets do not share.
_OWN_ANNOTATIONS = frozenset(
    {
        _APPLIED,
        _REVISION,
        _DESIRED,
        _MAX,
        "deployment.kubernetes.io/revision-history",
        "deprecated.deployment.rollback.to",
    }
)
_NEW = "NewReplicaSetAvailable"
_DEADLINE = "ProgressDeadlineExceeded"


def plan_deployment(
    objects: ObjectIndex, owner: Deployment, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Scale the ReplicaSets of a Deployment, roll out a new template, and set the status."""
    if owner.metadata.deletion_timestamp is not None:
        return ActionPlan()
    claim = claim_objects(objects, owner, ReplicaSet, selector_of(owner))
    sets: list[ReplicaSet] = claim[0]
    actions: list[Action] = claim[1]
    template = document["spec"].get("template", {})
    mark = template_hash(template)
    current = _current(objects, sets, template, mark)
    old = sorted((each for each in sets if each is not current), key=lambda each: _revision(each))
    rollout = _Rollout(owner, document, old, current, has_old_pods=_has_pods(objects, old))
    if rollout.needs_scaling():
        # Scale in proportion first. The next plan continues with the rollout.
        actions += rollout.scale_in_proportion()
    elif current is None and not owner.spec.paused:
        revision = 1 + max((_revision(each) for each in sets), default=0)
        size = rollout.size_of_current()
        notes = {_DESIRED: str(rollout.wanted), _MAX: str(rollout.wanted + rollout.surge)}
        replica_set = _replica_set(owner, document, mark, revision, size, notes)
        actions.append(Create(ReplicaSet, replica_set, optional=True))
        text = f"Scaled up replica set {replica_set['metadata']['name']} from 0 to {size}"
        actions.append(RecordEvent(owner, "ScalingReplicaSet", text))
    elif current is not None:
        newest = max((_revision(each) for each in old), default=0)
        if _revision(current) < newest:
            # The template was rolled back: its revision becomes the newest again.
            note = {"metadata": {"annotations": {_REVISION: str(newest + 1)}}}
            actions.append(Patch(current, note))
        actions += _copy_settings(owner, document, current)
        actions += rollout.next_step()
        actions += _delete_history(owner, old)
    actions += _annotate_revision(owner, current)
    status = _status(objects, owner, document, sets, current, now_ns)
    actions += status_patch(owner, document, status)
    return ActionPlan(actions, _deadline_ns(document, now_ns))


def _current(
    objects: ObjectIndex, sets: Sequence[ReplicaSet], template: Mapping[str, Any], mark: str
) -> ReplicaSet | None:
    """Return the oldest ReplicaSet with the present template."""
    for each in sorted(sets, key=lambda each: each.metadata.creation_timestamp or ""):
        if each.metadata.labels.get(HASH_LABEL) == mark:
            return each
    for each in sets:
        # Another controller may have created it with another hash of the same template.
        stored = objects.document(ReplicaSet, each.metadata.namespace, each.metadata.name)
        if stored is not None and _without_hash(stored["spec"].get("template", {})) == template:
            return each
    return None


def _without_hash(template: Mapping[str, Any]) -> Json:
    inner = template.get("metadata", {})
    labels = {k: v for k, v in inner.get("labels", {}).items() if k != HASH_LABEL}
    return {**template, "metadata": {**inner, "labels": labels}}


def _has_pods(objects: ObjectIndex, old: Sequence[ReplicaSet]) -> bool:
    """Whether pods of old ReplicaSets have not finished, terminating ones included."""
    return any(
        pod.status.phase not in ("Succeeded", "Failed")
        for each in old
        for pod in objects.controlled(each.metadata.uid, Pod)
    )


def _deadline_ns(document: Mapping[str, Any], now_ns: int) -> int | None:
    """Return when the progress deadline of a rollout ends, if that is ahead."""
    limit = document["spec"].get("progressDeadlineSeconds")
    if limit is None or document["spec"].get("paused"):
        return None
    for condition in document.get("status", {}).get("conditions", ()):
        if condition["type"] == "Progressing" and condition.get("reason") not in (_NEW, _DEADLINE):
            due_ns = parse_time(condition["lastUpdateTime"]) + limit * SECOND
            return due_ns if due_ns > now_ns else None
    return None


class _Rollout:
    """The sizes that the ReplicaSets of a Deployment get next."""

    def __init__(
        self,
        owner: Deployment,
        document: Mapping[str, Any],
        old: Sequence[ReplicaSet],
        current: ReplicaSet | None,
        *,
        has_old_pods: bool,
    ) -> None:
        """`has_old_pods` says whether pods of old sets still exist, terminating ones included."""
        spec = document["spec"]
        strategy = spec.get("strategy", {})
        rolling = strategy.get("rollingUpdate", {})
        self.wanted: int = spec.get("replicas", 1)
        self.recreates = strategy.get("type") == "Recreate"
        self.surge = 0 if self.recreates else _share(rolling.get("maxSurge", "25%"), self.wanted)
        self.missing = _share(rolling.get("maxUnavailable", "25%"), self.wanted, up=False)
        if not self.surge and not self.missing:
            self.missing = 1
        self.owner, self.paused = owner, owner.spec.paused
        self.old, self.current, self.has_old_pods = old, current, has_old_pods
        self.total = sum(_replicas(each) for each in (*old, *([current] if current else [])))

    def _active(self) -> list[ReplicaSet]:
        sets = [*self.old, *([self.current] if self.current else [])]
        return [each for each in sets if _replicas(each)]

    def needs_scaling(self) -> bool:
        """Whether the replicas of the Deployment changed while several sets have pods."""
        if self.recreates:
            return False
        active = self._active()
        return len(active) > 1 and any(
            _number(each, _DESIRED) not in (None, self.wanted) for each in active
        )

    def scale_in_proportion(self) -> list[Action]:
        """Resize each set by its share of the change."""
        active = self._active()
        allowed = self.wanted + self.surge if self.wanted else 0
        change = allowed - sum(_replicas(each) for each in active)
        newest = sorted(active, key=lambda each: each.metadata.creation_timestamp or "")
        if change > 0:
            newest.reverse()
        by_size = sorted(newest, key=lambda each: -_replicas(each))
        sizes: dict[str, int] = {}
        done = 0
        for each in by_size:
            size = _replicas(each)
            whole = _number(each, _MAX) or self.wanted + self.surge
            share = math.floor(size * allowed / whole + 0.5) - size
            left = change - done
            share = max(0, min(share, left)) if change > 0 else min(0, max(share, left))
            sizes[each.metadata.uid] = size + share
            done += share
        if by_size:
            first = by_size[0].metadata.uid
            sizes[first] = max(0, sizes[first] + change - done)
        notes = {_DESIRED: str(self.wanted), _MAX: str(self.wanted + self.surge)}
        return [
            Patch(
                each,
                {
                    "metadata": {"annotations": notes},
                    "spec": {"replicas": sizes[each.metadata.uid]},
                },
            )
            for each in by_size
        ]

    def size_of_current(self) -> int:
        """Return the next size of the newest set, given the sizes of the others."""
        size = 0 if self.current is None else _replicas(self.current)
        if size >= self.wanted or (self.paused and not self.old):
            return self.wanted
        if self.recreates:
            running = any(_replicas(each) or each.status.replicas for each in self.old)
            return size if running or self.has_old_pods else self.wanted
        room = self.wanted + self.surge - self.total
        return size + max(0, min(room, self.wanted - size))

    def next_step(self) -> list[Action]:
        """Resize the newest set and the old ones."""
        assert self.current is not None
        sizes: dict[str, int] = {}
        if not self.paused or not self.old:
            sizes[self.current.metadata.uid] = self.size_of_current()
        if not self.paused:
            sizes |= self._smaller_sizes()
        notes = {_DESIRED: str(self.wanted), _MAX: str(self.wanted + self.surge)}
        actions: list[Action] = []
        for each in (*self.old, self.current):
            size, before = sizes.get(each.metadata.uid, _replicas(each)), _replicas(each)
            is_annotated = all(each.metadata.annotations.get(k) == notes[k] for k in notes)
            if size == before and (is_annotated or not size):
                continue
            patch: Json = {"metadata": {"annotations": notes}}
            if size != before:
                patch["spec"] = {"replicas": size}
                direction = "up" if size > before else "down"
                text = (
                    f"Scaled {direction} replica set {each.metadata.name} from {before} to {size}"
                )
                actions.append(RecordEvent(self.owner, "ScalingReplicaSet", text))
            actions.append(Patch(each, patch))
        return actions

    def _smaller_sizes(self) -> dict[str, int]:
        """Return smaller sizes for the old sets, so that enough pods stay available."""
        assert self.current is not None
        if self.recreates:
            return {each.metadata.uid: 0 for each in self.old}
        available = sum(each.status.available_replicas for each in (*self.old, self.current))
        least = self.wanted - self.missing
        unavailable_new = _replicas(self.current) - self.current.status.available_replicas
        budget = self.total - least - unavailable_new
        sizes: dict[str, int] = {}
        for each in self.old:  # unavailable pods first
            size = _replicas(each)
            broken = max(0, size - each.status.available_replicas)
            taken = max(0, min(broken, budget))
            budget -= taken
            sizes[each.metadata.uid] = size - taken
        spare = min(budget, available - least)
        for each in self.old:
            taken = max(0, min(sizes[each.metadata.uid], spare))
            spare -= taken
            sizes[each.metadata.uid] -= taken
        return sizes


def _share(value: Any, whole: int, *, up: bool = True) -> int:
    """Resolve a number or a percentage of `whole`."""
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdecimal():
        part = whole * int(value[:-1]) / 100
        return math.ceil(part) if up else math.floor(part)
    return value if isinstance(value, int) else 0


def _replicas(each: ReplicaSet) -> int:
    return 1 if each.spec.replicas is None else each.spec.replicas


def _number(each: ReplicaSet, annotation: str) -> int | None:
    text = each.metadata.annotations.get(annotation, "")
    return int(text) if text.isdecimal() else None


def _revision(each: ReplicaSet) -> int:
    text = each.metadata.annotations.get(_REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _replica_set(
    owner: Deployment,
    document: Mapping[str, Any],
    mark: str,
    revision: int,
    replicas: int,
    notes: Mapping[str, str],
) -> Json:
    spec = document["spec"]
    template = spec.get("template", {})
    inner = template.get("metadata", {})
    labels = {**inner.get("labels", {}), HASH_LABEL: mark}
    selector = spec.get("selector", {})
    matched = {**selector.get("matchLabels", {}), HASH_LABEL: mark}
    replica_set_spec: Json = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": matched},
        "template": {**template, "metadata": {**inner, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        replica_set_spec["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "metadata": {
            "name": f"{owner.metadata.name}-{mark}",
            "namespace": owner.metadata.namespace,
            "labels": labels,
            "annotations": {
                **{k: v for k, v in owner.metadata.annotations.items() if k != _APPLIED},
                **notes,
                _REVISION: str(revision),
            },
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": replica_set_spec,
    }


def _copy_settings(
    owner: Deployment, document: Mapping[str, Any], current: ReplicaSet
) -> list[Action]:
    """Give the newest set the annotations and `minReadySeconds` of its Deployment.

    Other annotations of the set stay.
    """
    held = current.metadata.annotations
    patch: Json = {}
    missing = {
        key: value
        for key, value in owner.metadata.annotations.items()
        if key not in _OWN_ANNOTATIONS and held.get(key) != value
    }
    if missing:
        patch["metadata"] = {"annotations": missing}
    seconds = document["spec"].get("minReadySeconds", 0)
    if current.spec.min_ready_seconds != seconds:
        patch["spec"] = {"minReadySeconds": seconds}
    return [Patch(current, patch)] if patch else []


def _delete_history(owner: Deployment, old: Sequence[ReplicaSet]) -> list[Action]:
    """Delete empty old sets beyond the history limit."""
    limit = owner.spec.revision_history_limit
    most = 10 if limit is None else limit
    empty = [each for each in old if not _replicas(each) and not each.status.replicas]
    return [Delete(each) for each in empty[: max(0, len(empty) - most)]]


def _annotate_revision(owner: Deployment, current: ReplicaSet | None) -> list[Action]:
    if current is None:
        return []
    revision = current.metadata.annotations.get(_REVISION, "")
    if owner.metadata.annotations.get(_REVISION) == revision:
        return []
    return [Patch(owner, {"metadata": {"annotations": {_REVISION: revision}}})]


class _Counts(NamedTuple):
    """Replica counts of a Deployment, summed over its ReplicaSets."""

    wanted: int
    total: int
    updated: int
    ready: int
    available: int
    most_unavailable: int

    @classmethod
    def of(
        cls, document: Mapping[str, Any], sets: Sequence[ReplicaSet], current: ReplicaSet | None
    ) -> _Counts:
        wanted = document["spec"].get("replicas", 1)
        rolling = document["spec"].get("strategy", {}).get("rollingUpdate", {})
        return cls(
            wanted,
            total=sum(each.status.replicas for each in sets),
            updated=0 if current is None else current.status.replicas,
            ready=sum(each.status.ready_replicas for each in sets),
            available=sum(each.status.available_replicas for each in sets),
            most_unavailable=_share(rolling.get("maxUnavailable", "25%"), wanted, up=False),
        )

    def is_complete(self) -> bool:
        return self.updated == self.wanted == self.total and self.available >= self.wanted

    def has_progressed(self, stored: Mapping[str, Any]) -> bool:
        """Whether there are more good pods, or fewer outdated ones, than in a stored status."""
        outdated = stored.get("replicas", 0) - stored.get("updatedReplicas", 0)
        return bool(
            stored.get("updatedReplicas", 0) < self.updated
            or stored.get("readyReplicas", 0) < self.ready
            or stored.get("availableReplicas", 0) < self.available
            or outdated > self.total - self.updated
        )


def _status(
    objects: ObjectIndex,
    owner: Deployment,
    document: Mapping[str, Any],
    sets: Sequence[ReplicaSet],
    current: ReplicaSet | None,
    now_ns: int,
) -> Json:
    stored = document.get("status", {})
    counts = _Counts.of(document, sets, current)
    conditions = [_availability(counts)]
    if current is not None:
        conditions.append(_progress(document, current.metadata.name, now_ns, counts))
    refusals = (objects.refused.get(each.metadata.uid, "") for each in sets)
    refused = next(filter(None, refusals), "")
    if refused:
        conditions.append(
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": refused,
            }
        )
    without = () if refused else ("ReplicaFailure",)
    return {
        "observedGeneration": owner.metadata.generation,
        "replicas": counts.total or None,
        "updatedReplicas": counts.updated or None,
        "readyReplicas": counts.ready or None,
        "availableReplicas": counts.available or None,
        "unavailableReplicas": max(0, counts.wanted - counts.available) or None,
        "conditions": conditions_with(
            stored.get("conditions", ()),
            conditions,
            format_time(now_ns),
            updated=True,
            without=without,
        ),
    }


def _availability(counts: _Counts) -> Json:
    if counts.available >= counts.wanted - counts.most_unavailable:
        return {
            "type": "Available",
            "status": "True",
            "reason": "MinimumReplicasAvailable",
            "message": "Deployment has minimum availability.",
        }
    return {
        "type": "Available",
        "status": "False",
        "reason": "MinimumReplicasUnavailable",
        "message": "Deployment does not have minimum availability.",
    }


def _progress(document: Mapping[str, Any], name: str, now_ns: int, counts: _Counts) -> Json:
    """Build the condition about the progress of the rollout to a ReplicaSet."""
    if counts.is_complete():
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return {"type": "Progressing", "status": "True", "reason": _NEW, "message": text}
    status = document.get("status", {})
    has_progressed = counts.has_progressed(status)
    stored = next(
        (each for each in status.get("conditions", ()) if each.get("type") == "Progressing"), None
    )
    limit = document["spec"].get("progressDeadlineSeconds")
    if stored is not None and not has_progressed and limit is not None:
        since_ns = parse_time(stored["lastUpdateTime"])
        is_late = stored.get("reason") == _DEADLINE or since_ns + limit * SECOND <= now_ns
        if is_late and stored.get("reason") != _NEW:
            text = f'ReplicaSet "{name}" has timed out progressing.'
            return {"type": "Progressing", "status": "False", "reason": _DEADLINE, "message": text}
    condition = {
        "type": "Progressing",
        "status": "True",
        "reason": "ReplicaSetUpdated",
        "message": f'ReplicaSet "{name}" is progressing.',
    }
    if has_progressed:
        condition["lastUpdateTime"] = format_time(now_ns)
    return condition


def _deployment_of_deleted_pod(
    objects: ObjectIndex, pod: Pod, _before: Pod | None, gone: bool
) -> tuple[str, ...]:
    """Find the Deployment of a deleted pod: Recreate waits for the last of the old pods."""
    owner = controller_of(pod) if gone else None
    replica_set = None if owner is None else objects.get(owner.uid)
    deployment = None if replica_set is None else controller_of(replica_set)
    return () if deployment is None else (deployment.uid,)


DEPLOYMENT_CONTROLLER = Controller(
    "deployment-controller",
    Deployment,
    plan_deployment,
    triggers=(
        OwnChange(Deployment),
        controlled(ReplicaSet, by=Deployment),
        AdoptableObject(ReplicaSet, Deployment),
        RelatedChange(Pod, Deployment, _deployment_of_deleted_pod),
    ),
)
