"""Deployments: a ReplicaSet per version of the template, the newest taking over step by step."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api import Deployment, ReplicaSet
from kubesched.api.time import format_time
from kubesched.cluster.controllers.cluster_view import View, controller_reference
from kubesched.cluster.controllers.plans import (
    Action,
    Create,
    Delete,
    Patch,
    Plan,
    conditions_with,
    status_patch,
)

__all__ = ["HASH_LABEL", "plan_deployment", "template_hash"]

Json = dict[str, Any]

HASH_LABEL = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10
_NEW = "NewReplicaSetAvailable"


def template_hash(template: Mapping[str, Any]) -> str:
    """A name for the content of a template."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_HASH_LENGTH])


def plan_deployment(
    view: View, owner: Deployment, document: Mapping[str, Any], now_ns: int
) -> Plan:
    if owner.metadata.deletion_timestamp is not None:
        return Plan()
    sets: list[ReplicaSet] = view.controlled(owner.metadata.uid, ReplicaSet)
    template = document["spec"].get("template", {})
    mark = template_hash(template)
    current = next((each for each in sets if each.metadata.labels.get(HASH_LABEL) == mark), None)
    old = sorted((each for each in sets if each is not current), key=lambda each: _revision(each))
    actions: list[Action] = []
    rollout = _Rollout(owner, document, old, current)
    if current is None and not owner.spec.paused:
        revision = 1 + max((_revision(each) for each in sets), default=0)
        made = _replica_set(owner, document, mark, revision, rollout.wanted_of_current())
        actions.append(Create(ReplicaSet, made))
    elif current is not None:
        newest = max((_revision(each) for each in old), default=0)
        if _revision(current) < newest:
            # An older template came back: it is the newest once more.
            note = {"metadata": {"annotations": {_REVISION: str(newest + 1)}}}
            actions.append(Patch(current, note))
        actions += rollout.steps()
        actions += _surplus_history(owner, old)
    actions += _annotation(owner, current)
    actions += status_patch(owner, document, _status(owner, document, sets, current, now_ns))
    return Plan(actions)


class _Rollout:
    """How many replicas each set is to have next."""

    def __init__(
        self,
        owner: Deployment,
        document: Mapping[str, Any],
        old: Sequence[ReplicaSet],
        current: ReplicaSet | None,
    ) -> None:
        spec = document["spec"]
        strategy = spec.get("strategy", {})
        rolling = strategy.get("rollingUpdate", {})
        self.wanted: int = spec.get("replicas", 1)
        self.recreates = strategy.get("type") == "Recreate"
        self.surge = 0 if self.recreates else _share(rolling.get("maxSurge", "25%"), self.wanted)
        self.missing = _share(rolling.get("maxUnavailable", "25%"), self.wanted, up=False)
        if not self.surge and not self.missing:
            self.missing = 1
        self.paused = owner.spec.paused
        self.old, self.current = old, current
        self.total = sum(_replicas(each) for each in (*old, *([current] if current else [])))

    def wanted_of_current(self) -> int:
        """The size that the newest set is to have, given what the others still have."""
        have = 0 if self.current is None else _replicas(self.current)
        if have >= self.wanted or (self.paused and not self.old):
            return self.wanted
        if self.recreates:
            running = any(_replicas(each) or each.status.replicas for each in self.old)
            return have if running else self.wanted
        room = self.wanted + self.surge - self.total
        return have + max(0, min(room, self.wanted - have))

    def steps(self) -> list[Action]:
        assert self.current is not None
        sizes: dict[str, int] = {}
        if not self.paused or not self.old:
            sizes[self.current.metadata.uid] = self.wanted_of_current()
        if not self.paused:
            sizes |= self._shrunk()
        changed = (*self.old, self.current)
        return [
            Patch(each, {"spec": {"replicas": size}})
            for each in changed
            if (size := sizes.get(each.metadata.uid)) is not None and size != _replicas(each)
        ]

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


def _revision(each: ReplicaSet) -> int:
    text = each.metadata.annotations.get(_REVISION, "0")
    return int(text) if text.isdecimal() else 0


def _replica_set(
    owner: Deployment, document: Mapping[str, Any], mark: str, revision: int, replicas: int
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
            "annotations": {_REVISION: str(revision)},
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
    if name:
        conditions.append(
            {
                "type": "Progressing",
                "status": "True",
                "reason": _NEW if complete else "ReplicaSetUpdated",
                "message": f'ReplicaSet "{name}" has successfully progressed.'
                if complete
                else f'ReplicaSet "{name}" is progressing.',
            }
        )
    stored = document.get("status", {}).get("conditions", ())
    return {
        "observedGeneration": owner.metadata.generation,
        "replicas": total or None,
        "updatedReplicas": updated or None,
        "readyReplicas": ready or None,
        "availableReplicas": available or None,
        "unavailableReplicas": max(0, wanted - available) or None,
        "conditions": conditions_with(stored, conditions, format_time(now_ns), updated=True),
    }
