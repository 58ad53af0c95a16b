"""Properties of pods."""

from __future__ import annotations

from kubesched.api import ObjectMeta, OwnerReference, Pod, PodSpec, PodStatus
from kubesched.api.pod_facts import (
    controller_of,
    is_terminating,
    pod_key,
    pod_priority,
    start_time_ns,
)


def test_identity_and_priority() -> None:
    pod = Pod(metadata=ObjectMeta(namespace="ns", name="p"), spec=PodSpec(priority=-7))
    assert (pod_key(pod), pod_priority(pod), pod_priority(Pod())) == ("ns/p", -7, 0)


def test_a_pod_that_has_not_started_counts_as_starting_now() -> None:
    started = Pod(status=PodStatus(start_time="1970-01-01T00:00:02Z"))
    assert start_time_ns(started, now_ns=5) == 2_000_000_000
    assert start_time_ns(Pod(), now_ns=5) == 5


def test_a_pod_with_a_deletion_timestamp_is_terminating() -> None:
    leaving = Pod(metadata=ObjectMeta(deletion_timestamp="2026-01-01T00:00:00Z"))
    assert is_terminating(leaving)
    assert not is_terminating(Pod())


def test_one_of_several_owners_is_the_controller() -> None:
    owners = (OwnerReference(name="a"), OwnerReference(name="b", controller=True))
    controller = controller_of(Pod(metadata=ObjectMeta(owner_references=owners)))
    assert controller is not None
    assert controller.name == "b"
    assert controller_of(Pod()) is None
