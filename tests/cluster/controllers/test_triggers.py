"""Triggers: the declared changes lead to the keys of the right objects."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kubesched.api import OwnerReference, Pod, PodGroup, ReplicaSet
from kubesched.api.apps import ReplicaSetSpec
from kubesched.api.meta import LabelSelector, ObjectMeta
from kubesched.cluster.controllers.controller_registry import FOLLOWED, all_controllers
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.pod_autoscalers import PodAutoscalers
from kubesched.cluster.controllers.taint_eviction import TaintEvictions
from kubesched.cluster.controllers.triggers import (
    AdoptableObject,
    OwnChange,
    RelatedChange,
    TriggerIndex,
    controlled,
)

CONTROLLERS = all_controllers(TaintEvictions(), str, PodAutoscalers(None))


def test_every_declared_kind_is_followed() -> None:
    kinds = {each.kind for one in CONTROLLERS for each in one.triggers}
    assert kinds | {each.kind for each in CONTROLLERS} <= {*FOLLOWED, PodGroup}


def test_changes_of_an_object_trigger_its_own_controllers() -> None:
    own = {each.kind for one in CONTROLLERS for each in one.triggers if isinstance(each, OwnChange)}
    assert own == {each.kind for each in CONTROLLERS}


def _replica_set(uid: str) -> ReplicaSet:
    selector = LabelSelector(match_labels={"app": "web"})
    metadata = ObjectMeta(name=uid, namespace="default", uid=uid, resource_version="1")
    return ReplicaSet(metadata=metadata, spec=ReplicaSetSpec(selector=selector))


def _pod(owner: str = "", **labels: str) -> Pod:
    references = (OwnerReference(kind="ReplicaSet", name=owner, uid=owner, controller=True),)
    return Pod(
        metadata=ObjectMeta(
            name="p",
            namespace="default",
            uid="p",
            resource_version="2",
            labels=labels,
            owner_references=references if owner else (),
        )
    )


def _keys(index: TriggerIndex, *objects: Any, before: Any = None) -> list[str]:
    cached = ObjectIndex()
    for each in objects:
        cached.observe(each)
    return list(index.keys(cached, objects[-1], before, gone=False))


def test_an_orphan_triggers_its_adopters_and_an_owned_pod_its_owners() -> None:
    index = TriggerIndex([AdoptableObject(Pod, ReplicaSet), controlled(Pod, by=ReplicaSet)])
    a, b = _replica_set("a"), _replica_set("b")
    assert _keys(index, a, b, _pod(app="web")) == ["a", "b"]
    assert _keys(index, a, b, _pod(app="db")) == []
    assert _keys(index, a, b, _pod("a", app="web")) == ["a"]
    assert _keys(index, a, b, _pod("b"), before=_pod("a")) == ["b", "a"]


def test_equal_triggers_are_called_once_and_only_for_relevant_changes() -> None:
    calls = []

    def find_keys(_objects: ObjectIndex, pod: Pod, _before: Any, _gone: bool) -> list[str]:
        calls.append(pod.metadata.uid)
        return []

    trigger = RelatedChange(Pod, ReplicaSet, find_keys)
    index = TriggerIndex([trigger, trigger])
    cached = ObjectIndex()
    pod = _pod()
    cached.observe(pod)
    index.keys(cached, pod, None, gone=False)
    assert calls == []
    cached.observe(_replica_set("a"))
    index.keys(cached, replace(pod), None, gone=False)
    assert calls == ["p"]
