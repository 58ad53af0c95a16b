"""Deployments: one ReplicaSet per version of the template, and rollouts between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.api import Deployment, Pod, ReplicaSet
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.deployment_status import (
    deadline_ns,
    deployment_status,
    share,
)
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
    status_patch,
)
from kubesched.cluster.controllers.revisions import template_hash
from kubesched.cluster.controllers.triggers import (
    AdoptableObject,
    OwnChange,
    RelatedChange,
    controlled,
)

__all__ = ["DEPLOYMENT_CONTROLLER", "HASH_LABEL", "plan_deployment"]

Json = dict[str, Any]

HASH_LABEL = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAX = "deployment.kubernetes.io/max-replicas"
_HISTORY = "deployment.kubernetes.io/revision-history"
# The most characters of the history of a set. Older revisions are dropped.
_LONGEST_HISTORY = 2000
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Annotations that a Deployment and its ReplicaSets do not share.
_OWN_ANNOTATIONS = frozenset(
    {
        _APPLIED,
        _REVISION,
        _DESIRED,
        _MAX,
        _HISTORY,
        "deprecated.deployment.rollback.to",
    }
)


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
    elif owner.spec.paused and old:
        actions += rollout.scale_while_paused()
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
            notes = {_REVISION: str(newest + 1), **_history(current)}
            actions.append(Patch(current, {"metadata": {"annotations": notes}}))
        actions += _copy_settings(owner, document, current)
        actions += rollout.next_step()
        actions += _delete_history(owner, old)
    actions += _annotate_revision(owner, current)
    status = deployment_status(objects, owner, document, sets, current, now_ns)
    actions += status_patch(owner, document, status)
    return ActionPlan(actions, deadline_ns(document, now_ns))


def _current(
    objects: ObjectIndex, sets: Sequence[ReplicaSet], template: Mapping[str, Any], mark: str
) -> ReplicaSet | None:
    """Return the ReplicaSet with the present template; of several, the one with the last revision.

    In a capture the templates of several revisions may be equal, because it drops many fields.
    """

    def age(each: ReplicaSet) -> tuple[int, str]:
        return -_revision(each), each.metadata.creation_timestamp or ""

    for each in sorted(sets, key=age):
        if each.metadata.labels.get(HASH_LABEL) == mark:
            return each
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
        self.surge = 0 if self.recreates else share(rolling.get("maxSurge", "25%"), self.wanted)
        self.missing = share(rolling.get("maxUnavailable", "25%"), self.wanted, up=False)
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
            part = math.floor(size * allowed / whole + 0.5) - size
            left = change - done
            part = max(0, min(part, left)) if change > 0 else min(0, max(part, left))
            sizes[each.metadata.uid] = size + part
            done += part
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
        if size >= self.wanted or self.paused:
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
        sizes[self.current.metadata.uid] = self.size_of_current()
        if not self.paused:
            sizes |= self._smaller_sizes()
        return self._resized(sizes)

    def scale_while_paused(self) -> list[Action]:
        """Resize the only set that has pods, or the newest one. The rollout does not go on."""
        active = self._active()
        newest = max(self.old, key=lambda each: each.metadata.creation_timestamp or "")
        if len(active) > 1:
            if self.current is None or not self._is_saturated(self.current):
                return []
            return self._resized({each.metadata.uid: 0 for each in self.old})
        resized = active[0] if active else (self.current or newest)
        return self._resized({resized.metadata.uid: self.wanted})

    def _is_saturated(self, current: ReplicaSet) -> bool:
        """Whether the newest set has all pods of the Deployment, and they are available."""
        is_full = current.status.available_replicas == _replicas(current) == self.wanted
        return is_full and _number(current, _DESIRED) == self.wanted

    def _resized(self, sizes: Mapping[str, int]) -> list[Action]:
        """Return the patches for sets with a new size, or with outdated annotations."""
        notes = {_DESIRED: str(self.wanted), _MAX: str(self.wanted + self.surge)}
        actions: list[Action] = []
        for each in (*self.old, *([self.current] if self.current else [])):
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


def _history(current: ReplicaSet) -> dict[str, str]:
    """Return the annotation with the earlier revisions of a set that becomes the newest again."""
    revision = current.metadata.annotations.get(_REVISION)
    if revision is None:
        return {}
    earlier = [each for each in current.metadata.annotations.get(_HISTORY, "").split(",") if each]
    while earlier and len(",".join([*earlier, revision])) > _LONGEST_HISTORY:
        del earlier[0]
    return {_HISTORY: ",".join([*earlier, revision])}


def _annotate_revision(owner: Deployment, current: ReplicaSet | None) -> list[Action]:
    if current is None:
        return []
    revision = current.metadata.annotations.get(_REVISION, "")
    if owner.metadata.annotations.get(_REVISION) == revision:
        return []
    return [Patch(owner, {"metadata": {"annotations": {_REVISION: revision}}})]


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
