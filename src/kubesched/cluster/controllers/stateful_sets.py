"""StatefulSets: pods with names of their own that last, one after the other, and their claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kubesched.api import PersistentVolumeClaim, Pod, StatefulSet
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.object_index import ObjectIndex, is_available, is_ready
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Create,
    Delete,
    Patch,
    status_patch,
)
from kubesched.cluster.controllers.pod_creation_limit import MOST_AT_ONCE, limit_new_pods
from kubesched.cluster.controllers.replica_sets import next_available_ns, pod_from_template
from kubesched.cluster.controllers.revisions import HASH_LABEL, revisions, surplus_revisions

__all__ = ["plan_stateful_set"]

Json = dict[str, Any]

_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_FINISHED = ("Succeeded", "Failed")


class _Set(NamedTuple):
    """A StatefulSet, read."""

    owner: StatefulSet
    spec: Mapping[str, Any]
    pods: dict[int, Pod]
    """By ordinal."""
    first: int
    wanted: int

    @property
    def is_parallel(self) -> bool:
        return self.owner.spec.pod_management_policy == "Parallel"

    def ordinals(self) -> range:
        return range(self.first, self.first + self.wanted)


def plan_stateful_set(
    objects: ObjectIndex, owner: StatefulSet, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    claim = claim_objects(objects, owner, Pod, selector_of(owner))
    spec = document["spec"]
    by_ordinal = {number: pod for pod in claim[0] if (number := _ordinal(owner, pod)) is not None}
    first = spec.get("ordinals", {}).get("start", 0)
    it = _Set(owner, spec, by_ordinal, first, spec.get("replicas", 1))
    actions = list(claim[1])
    known = revisions(objects, owner, document)
    actions += known.actions
    status = document.get("status", {})
    current = status.get("currentRevision") or known.current_name
    updated = known.current_name
    if owner.metadata.deletion_timestamp is None:
        actions += _retention(objects, it)
        templates = {each.metadata.name: each.data["spec"]["template"] for each in known.known}
        templates[updated] = spec.get("template", {})
        actions += _steps(objects, it, _Versions(current, updated, templates), now_ns)
        in_use = {pod.metadata.labels.get(HASH_LABEL, "") for pod in by_ordinal.values()}
        in_use |= {current, updated}
        actions += surplus_revisions(owner, known.known, in_use)
    actions += _status(it, document, current, updated, now_ns)
    ready = [pod for pod in by_ordinal.values() if is_ready(pod)]
    return ActionPlan(actions, next_available_ns(ready, spec.get("minReadySeconds", 0), now_ns))


class _Versions(NamedTuple):
    """Names of ControllerRevisions, which pods bear, and what they say."""

    current: str
    updated: str
    templates: Mapping[str, Mapping[str, Any]]


def _ordinal(owner: StatefulSet, pod: Pod) -> int | None:
    parent, _, number = pod.metadata.name.rpartition("-")
    return int(number) if parent == owner.metadata.name and number.isdecimal() else None


def _partition(it: _Set) -> int:
    rolling = it.spec.get("updateStrategy", {}).get("rollingUpdate") or {}
    return int(rolling.get("partition") or 0)


def _steps(objects: ObjectIndex, it: _Set, versions: _Versions, now_ns: int) -> list[Action]:
    """What to do next: make what is missing, take away what is too much, then update."""
    minimum = it.spec.get("minReadySeconds", 0)
    actions: list[Action] = []
    missing = it.wanted - sum(ordinal in it.ordinals() for ordinal in it.pods)
    room, told = limit_new_pods(it.owner, missing, list(it.pods.values()))
    made = 0
    for ordinal in it.ordinals():
        pod = it.pods.get(ordinal)
        if pod is not None and pod.status.phase in _FINISHED:
            if pod.metadata.deletion_timestamp is None:
                actions.append(Delete(pod, reports=True))  # and then it is made again
            if not it.is_parallel:
                return actions
            continue
        if pod is None:
            if made >= room:
                return [*actions, *told]
            name = _version_of(it, ordinal, versions)
            actions += _made(objects, it, ordinal, versions, name)
            made += 1
            if not it.is_parallel or len(actions) >= MOST_AT_ONCE:
                return actions  # the rest when these are there
            continue
        if it.is_parallel:
            continue
        if pod.metadata.deletion_timestamp is not None or not is_available(pod, minimum, now_ns):
            return actions  # the next one waits for it
    condemned = sorted((n for n in it.pods if n not in it.ordinals()), reverse=True)
    for ordinal in condemned:
        pod = it.pods[ordinal]
        if pod.metadata.deletion_timestamp is not None:
            if it.is_parallel:
                continue
            return actions
        actions.append(Delete(pod, reports=True))
        if not it.is_parallel:
            return actions
    return actions + _updates(it, versions, minimum, now_ns)


def _version_of(it: _Set, ordinal: int, versions: _Versions) -> str:
    """Which version a pod that is made now is to have."""
    if it.spec.get("updateStrategy", {}).get("type") == "OnDelete":
        return versions.updated
    if ordinal >= it.first + _partition(it) or versions.current not in versions.templates:
        return versions.updated
    return versions.current


def _updates(it: _Set, versions: _Versions, minimum: int, now_ns: int) -> list[Action]:
    """Delete the last pod that is out of date, once all after it are up."""
    strategy = it.spec.get("updateStrategy", {})
    if strategy.get("type") == "OnDelete":
        return []
    unavailable = _max_unavailable(it)
    actions: list[Action] = []
    busy = 0
    for ordinal in reversed(it.ordinals()):
        if ordinal < it.first + _partition(it):
            break
        pod = it.pods.get(ordinal)
        if pod is None:
            busy += 1
        elif pod.metadata.labels.get(HASH_LABEL) != versions.updated:
            if pod.metadata.deletion_timestamp is None and busy < unavailable:
                actions.append(Delete(pod, reports=True))
            busy += 1
        elif pod.metadata.deletion_timestamp is not None or not is_available(pod, minimum, now_ns):
            busy += 1
        if busy >= unavailable:
            break
    return actions


def _max_unavailable(it: _Set) -> int:
    rolling = it.spec.get("updateStrategy", {}).get("rollingUpdate") or {}
    value = rolling.get("maxUnavailable", 1)
    if isinstance(value, str):
        number = value.removesuffix("%")
        value = it.wanted * int(number) // 100 if number.isdecimal() else 1
    return max(1, int(value))


def _made(
    objects: ObjectIndex, it: _Set, ordinal: int, versions: _Versions, version: str
) -> list[Action]:
    """A pod and the claims that it lacks."""
    name = f"{it.owner.metadata.name}-{ordinal}"
    namespace = it.owner.metadata.namespace
    template = versions.templates.get(version, it.spec.get("template", {}))
    template = {key: value for key, value in template.items() if key != "$patch"}
    pod = pod_from_template(it.owner, template)
    metadata = pod["metadata"]
    del metadata["generateName"]
    metadata["name"] = name
    metadata["labels"] = {
        **metadata.get("labels", {}),
        _NAME_LABEL: name,
        _INDEX_LABEL: str(ordinal),
        HASH_LABEL: version,
    }
    spec = {**pod["spec"], "hostname": name}
    if service := it.spec.get("serviceName"):
        spec["subdomain"] = service
    actions: list[Action] = []
    volumes = []
    for claim in it.spec.get("volumeClaimTemplates", ()):
        inner = claim["metadata"]
        claim_name = f"{inner['name']}-{name}"
        source = {"claimName": claim_name}
        volumes.append({"name": inner["name"], "persistentVolumeClaim": source})
        if objects.find(PersistentVolumeClaim, namespace, claim_name) is None:
            labels = {
                **inner.get("labels", {}),
                **it.spec.get("selector", {}).get("matchLabels", {}),
            }
            made = {
                "metadata": {
                    **{k: v for k, v in inner.items() if k in ("annotations",)},
                    "name": claim_name,
                    "namespace": namespace,
                    "labels": labels,
                },
                "spec": claim.get("spec", {}),
            }
            actions.append(Create(PersistentVolumeClaim, made, reports=True, optional=True))
    if volumes:
        replaced = {volume["name"] for volume in volumes}
        kept = [each for each in spec.get("volumes", ()) if each["name"] not in replaced]
        spec["volumes"] = [*kept, *volumes]
    pod["spec"] = spec
    actions.append(Create(Pod, pod, reports=True, optional=True))
    return actions


def _retention(objects: ObjectIndex, it: _Set) -> list[Action]:
    """Claims that are to go with the set, or with the pods that a smaller set does not have."""
    policy = it.spec.get("persistentVolumeClaimRetentionPolicy", {})
    when_deleted = policy.get("whenDeleted") == "Delete"
    when_scaled = policy.get("whenScaled") == "Delete"
    actions: list[Action] = []
    templates = {each["metadata"]["name"] for each in it.spec.get("volumeClaimTemplates", ())}
    if not templates or not (when_deleted or when_scaled):
        return []
    owner = it.owner.metadata
    for claim in objects.within(PersistentVolumeClaim, owner.namespace):
        # Named template, set and number; a template's name may have a dash as well.
        start, _, number = claim.metadata.name.rpartition("-")
        if not number.isdecimal() or not start.endswith(f"-{owner.name}"):
            continue
        if start.removesuffix(f"-{owner.name}") not in templates:
            continue
        condemned = int(number) not in it.ordinals()
        wanted: list[Json] = []
        if condemned and when_scaled and (pod := it.pods.get(int(number))) is not None:
            wanted = [_owner(pod)]
        elif not condemned and when_deleted:
            wanted = [_owner(it.owner)]
        elif condemned:
            continue
        held = [each.uid for each in claim.metadata.owner_references]
        if held != [each["uid"] for each in wanted]:
            actions.append(Patch(claim, {"metadata": {"ownerReferences": wanted or None}}))
    return actions


def _owner(owner: Any) -> Json:
    metadata = owner.metadata
    kind, version = type(owner).kind, type(owner).api_version
    return {"apiVersion": version, "kind": kind, "name": metadata.name, "uid": metadata.uid}


def _status(
    it: _Set,
    document: Mapping[str, Any],
    current: str,
    updated: str,
    now_ns: int,
) -> list[Action]:
    minimum = it.spec.get("minReadySeconds", 0)
    there = list(it.pods.values())
    alive = [pod for pod in there if pod.status.phase not in _FINISHED]
    ready = [pod for pod in alive if is_ready(pod)]
    available = [pod for pod in ready if is_available(pod, minimum, now_ns)]
    new = [pod for pod in alive if pod.metadata.labels.get(HASH_LABEL) == updated]
    is_rolling = it.spec.get("updateStrategy", {}).get("type") != "OnDelete"
    if is_rolling and len(new) == len(alive) == it.wanted == len(ready) and current != updated:
        current = updated  # the update is complete
    old = [pod for pod in alive if pod.metadata.labels.get(HASH_LABEL) != updated]
    status = {
        "observedGeneration": it.owner.metadata.generation,
        "replicas": len(there),
        "readyReplicas": len(ready) or None,
        "availableReplicas": len(available),
        "currentReplicas": (len(new) if current == updated else len(old)) or None,
        "updatedReplicas": len(new) or None,
        "currentRevision": current,
        "updateRevision": updated,
        "collisionCount": document.get("status", {}).get("collisionCount", 0),
    }
    return status_patch(it.owner, document, status)
