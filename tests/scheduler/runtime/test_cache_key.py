"""Keys of the answer cache: pods share one if no cached plugin reads a difference."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import ContainerStatus, Pod, ResourceRequirements
from kubesched.api.volume import Volume
from kubesched.api.volume_source import ImageVolumeSource
from kubesched.errors import KubeschedError
from kubesched.framework import (
    SUCCESS,
    CycleState,
    NodeInfo,
    Plugin,
    PodInfo,
    PodPart,
    Reads,
    Status,
)
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.config import default_configuration
from kubesched.scheduler.config.types import PluginRef
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.cached_search import CachedSearch
from kubesched.testing import FakeHandle, make_node, make_pod
from kubesched.testing.objects.builders import HOSTNAME, make_container, make_owner
from kubesched.testing.objects.selector_builders import make_affinity, make_node_term, make_pod_term


class Curious(Plugin):
    """Declares that it reads all parts of a pod."""

    name = "Curious"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS


def shapes_of(pods: list[Pod], *own: type[Plugin]) -> int:
    """Return the number of cache entries after an attempt for each of the pods."""
    cache = Cache()
    for number in range(3):
        cache.add_node(make_node(f"n{number}"))
    snapshot = cache.update_snapshot()
    profile = default_configuration().profiles[0]
    multi_point = profile.plugins.multi_point
    enabled = (*(PluginRef(each.name) for each in own), *multi_point.enabled)
    plugins = replace(profile.plugins, multi_point=replace(multi_point, enabled=enabled))
    framework = Framework(
        replace(profile, plugins=plugins),
        {**IN_TREE_PLUGINS, **{each.name: each for each in own}},
        FakeHandle((), snapshot=snapshot).services(),
    )
    search = CachedSearch(snapshot, random.Random(0))
    for pod in pods:
        try:
            search.schedule_pod(framework, CycleState(), PodInfo(pod))
        except KubeschedError:
            continue  # a pod that fits nowhere is cached as well
    return len(framework.answer_cache)


NODE_TERM = make_node_term(("disk", "In", "ssd"))
SEEN: dict[str, dict[str, Any]] = {
    "requests": {"requests": {"cpu": "1"}},
    "image": {"images": ["nginx"]},
    "host port": {"host_ports": [80]},
    "init container": {"init_containers": [make_container("i", requests={"cpu": "1"})]},
    "overhead": {"overhead": {"cpu": "1"}},
    "requests of the pod": {"pod_requests": {"cpu": "1"}},
    "node selector": {"node_selector": {"disk": "ssd"}},
    "node name": {"node_name": "n0"},
    "required node affinity": {"affinity": make_affinity(node=NODE_TERM)},
    "preferred node affinity": {"affinity": make_affinity(node_preferred=[(5, NODE_TERM)])},
    "toleration": {"tolerations": ["spot=a:NoSchedule"]},
    "host network": {"host_network": True},
    "image volume": {"volumes": [Volume(name="v", image=ImageVolumeSource(reference="nginx"))]},
}


@pytest.mark.parametrize("wishes", SEEN.values(), ids=SEEN)
def test_pods_with_different_node_requirements_have_different_keys(
    wishes: dict[str, Any],
) -> None:
    assert shapes_of([make_pod("p"), make_pod("p", **wishes)]) == 2


def test_the_user_namespace_is_part_of_the_shape() -> None:
    pod = make_pod("p")
    assert shapes_of([pod, replace(pod, spec=replace(pod.spec, host_users=False))]) == 2


def test_a_pod_whose_amounts_follow_its_status_shares_nothing() -> None:
    pod = make_pod("p", requests={"cpu": "1"})
    statuses = (ContainerStatus(name="c0"),)
    assert shapes_of([replace(pod, status=replace(pod.status, container_statuses=statuses))]) == 0
    resized = replace(pod.status, resources=ResourceRequirements(requests={"cpu": "2"}))
    assert shapes_of([replace(pod, status=resized)]) == 0


UNSEEN: dict[str, dict[str, Any]] = {
    "name": {},
    "labels": {"labels": {"app": "web"}},
    "annotations": {"annotations": {"note": "x"}},
    "namespace": {"namespace": "team-a"},
    "owner": {"owner": make_owner("ReplicaSet", "web")},
}


@pytest.mark.parametrize("wishes", UNSEEN.values(), ids=UNSEEN)
def test_in_tree_plugins_do_not_read_metadata(wishes: dict[str, Any]) -> None:
    assert shapes_of([make_pod("p"), make_pod("q", **wishes)]) == 1


@pytest.mark.parametrize(
    "wishes",
    [
        {"affinity": make_affinity(apart=[make_pod_term(HOSTNAME, {"app": "web"})])},
        {"priority": 5},
    ],
    ids=["pod affinity", "priority"],
)
def test_reads_of_uncacheable_plugins_are_not_part_of_the_key(
    wishes: dict[str, Any],
) -> None:
    assert shapes_of([make_pod("p"), make_pod("p", **wishes)]) == 1
    assert shapes_of([make_pod("p"), make_pod("p", **wishes)], Curious) == 2


@pytest.mark.parametrize("what", UNSEEN)
def test_user_plugins_may_read_all_metadata_but_the_name(what: str) -> None:
    pods = [make_pod("p"), make_pod("q", **UNSEEN[what])]
    assert shapes_of(pods, Curious) == (1 if what == "name" else 2)
