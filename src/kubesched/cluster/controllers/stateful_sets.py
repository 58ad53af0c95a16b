"""StatefulSets: pods with stable names, created and updated in order, and their claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kubesched.api import PersistentVolumeClaim, Pod, StatefulSet
from kubesched.cluster.controllers.adoption import claim_objects, selector_of
from kubesched.cluster.controllers.claim_retention import (
    has_stale_claim,
    plan_claim_owners,
    set_of_claim,
)
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex, is_available, is_ready
from kubesched.cluster.controllers.plans import (
    Action,
    ActionPlan,
    Create,
    Delete,
    status_patch,
)
from kubesched.cluster.controllers.pod_creation_limit import MOST_AT_ONCE, limit_new_pods
from kubesched.cluster.controllers.replica_sets import next_available_ns, pod_from_template
from kubesched.cluster.controllers.revisions import (
    HASH_LABEL,
    delete_surplus_revisions,
    plan_revisions,
)
from kubesched.cluster.controllers.triggers import (
    AdoptableObject,
    OwnChange,
    RelatedChange,
    controlled,
)

__all__ = ["STATEFUL_SET_CONTROLLER", "plan_stateful_set"]

Json = dict[str, Any]

_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_FINISHED = ("Succeeded", "Failed")


class _Set(NamedTuple):
    """A StatefulSet with the fields of its document that the plan reads."""

    owner: StatefulSet
    spec: Mapping[str, Any]
    pods: dict[int, Pod]  # by ordinal
    first: int  # the lowest ordinal
    wanted: int  # the number of replicas

    @property
    def is_parallel(self) -> bool:
        return self.owner.spec.pod_management_policy == "Parallel"

    @property
    def min_ready_seconds(self) -> int:
        return int(self.spec.get("minReadySeconds", 0))

    @property
    def updates_on_delete(self) -> bool:
        return bool(self.spec.get("updateStrategy", {}).get("type") == "OnDelete")

    def ordinals(self) -> range:
        return range(self.first, self.first + self.wanted)


def plan_stateful_set(
    objects: ObjectIndex, owner: StatefulSet, document: Mapping[str, Any], now_ns: int
) -> ActionPlan:
    """Create, delete and update the pods of a StatefulSet in order, and set its status."""
    claim = claim_objects(
        objects, owner, Pod, selector_of(owner), lambda pod: _ordinal(owner, pod) is not None
    )
    spec = document["spec"]
    by_ordinal = {number: pod for pod in claim[0] if (number := _ordinal(owner, pod)) is not None}
    first = spec.get("ordinals", {}).get("start", 0)
    stateful_set = _Set(owner, spec, by_ordinal, first, spec.get("replicas", 1))
    actions = list(claim[1])
    revisions = plan_revisions(objects, owner, document)
    actions += revisions.actions
    status = document.get("status", {})
    current = status.get("currentRevision") or revisions.current_name
    updated = revisions.current_name
    if owner.metadata.deletion_timestamp is None:
        actions += plan_claim_owners(objects, owner, spec, by_ordinal, stateful_set.ordinals())
        templates = {
            each.metadata.name: each.data["spec"]["template"] for each in revisions.existing
        }
        templates[updated] = spec.get("template", {})
        versions = _Versions(current, updated, templates)
        actions += _pod_actions(objects, stateful_set, versions, now_ns)
        in_use = {pod.metadata.labels.get(HASH_LABEL, "") for pod in by_ordinal.values()}
        in_use |= {current, updated}
        actions += delete_surplus_revisions(owner, revisions.existing, in_use)
    actions += _status_actions(stateful_set, document, current, updated, now_ns)
    ready = [pod for pod in by_ordinal.values() if is_ready(pod)]
    return ActionPlan(actions, next_available_ns(ready, stateful_set.min_ready_seconds, now_ns))


class _Versions(NamedTuple):
    """Names of ControllerRevisions, which pods have as a label, and the templates by name."""

    current: str
    updated: str
    templates: Mapping[str, Mapping[str, Any]]


class _Step(NamedTuple):
    """Actions for some pods, and whether the plan ends with them."""

    actions: list[Action]
    is_last: bool


def _ordinal(owner: StatefulSet, pod: Pod) -> int | None:
    parent, _, number = pod.metadata.name.rpartition("-")
    return int(number) if parent == owner.metadata.name and number.isdecimal() else None


def _partition(stateful_set: _Set) -> int:
    rolling = stateful_set.spec.get("updateStrategy", {}).get("rollingUpdate") or {}
    return int(rolling.get("partition") or 0)


def _pod_actions(
    objects: ObjectIndex, stateful_set: _Set, versions: _Versions, now_ns: int
) -> list[Action]:
    """Create missing pods, then delete surplus ones, then update outdated ones.

    Unless the set is parallel, a plan changes one pod, and waits for pods before it.
    """
    created = _create_missing(objects, stateful_set, versions, now_ns)
    if created.is_last:
        return created.actions
    deleted = _delete_surplus(stateful_set)
    actions = [*created.actions, *deleted.actions]
    if deleted.is_last:
        return actions
    return actions + _update_pods(stateful_set, versions, now_ns)


def _create_missing(
    objects: ObjectIndex, stateful_set: _Set, versions: _Versions, now_ns: int
) -> _Step:
    actions: list[Action] = []
    missing = stateful_set.wanted - sum(n in stateful_set.ordinals() for n in stateful_set.pods)
    limit, events = limit_new_pods(stateful_set.owner, missing, list(stateful_set.pods.values()))
    created = 0
    for ordinal in stateful_set.ordinals():
        pod = stateful_set.pods.get(ordinal)
        if pod is None:
            name = f"{stateful_set.owner.metadata.name}-{ordinal}"
            if has_stale_claim(objects, stateful_set.owner, stateful_set.spec, name):
                # Its deletion is under way: a pod that used it would lose its volume.
                if not stateful_set.is_parallel:
                    return _Step(actions, is_last=True)
                continue
            if created >= limit:
                return _Step([*actions, *events], is_last=True)
            actions += _create_pod(objects, stateful_set, ordinal, versions)
            created += 1
            if not stateful_set.is_parallel or len(actions) >= MOST_AT_ONCE:
                return _Step(actions, is_last=True)
        elif pod.status.phase in _FINISHED:
            if pod.metadata.deletion_timestamp is None:
                # A later plan creates the pod again.
                actions.append(Delete(pod, reports=True))
            if not stateful_set.is_parallel:
                return _Step(actions, is_last=True)
        elif not stateful_set.is_parallel and not _is_up(stateful_set, pod, now_ns):
            return _Step(actions, is_last=True)
    return _Step(actions, is_last=False)


def _is_up(stateful_set: _Set, pod: Pod, now_ns: int) -> bool:
    """Whether a pod is available and not being deleted."""
    return pod.metadata.deletion_timestamp is None and is_available(
        pod, stateful_set.min_ready_seconds, now_ns
    )


def _delete_surplus(stateful_set: _Set) -> _Step:
    """Delete the pods beyond the replicas, the highest ordinal first."""
    actions: list[Action] = []
    ordinals = stateful_set.ordinals()
    for ordinal in sorted((n for n in stateful_set.pods if n not in ordinals), reverse=True):
        pod = stateful_set.pods[ordinal]
        if pod.metadata.deletion_timestamp is None:
            actions.append(Delete(pod, reports=True))
        if not stateful_set.is_parallel:
            return _Step(actions, is_last=True)
    return _Step(actions, is_last=False)


def _version_of(stateful_set: _Set, ordinal: int, versions: _Versions) -> str:
    """Return the revision that a new pod gets."""
    if stateful_set.updates_on_delete:
        return versions.updated
    boundary = stateful_set.first + _partition(stateful_set)
    if ordinal >= boundary or versions.current not in versions.templates:
        return versions.updated
    return versions.current


def _update_pods(stateful_set: _Set, versions: _Versions, now_ns: int) -> list[Action]:
    """Delete outdated pods from the highest ordinal on, as far as enough pods are up."""
    if stateful_set.updates_on_delete:
        return []
    most_unavailable = _max_unavailable(stateful_set)
    boundary = stateful_set.first + _partition(stateful_set)
    actions: list[Action] = []
    unavailable = 0
    for ordinal in reversed(stateful_set.ordinals()):
        if ordinal < boundary or unavailable >= most_unavailable:
            break
        pod = stateful_set.pods.get(ordinal)
        if pod is None:
            unavailable += 1
        elif pod.metadata.labels.get(HASH_LABEL) != versions.updated:
            if pod.metadata.deletion_timestamp is None:
                actions.append(Delete(pod, reports=True))
            unavailable += 1
        elif not _is_up(stateful_set, pod, now_ns):
            unavailable += 1
    return actions


def _max_unavailable(stateful_set: _Set) -> int:
    rolling = stateful_set.spec.get("updateStrategy", {}).get("rollingUpdate") or {}
    value = rolling.get("maxUnavailable", 1)
    if isinstance(value, str):
        number = value.removesuffix("%")
        value = stateful_set.wanted * int(number) // 100 if number.isdecimal() else 1
    return max(1, int(value))


def _create_pod(
    objects: ObjectIndex, stateful_set: _Set, ordinal: int, versions: _Versions
) -> list[Action]:
    """Create a pod and the claims that it lacks."""
    owner, spec = stateful_set.owner, stateful_set.spec
    name = f"{owner.metadata.name}-{ordinal}"
    version = _version_of(stateful_set, ordinal, versions)
    template = versions.templates.get(version, spec.get("template", {}))
    template = {key: value for key, value in template.items() if key != "$patch"}
    pod = pod_from_template(owner, template)
    metadata = pod["metadata"]
    del metadata["generateName"]
    metadata["name"] = name
    metadata["labels"] = {
        **metadata.get("labels", {}),
        _NAME_LABEL: name,
        _INDEX_LABEL: str(ordinal),
        HASH_LABEL: version,
    }
    pod_spec = {**pod["spec"], "hostname": name}
    if service := spec.get("serviceName"):
        pod_spec["subdomain"] = service
    templates = {each["metadata"]["name"]: each for each in spec.get("volumeClaimTemplates", ())}
    if templates:
        other = [each for each in pod_spec.get("volumes", ()) if each["name"] not in templates]
        pod_spec["volumes"] = [
            *other,
            *(
                {"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}"}}
                for each in templates
            ),
        ]
    pod["spec"] = pod_spec
    missing = {
        f"{each}-{name}": claim
        for each, claim in templates.items()
        if objects.find(PersistentVolumeClaim, owner.metadata.namespace, f"{each}-{name}") is None
    }
    return [
        *(_create_claim(stateful_set, claim, each) for each, claim in missing.items()),
        Create(Pod, pod, reports=True, optional=True),
    ]


def _create_claim(stateful_set: _Set, template: Mapping[str, Any], name: str) -> Create:
    template_metadata = template["metadata"]
    metadata = {
        **{k: v for k, v in template_metadata.items() if k in ("annotations",)},
        "name": name,
        "namespace": stateful_set.owner.metadata.namespace,
        "labels": {
            **template_metadata.get("labels", {}),
            **stateful_set.spec.get("selector", {}).get("matchLabels", {}),
        },
    }
    document = {"metadata": metadata, "spec": template.get("spec", {})}
    return Create(PersistentVolumeClaim, document, reports=True, optional=True)


def _status_actions(
    stateful_set: _Set, document: Mapping[str, Any], current: str, updated: str, now_ns: int
) -> list[Action]:
    pods = list(stateful_set.pods.values())
    running = [pod for pod in pods if pod.status.phase not in _FINISHED]
    ready = [pod for pod in running if is_ready(pod)]
    minimum = stateful_set.min_ready_seconds
    available = sum(is_available(pod, minimum, now_ns) for pod in ready)
    new = sum(pod.metadata.labels.get(HASH_LABEL) == updated for pod in running)
    is_complete = new == len(running) == stateful_set.wanted == len(ready)
    if is_complete and not stateful_set.updates_on_delete:
        current = updated
    status = {
        "observedGeneration": stateful_set.owner.metadata.generation,
        "replicas": len(pods),
        "readyReplicas": len(ready) or None,
        "availableReplicas": available,
        "currentReplicas": (new if current == updated else len(running) - new) or None,
        "updatedReplicas": new or None,
        "currentRevision": current,
        "updateRevision": updated,
        "collisionCount": document.get("status", {}).get("collisionCount", 0),
    }
    return status_patch(stateful_set.owner, document, status)


STATEFUL_SET_CONTROLLER = Controller(
    "statefulset-controller",
    StatefulSet,
    plan_stateful_set,
    triggers=(
        OwnChange(StatefulSet),
        controlled(Pod, by=StatefulSet),
        AdoptableObject(Pod, StatefulSet),
        RelatedChange(PersistentVolumeClaim, StatefulSet, set_of_claim),
    ),
)
