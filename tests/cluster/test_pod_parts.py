"""Parts of a running pod that clients change: ephemeral containers and resources."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from kubesched.api import ApiError, ObjectMeta, Pod
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.rules.service_account_mounts import apply_service_account
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, Clock, current_clock
from kubesched.testing import make_node


def on_a_node(work: Callable[[LocalApi, Clock], Awaitable[None]], **container: Any) -> None:
    """Run `work` on a cluster in which the pod `default/p` runs."""

    async def main() -> None:
        clock = current_clock()
        live = LiveCluster(EmbeddedCluster(clock, random.Random(0)), seed=0)
        async with live.running():
            node = msgspec.structs.replace(make_node("a"), metadata=ObjectMeta(name="a"))
            await live.api.create(node)
            spec = {"containers": [{"name": "c", "image": "x", **container}]}
            metadata = {"name": "p", "namespace": "default"}
            await live.api.create(
                msgspec.convert({"metadata": metadata, "spec": {**spec, "nodeName": "a"}}, Pod)
            )
            await clock.sleep(5 * SECOND)
            await work(live.cluster.api, clock)

    virtual_loop.run(main)


async def debugged(api: LocalApi, *containers: dict[str, Any]) -> Pod:
    patch = {"spec": {"ephemeralContainers": list(containers)}}
    return await api.patch(Pod, "p", "default", patch, subresource="ephemeralcontainers")


def test_an_ephemeral_container_runs_until_the_pod_ends() -> None:
    async def work(api: LocalApi, clock: Clock) -> None:
        added = await debugged(api, {"name": "d", "image": "busybox", "targetContainerName": "c"})
        assert [each.name for each in added.spec.ephemeral_containers] == ["d"]
        await clock.sleep(5 * SECOND)
        found = await api.get(Pod, "p", "default")
        (status,) = found.status.ephemeral_container_statuses
        assert (status.name, status.state.running is not None) == ("d", True)

    on_a_node(work)


REFUSED = {
    "a name that a container has": ({"name": "c", "image": "x"}, 'name: Duplicate value: "c"'),
    "no image": ({"name": "d"}, "image: Required value"),
    "an unknown target": (
        {"name": "d", "image": "x", "targetContainerName": "no"},
        'targetContainerName: Not found: "no"',
    ),
    "requests": (
        {"name": "d", "image": "x", "resources": {"requests": {"cpu": "1"}}},
        "resources: Forbidden: cannot be set for an Ephemeral Container",
    ),
}


@pytest.mark.parametrize(("container", "text"), REFUSED.values(), ids=REFUSED)
def test_ephemeral_containers_that_are_refused(container: dict[str, Any], text: str) -> None:
    async def work(api: LocalApi, _clock: Clock) -> None:
        with pytest.raises(ApiError) as refused:
            await debugged(api, container)
        assert f"spec.ephemeralContainers[0].{text}" in str(refused.value)

    on_a_node(work)


RESIZES = {
    "burstable stays burstable": ({"requests": {"cpu": "2"}}, True),
    "burstable to guaranteed": (
        {"requests": {"cpu": "3", "memory": "1Gi"}, "limits": {"cpu": "3", "memory": "1Gi"}},
        False,
    ),
}


@pytest.mark.parametrize(("resources", "is_accepted"), RESIZES.values(), ids=RESIZES)
def test_a_resize_must_not_change_the_quality_of_service(
    resources: dict[str, Any], is_accepted: bool
) -> None:
    async def work(api: LocalApi, _clock: Clock) -> None:
        patch = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
        text = "Pod QOS Class may not change as a result of resizing"
        if is_accepted:
            await api.patch(Pod, "p", "default", patch, subresource="resize")
            return
        with pytest.raises(ApiError, match=text):
            await api.patch(Pod, "p", "default", patch, subresource="resize")

    on_a_node(work, resources={"requests": {"cpu": "1"}, "limits": {"cpu": "3"}})


def test_a_pod_with_an_ephemeral_container_is_resized() -> None:
    async def work(api: LocalApi, _clock: Clock) -> None:
        await debugged(api, {"name": "d", "image": "busybox"})
        resized = {"name": "c", "resources": {"requests": {"cpu": "200m"}}}
        patch = {"spec": {"containers": [resized]}}
        pod = await api.patch(Pod, "p", "default", patch, subresource="resize")
        assert pod.spec.containers[0].resources.requests["cpu"] == "200m"

    on_a_node(work, resources={"requests": {"cpu": "100m"}})


def test_a_copy_of_a_pod_with_another_container_has_two_token_volumes() -> None:
    """`kubectl debug --copy-to` keeps the token volume of the pod, and adds a container."""
    account = {"metadata": {"name": "default"}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = apply_service_account(pod, account)["spec"]
    copied = {**spec, "containers": [*spec["containers"], {"name": "debugger", "image": "x"}]}
    copy = apply_service_account({"metadata": {"name": "copy"}, "spec": copied}, account)["spec"]
    names = [each["name"] for each in copy["volumes"]]
    mounts = [each["volumeMounts"][0]["name"] for each in copy["containers"]]
    assert len(set(names)) == 2
    assert mounts == names
