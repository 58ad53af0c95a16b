"""Deployments: a ReplicaSet per version of the template, the newest taking over step by step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api import Deployment, Pod, ReplicaSet
from kubesched.api.time import format_time, parse_time
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference
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
from kubesched.foundation.util.clock import SECOND

__all__ = ["HASH_LABEL", "plan_deployment"]

Json = dict[str, Any]

HASH_LABEL = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAX = "deployment.kubernetes.io/max-replicas"
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_NEW = "NewReplicaSetAvailable"
_DEADLINE = "ProgressDeadlineExceeded"


def plan_deployment(
    objects: ObjectIndex, owner: Deployment, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    if owner.metadata.deletion_timestamp is not None:
        return ActionPlan()
    claim = claim_objects(objects, owner, ReplicaSet, selector_of(owner))
    sets: list[ReplicaSet] = claim[0]
    actions: list[Action] = claim[1]
    template = document["spec"].get("template", {})
    mark = template_hash(template)
    current = _current(objects, sets, template, mark)
    old = sorted((each for each in sets if each is not current), key=lambda each: _revision(each))
    rollout = _Rollout(owner, document, old, current, ending=_still_ending(objects, old))
    if rollout.is_scaled():
        # Sizes first, in proportion; the next look goes on with the rollout.
        actions += rollout.scaled()
    elif current is None and not owner.spec.paused:
        revision = 1 + max((_revision(each) for each in sets), default=0)
        size = rollout.wanted_of_current()
        notes = {_DESIRED: str(rollout.wanted), _MAX: str(rollout.wanted + rollout.surge)}
        made = _replica_set(owner, document, mark, revision, size, notes)
        actions.append(Create(ReplicaSet, made, optional=True))
        text = f"Scaled up replica set {made['metadata']['name']} from 0 to {size}"
        actions.append(RecordEvent(owner, "ScalingReplicaSet", text))
    elif current is not None:
        newest = max((_revision(each) for each in old), default=0)
        if _revision(current) < newest:
            # An older template came back: it is the newest once more.
            note = {"metadata": {"annotations": {_REVISION: str(newest + 1)}}}
            actions.append(Patch(current, note))
        actions += rollout.steps()
        actions += _surplus_history(owner, old)
    actions += _annotation(owner, current)
    actions += status_patch(
        owner, document, _status(objects, owner, document, sets, current, now_ns)
    )
    return ActionPlan(actions, _deadline_ns(document, now_ns))


def _current(
    objects: ObjectIndex, sets: Sequence[ReplicaSet], template: Mapping[str, Any], mark: str
) -> ReplicaSet | None:
    """The oldest set that makes the pods which are wanted now."""
    for each in sorted(sets, key=lambda each: each.metadata.creation_timestamp or ""):
        if each.metadata.labels.get(HASH_LABEL) == mark:
            return each
    for each in sets:
        # One that another controller made, of the same template under another mark.
        made = objects.document(ReplicaSet, each.metadata.namespace, each.metadata.name)
        if made is not None and _unmarked(made["spec"].get("template", {})) == template:
            return each
    return None


def _unmarked(template: Mapping[str, Any]) -> Json:
    inner = template.get("metadata", {})
    labels = {k: v for k, v in inner.get("labels", {}).items() if k != HASH_LABEL}
    return {**template, "metadata": {**inner, "labels": labels}}


def _still_ending(objects: ObjectIndex, old: Sequence[ReplicaSet]) -> bool:
    return any(
        pod.status.phase not in ("Succeeded", "Failed")
        for each in old
        for pod in objects.controlled(each.metadata.uid, Pod)
    )


def _deadline_ns(document: Mapping[str, Any], now_ns: int) -> int | None:
    """When a rollout that makes no progress will have failed."""
    limit = document["spec"].get("progressDeadlineSeconds")
    if limit is None or document["spec"].get("paused"):
        return None
    for condition in document.get("status", {}).get("conditions", ()):
        if condition["type"] == "Progressing" and condition.get("reason") not in (_NEW, _DEADLINE):
            due_ns = parse_time(condition["lastUpdateTime"]) + limit * SECOND
            return due_ns if due_ns > now_ns else None
    return None


class _Rollout:
    """How many replicas each set is to have next."""

    def __init__(
        self,
        owner: Deployment,
        document: Mapping[str, Any],
        old: Sequence[ReplicaSet],
        current: ReplicaSet | None,
        *,
        ending: bool,
    ) -> None:
        """`ending` says that pods of old sets are still there, if only to end."""
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
        self.old, self.current, self.ending = old, current, ending
        self.total = sum(_replicas(each) for each in (*old, *([current] if current else [])))

    def _active(self) -> list[ReplicaSet]:
        there = [*self.old, *([self.current] if self.current else [])]
        return [each for each in there if _replicas(each)]

    def is_scaled(self) -> bool:
        """Whether somebody changed the size while several sets share it."""
        if self.recreates:
            return False
        active = self._active()
        return len(active) > 1 and any(
            _number(each, _DESIRED) not in (None, self.wanted) for each in active
        )

    def scaled(self) -> list[Action]:
        """Larger or smaller sets, each by its share of the change."""
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

    def wanted_of_current(self) -> int:
        """The size that the newest set is to have, given what the others still have."""
        have = 0 if self.current is None else _replicas(self.current)
        if have >= self.wanted or (self.paused and not self.old):
            return self.wanted
        if self.recreates:
            running = any(_replicas(each) or each.status.replicas for each in self.old)
            return have if running or self.ending else self.wanted
        room = self.wanted + self.surge - self.total
        return have + max(0, min(room, self.wanted - have))

    def steps(self) -> list[Action]:
        assert self.current is not None
        sizes: dict[str, int] = {}
        if not self.paused or not self.old:
            sizes[self.current.metadata.uid] = self.wanted_of_current()
        if not self.paused:
            sizes |= self._shrunk()
        notes = {_DESIRED: str(self.wanted), _MAX: str(self.wanted + self.surge)}
        actions: list[Action] = []
        for each in (*self.old, self.current):
            size, before = sizes.get(each.metadata.uid, _replicas(each)), _replicas(each)
            noted = all(each.metadata.annotations.get(key) == notes[key] for key in notes)
            if size == before and (noted or not size):
                continue
            patch: Json = {"metadata": {"annotations": notes}}
            if size != before:
                patch["spec"] = {"replicas": size}
                way = "up" if size > before else "down"
                text = f"Scaled {way} replica set {each.metadata.name} from {before} to {size}"
                actions.append(RecordEvent(self.owner, "ScalingReplicaSet", text))
            actions.append(Patch(each, patch))
        return actions

    def _shrunk(self) -> dict[str, int]:
        """Smaller sizes of older sets, as far as enough pods stay available."""
        assert self.current is not None
        if self.recreates:
            return {each.metadata.uid: 0 for each in self.old}
        available = sum(each.status.available_replicas for each in (*self.old, self.current))
        least = self.wanted - self.missing
        unavailable_new = _replicas(self.current) - self.current.status.available_replicas
        budget = self.total - least - unavailable_new
        sizes: dict[str, int] = {}
        for each in self.old:  # what does not work anyway goes first
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
    """A number, or a percentage of one."""
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
    made: Json = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": matched},
        "template": {**template, "metadata": {**inner, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        made["minReadySeconds"] = spec["minReadySeconds"]
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
        "spec": made,
    }


def _surplus_history(owner: Deployment, old: Sequence[ReplicaSet]) -> list[Action]:
    limit = owner.spec.revision_history_limit
    kept = 10 if limit is None else limit
    empty = [each for each in old if not _replicas(each) and not each.status.replicas]
    return [Delete(each) for each in empty[: max(0, len(empty) - kept)]]


def _annotation(owner: Deployment, current: ReplicaSet | None) -> list[Action]:
    if current is None:
        return []
    revision = current.metadata.annotations.get(_REVISION, "")
    if owner.metadata.annotations.get(_REVISION) == revision:
        return []
    return [Patch(owner, {"metadata": {"annotations": {_REVISION: revision}}})]


def _status(
    objects: ObjectIndex,
    owner: Deployment,
    document: Mapping[str, Any],
    sets: Sequence[ReplicaSet],
    current: ReplicaSet | None,
    now_ns: int,
) -> Json:
    total = sum(each.status.replicas for each in sets)
    ready = sum(each.status.ready_replicas for each in sets)
    available = sum(each.status.available_replicas for each in sets)
    updated = 0 if current is None else current.status.replicas
    wanted = document["spec"].get("replicas", 1)
    rolling = document["spec"].get("strategy", {}).get("rollingUpdate", {})
    missing = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    enough = available >= wanted - missing
    complete = updated == wanted and total == wanted and available >= wanted
    name = "" if current is None else current.metadata.name
    conditions: list[Json] = [
        {
            "type": "Available",
            "status": "True" if enough else "False",
            "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            "message": "Deployment has minimum availability."
            if enough
            else "Deployment does not have minimum availability.",
        }
    ]
    stored = document.get("status", {}).get("conditions", ())
    before = document.get("status", {})
    progressed = (
        before.get("updatedReplicas", 0) < updated
        or before.get("readyReplicas", 0) < ready
        or before.get("availableReplicas", 0) < available
        or before.get("replicas", 0) - before.get("updatedReplicas", 0) > total - updated
    )
    if name:
        conditions.append(_progress(document, name, now_ns, complete=complete, moved=progressed))
    refused = next((text for each in sets if (text := _refused(objects, each))), "")
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
        "replicas": total or None,
        "updatedReplicas": updated or None,
        "readyReplicas": ready or None,
        "availableReplicas": available or None,
        "unavailableReplicas": max(0, wanted - available) or None,
        "conditions": conditions_with(
            stored, conditions, format_time(now_ns), updated=True, without=without
        ),
    }


def _refused(objects: ObjectIndex, each: ReplicaSet) -> str:
    return objects.refused.get(each.metadata.uid, "")


def _progress(
    document: Mapping[str, Any], name: str, now_ns: int, *, complete: bool, moved: bool
) -> Json:
    """The condition that tells how the rollout goes."""
    if complete:
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return {"type": "Progressing", "status": "True", "reason": _NEW, "message": text}
    stored = document.get("status", {}).get("conditions", ())
    known = next((each for each in stored if each.get("type") == "Progressing"), None)
    limit = document["spec"].get("progressDeadlineSeconds")
    if known is not None and not moved and limit is not None:
        since_ns = parse_time(known["lastUpdateTime"])
        late = known.get("reason") == _DEADLINE or since_ns + limit * SECOND <= now_ns
        if late and known.get("reason") != _NEW:
            text = f'ReplicaSet "{name}" has timed out progressing.'
            return {"type": "Progressing", "status": "False", "reason": _DEADLINE, "message": text}
    condition = {
        "type": "Progressing",
        "status": "True",
        "reason": "ReplicaSetUpdated",
        "message": f'ReplicaSet "{name}" is progressing.',
    }
    if moved:
        condition["lastUpdateTime"] = format_time(now_ns)
    return condition
