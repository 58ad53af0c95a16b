"""Specs of pods and nodes, as in sig-node."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.cluster.specs.spec_runner import (
    Json,
    RefusedError,
    Spec,
    SpecSteps,
    condition_of,
    play,
    pod,
)

AGNHOST = "registry.k8s.io/e2e-test-images/agnhost:2.59"
NGINX = "registry.k8s.io/e2e-test-images/nginx:1.15"


def agnhost(name: str, **spec: Any) -> Json:
    container = {"name": "agnhost-container", "image": AGNHOST, "args": ["pause"]}
    return pod(name, containers=[container], **spec)


async def up(spec: Spec, made: Json) -> Json:
    name = spec.create("pods", made)["metadata"]["name"]
    await spec.until(lambda: spec.get("pods", name)["status"]["phase"] == "Running")
    return spec.get("pods", name)


# Config maps, secrets, leases, pod templates


async def _config_maps(spec: Spec) -> None:
    assert "data" in spec.refused("configmaps", {"metadata": {"name": "c"}, "data": {"": "v"}})
    made = {"metadata": {"name": "c", "labels": {"test": "static"}}, "data": {"key": "value"}}
    created = spec.create("configmaps", made)
    watch = spec.watch("configmaps", created["metadata"]["resourceVersion"], "test=static")
    body = {"metadata": {"labels": {"test-configmap": "patched"}}, "data": {"key": "patched"}}
    spec.patch("configmaps", "c", body)
    assert spec.get("configmaps", "c")["data"] == {"key": "patched"}
    spec.change("configmaps", "c", lambda found: found.update(data={"data": "value"}))
    assert len(spec.list("configmaps", "test=static", everywhere=True)) == 1
    spec.delete_all("configmaps", "test=static")
    assert [each["type"] for each in watch.read()] == ["MODIFIED", "MODIFIED", "DELETED"]


async def _secrets(spec: Spec) -> None:
    wrong = {"metadata": {"name": "s"}, "type": "Opaque", "data": {"": "dmFsdWU="}}
    assert "data" in spec.refused("secrets", wrong)
    labels = {"testsecret-constant": "true"}
    spec.create("secrets", {"metadata": {"name": "s", "labels": labels}, "data": {"key": "dg=="}})
    body = {"metadata": {"labels": {"testsecret": "patched"}}, "data": {"key": "djE="}}
    spec.patch("secrets", "s", body)
    assert spec.get("secrets", "s")["data"] == {"key": "djE="}
    assert len(spec.list("secrets", "testsecret-constant=true", everywhere=True)) == 1
    written = spec.create("secrets", {"metadata": {"name": "t"}, "stringData": {"key": "v1"}})
    assert (written["data"], written["type"]) == ({"key": "djE="}, "Opaque")
    spec.delete_all("secrets", "testsecret-constant=true")
    assert not spec.list("secrets", "testsecret-constant=true")


def _immutable(plural: str, value: str, other: str) -> SpecSteps:
    async def steps(spec: Spec) -> None:
        spec.create(plural, {"metadata": {"name": "i"}, "data": {"data-1": value}})
        spec.change(plural, "i", lambda found: found["data"].update({"data-4": other}))
        spec.change(plural, "i", lambda found: found.update(immutable=True))
        with pytest.raises(RefusedError, match="immutable") as refusal:
            spec.change(plural, "i", lambda found: found.update(immutable=False))
        assert refusal.value.code == 422
        with pytest.raises(RefusedError, match="immutable"):
            spec.change(plural, "i", lambda found: found["data"].update({"data-4": value}))
        note = {"annotated": "yes"}
        spec.change(plural, "i", lambda found: found["metadata"].update(annotations=note))
        spec.delete(plural, "i")

    return steps


async def _leases(spec: Spec) -> None:
    now = "2026-01-01T00:00:01.000001Z"
    body = {
        "holderIdentity": "holder",
        "leaseDurationSeconds": 30,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }
    created = spec.create("leases", {"metadata": {"name": "l"}, "spec": body})
    assert spec.get("leases", "l")["spec"] == body
    later = {**body, "holderIdentity": "holder2", "leaseTransitions": 1}
    spec.update("leases", {**created, "spec": later})
    patch = {"spec": {"holderIdentity": "holder3", "leaseDurationSeconds": 60}}
    assert spec.patch("leases", "l", patch)["spec"]["leaseDurationSeconds"] == 60
    spec.create("leases", {"metadata": {"name": "l2", "labels": {"deletecollection": "true"}}})
    assert len(spec.list("leases")) == 2
    spec.delete_all("leases", "deletecollection=true")
    assert len(spec.list("leases")) == 1
    spec.delete("leases", "l")
    assert not spec.exists("leases", "l")


async def _pod_templates(spec: Spec) -> None:
    inner = {"spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}
    for name in ("a", "b", "c"):
        metadata = {"name": name, "labels": {"podtemplate-set": "true"}}
        spec.create("podtemplates", {"metadata": metadata, "template": inner})
    assert len(spec.list("podtemplates", "podtemplate-set=true")) == 3
    body = {"metadata": {"labels": {"podtemplate": "patched"}}}
    patched = spec.patch("podtemplates", "a", body, kind="strategic")
    assert patched["metadata"]["labels"]["podtemplate"] == "patched"

    def annotate(found: Json) -> None:
        found["metadata"]["annotations"] = {"updated": "true"}

    assert spec.change("podtemplates", "a", annotate)["metadata"]["annotations"] == {
        "updated": "true"
    }
    spec.delete("podtemplates", "a")
    spec.delete_all("podtemplates", "podtemplate-set=true")
    assert not spec.list("podtemplates", "podtemplate-set=true")


# Pods


async def _is_submitted_and_removed(spec: Spec) -> None:
    version = spec.send("GET", spec.path("pods"))["metadata"]["resourceVersion"]
    watch = spec.watch("pods", version, "time=1")
    await up(spec, pod("p", labels={"time": "1"}))
    assert watch.read()[0]["type"] == "ADDED"
    path = f"{spec.path('pods', 'p')}?gracePeriodSeconds=30"
    last = spec.send("DELETE", path)
    assert last["metadata"]["deletionGracePeriodSeconds"] == 30
    await spec.until(lambda: watch.read()[-1]["type"] == "DELETED")
    gone = watch.read()[-1]["object"]
    assert gone["metadata"]["deletionTimestamp"]
    assert gone["spec"]["terminationGracePeriodSeconds"] is not None
    assert not spec.list("pods", "time=1")


async def _is_updated(spec: Spec) -> None:
    await up(spec, pod("p", labels={"time": "1"}))
    spec.change("pods", "p", lambda found: found["metadata"]["labels"].update(time="2"))
    assert len(spec.list("pods", "time=2")) == 1


async def _gets_a_deadline(spec: Spec) -> None:
    await up(spec, agnhost("p"))
    spec.change("pods", "p", lambda found: found["spec"].update(activeDeadlineSeconds=5))
    await spec.until(lambda: spec.get("pods", "p")["status"].get("reason") == "DeadlineExceeded")
    assert spec.get("pods", "p")["status"]["phase"] == "Failed"


async def _goes_with_others(spec: Spec) -> None:
    for number in range(3):
        made = agnhost(f"p{number}", labels={"type": "Testing"}, restartPolicy="Never")
        made["spec"]["terminationGracePeriodSeconds"] = 1
        spec.create("pods", made)
    await spec.until(lambda: len(spec.running()) == 3)
    spec.delete_all("pods", "type=Testing", gracePeriodSeconds=1)
    await spec.until(lambda: not spec.pods("type=Testing"))


async def _has_a_host(spec: Spec) -> None:
    held = (await up(spec, pod("p")))["status"]
    assert held["hostIP"]
    assert {"ip": held["hostIP"]} in held["hostIPs"]
    node = spec.get("nodes", spec.get("pods", "p")["spec"]["nodeName"])
    addresses = {each["type"]: each["address"] for each in node["status"]["addresses"]}
    assert held["hostIP"] == addresses["InternalIP"]


async def _status_is_patched(spec: Spec) -> None:
    await up(spec, agnhost("p"))
    told = {"message": "Patched by e2e test", "reason": "E2E"}
    body = {"metadata": {"annotations": {"patchedstatus": "true"}}, "status": told}
    patched = spec.patch("pods", "p", body, "status", kind="merge")
    assert patched["status"].items() >= told.items()


async def _lives(spec: Spec) -> None:
    await up(spec, agnhost("p", labels={"test-pod-static": "true"}))
    watch = spec.watch("pods", spec.get("pods", "p")["metadata"]["resourceVersion"])
    containers = [{"name": "agnhost-container", "image": NGINX, "resources": {}}]
    body = {
        "metadata": {"labels": {"test-pod": "patched"}},
        "spec": {"terminationGracePeriodSeconds": 30, "containers": containers},
        "status": {},
    }
    spec.patch("pods", "p", body)
    assert spec.get("pods", "p")["spec"]["containers"][0]["image"] == NGINX
    await spec.until(lambda: len(spec.running()) == 1)
    held = spec.get("pods", "p", "status")
    for each in held["status"]["conditions"]:
        if each["type"] in ("Ready", "ContainersReady"):
            each["status"] = "False"
    updated = spec.update("pods", held, "status")
    assert condition_of(updated, "Ready") == condition_of(updated, "ContainersReady") == "False"
    spec.delete_all("pods", "test-pod-static=true", gracePeriodSeconds=1)
    await spec.until(lambda: watch.read()[-1]["type"] == "DELETED")


async def _has_gates(spec: Spec) -> None:
    first, second = "k8s.io/test-condition1", "k8s.io/test-condition2"
    gates = [{"conditionType": first}, {"conditionType": second}]
    await up(spec, agnhost("p", readinessGates=gates))

    def set_gate(kind: str, status: str) -> None:
        body = {"status": {"conditions": [{"type": kind, "status": status}]}}
        spec.patch("pods", "p", body, "status")

    assert not spec.running()
    set_gate(first, "True")
    await spec.sleep(10)
    assert not spec.running()
    set_gate(second, "True")
    await spec.until(spec.running)
    set_gate(first, "False")
    await spec.until(lambda: not spec.running())


async def _generations(spec: Spec) -> None:
    made = agnhost("p")
    made["spec"]["initContainers"] = [{"name": "init-container", "image": "busybox:1.37"}]
    assert (await up(spec, made))["metadata"]["generation"] == 1
    toleration = {"key": "foo", "operator": "Equal", "value": "bar", "effect": "NoSchedule"}
    changes: list[tuple[Any, int]] = [
        (lambda _: None, 0),
        (lambda found: found["spec"].update(tolerations=[toleration]), 1),
        (lambda found: found["spec"].update(activeDeadlineSeconds=5000), 1),
        (lambda found: found["spec"]["containers"][0].update(image=NGINX), 1),
        (lambda found: found["spec"]["initContainers"][0].update(image="pause:3.10"), 1),
        (lambda found: found["metadata"].update(annotations={"key": "value"}), 0),
        (lambda found: found["metadata"].update(generation=1), 0),
    ]
    wanted = 1
    for change, more in changes:
        spec.change("pods", "p", change)
        wanted += more
        assert spec.get("pods", "p")["metadata"]["generation"] == wanted
        await spec.until(
            lambda wanted=wanted: (
                spec.get("pods", "p")["status"].get("observedGeneration") == wanted
            ),
            20,
        )


async def _generation_of_a_deletion(spec: Spec) -> None:
    made = agnhost("p")
    made["metadata"]["generation"] = 100
    assert (await up(spec, made))["metadata"]["generation"] == 1
    spec.send("DELETE", f"{spec.path('pods', 'p')}?gracePeriodSeconds=60")
    assert spec.get("pods", "p")["metadata"]["generation"] == 2


async def _observed_in_conditions(spec: Spec) -> None:
    made = agnhost("p")
    made["spec"]["containers"][0]["image"] = "localhost/some-image-that-doesnt-exist"
    spec.create("pods", made)

    def observed() -> dict[str, int]:
        return {
            each["type"]: each.get("observedGeneration", 0)
            for each in spec.get("pods", "p")["status"].get("conditions", ())
        }

    kinds = {"Initialized", "Ready", "ContainersReady", "PodScheduled"}
    await spec.until(lambda: observed().items() >= dict.fromkeys(kinds, 1).items())
    await spec.until(
        lambda: (
            spec.get("pods", "p")["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]
            in ("ErrImagePull", "ImagePullBackOff")
        )
    )
    spec.change("pods", "p", lambda found: found["spec"]["containers"][0].update(image=AGNHOST))
    await spec.until(lambda: observed().items() >= dict.fromkeys(kinds, 2).items())
    await spec.until(spec.running)


async def _negative_grace(spec: Spec) -> None:
    made = agnhost("p", terminationGracePeriodSeconds=-1)
    assert spec.create("pods", made)["spec"]["terminationGracePeriodSeconds"] == 1

    def change(found: Json) -> None:
        found["spec"]["terminationGracePeriodSeconds"] = -1

    assert spec.change("pods", "p", change)["spec"]["terminationGracePeriodSeconds"] == 1
    spec.delete("pods", "p")


async def _quality_of_service(spec: Spec) -> None:
    resources = {"cpu": "100m", "memory": "100Mi"}
    made = agnhost("p")
    made["spec"]["containers"][0]["resources"] = {"requests": resources, "limits": resources}
    assert spec.create("pods", made)["status"]["qosClass"] == "Guaranteed"


async def _refusals(spec: Spec) -> None:
    cases: list[tuple[str, Json, str]] = [
        ("a", {"hostNetwork": True, "hostnameOverride": "x"}, "hostnameOverride"),
        ("b", {"hostnameOverride": "Not_RFC.1123-"}, "hostnameOverride"),
        ("c", {"setHostnameAsFQDN": True, "hostnameOverride": "x"}, "hostnameOverride"),
    ]
    for name, given, field in cases:
        assert field in spec.refused("pods", agnhost(name, **given))
    sysctls = [
        {"name": "foo-", "value": "bar"},
        {"name": "kernel.shmmax", "value": "100000000"},
        {"name": "safe-and-unsafe", "value": "100000000"},
        {"name": "bar..", "value": "42"},
    ]
    text = spec.refused("pods", agnhost("s", securityContext={"sysctls": sysctls}))
    assert 'Invalid value: "foo-"' in text
    assert 'Invalid value: "bar.."' in text
    assert "safe-and-unsafe" not in text
    assert "kernel.shmmax" not in text


async def _is_talked_about(spec: Spec) -> None:
    await up(spec, pod("p"))
    spec.delete("pods", "p")
    await spec.until(lambda: not spec.exists("pods", "p"))
    await spec.sleep(1)
    assert spec.events("p") == ["Scheduled", "Pulled", "Created", "Started", "Killing"]
    made = pod("q")
    made["spec"]["containers"][0]["image"] = "example.com/nonexistent:1"
    spec.create("pods", made)
    await spec.until(lambda: spec.events("q") == ["Scheduled", "Failed"])
    crashing = pod("r")
    crashing["spec"]["containers"][0]["command"] = ["false"]
    spec.create("pods", crashing)
    await spec.until(lambda: "BackOff" in spec.events("r"))


# Runtime classes


async def _runtime_classes(spec: Spec) -> None:
    missing = pod("p", runtimeClassName="absent", automountServiceAccountToken=False)
    assert "RuntimeClass" in spec.refused("pods", missing, 403)
    name = f"{spec.namespace}-plain"
    spec.create("runtimeclasses", {"metadata": {"name": name}, "handler": "test-handler"})
    held = spec.create("pods", pod("plain", runtimeClassName=name))
    assert not held["spec"].get("overhead")
    await spec.until(lambda: spec.get("pods", "plain")["spec"].get("nodeName"))
    spec.delete("runtimeclasses", name)
    assert "RuntimeClass" in spec.refused("pods", pod("late", runtimeClassName=name), 403)
    costly = f"{spec.namespace}-costly"
    fixed = {"cpu": "10m", "memory": "1Mi"}
    made = {"metadata": {"name": costly}, "handler": "h", "overhead": {"podFixed": fixed}}
    spec.create("runtimeclasses", made)
    held = spec.create("pods", pod("costly", runtimeClassName=costly))
    assert held["spec"]["overhead"] == fixed
    await spec.until(lambda: spec.get("pods", "costly")["spec"].get("nodeName"))


async def _runtime_classes_place(spec: Spec) -> None:
    foo, fizz = f"foo-{spec.namespace}", f"fizz-{spec.namespace}"
    selector = {foo: "bar", fizz: "buzz"}
    spec.change("nodes", "node-1", lambda node: node["metadata"]["labels"].update(selector))
    toleration = {"key": foo, "operator": "Equal", "value": "bar", "effect": "NoSchedule"}
    taint = {"key": foo, "value": "bar", "effect": "NoSchedule"}
    spec.change("nodes", "node-1", lambda node: _taint(node, taint))
    name = f"{spec.namespace}-placing"
    scheduling = {"nodeSelector": selector, "tolerations": [toleration]}
    made = {"metadata": {"name": name}, "handler": "h", "scheduling": scheduling}
    spec.create("runtimeclasses", made)
    conflicting = pod("c", runtimeClassName=name, nodeSelector={foo: "conflict"})
    spec.refused("pods", conflicting, 403)
    held = spec.create("pods", pod("p", runtimeClassName=name, nodeSelector={foo: "bar"}))
    assert held["spec"]["nodeSelector"] == selector
    assert toleration in held["spec"]["tolerations"]
    await spec.until(lambda: spec.get("pods", "p")["spec"].get("nodeName") == "node-1")
    spec.change("nodes", "node-1", _untaint)


def _taint(node: Json, taint: Json) -> None:
    node["spec"].setdefault("taints", []).append(taint)


def _untaint(node: Json) -> None:
    node["spec"].pop("taints", None)


async def _runtime_class_api(spec: Spec) -> None:
    labels = {"test": spec.namespace}
    for number in range(3):
        metadata = {"name": f"{spec.namespace}-{number}", "labels": labels}
        spec.create("runtimeclasses", {"metadata": metadata, "handler": "h"})
    assert len(spec.list("runtimeclasses", f"test={spec.namespace}")) == 3
    body = {"metadata": {"annotations": {"patched": "true"}}}
    held = spec.patch("runtimeclasses", f"{spec.namespace}-0", body, kind="merge")
    held["metadata"]["annotations"]["updated"] = "true"
    spec.update("runtimeclasses", held)
    spec.delete("runtimeclasses", f"{spec.namespace}-0")
    spec.delete_all("runtimeclasses", f"test={spec.namespace}")
    assert not spec.list("runtimeclasses", f"test={spec.namespace}")


# Nodes


async def _life_of_a_node(spec: Spec) -> None:
    ready = {"type": "Ready", "status": "True", "reason": "E2E", "message": "Set from e2e test"}
    status = {"phase": "Running", "conditions": [ready]}
    spec.create("nodes", {"metadata": {"name": "e2e-fake-node"}, "status": status})
    body = {"metadata": {"labels": {"e2e-fake-node": "patched"}}}
    spec.patch("nodes", "e2e-fake-node", body)
    assert len(spec.list("nodes", "e2e-fake-node=patched")) == 1
    updated = {"e2e-fake-node": "updated"}
    spec.change("nodes", "e2e-fake-node", lambda node: node["metadata"]["labels"].update(updated))
    spec.delete("nodes", "e2e-fake-node")
    await spec.until(lambda: not spec.exists("nodes", "e2e-fake-node"))


async def _leases_of_nodes(spec: Spec) -> None:
    home = Spec(spec.service, spec.clock, "kube-node-lease")
    lease = home.get("leases", "node-0")
    assert lease["metadata"]["ownerReferences"][0]["name"] == "node-0"
    assert lease["spec"]["holderIdentity"] == "node-0"
    assert lease["spec"]["leaseDurationSeconds"] == 40
    before = lease["spec"]["renewTime"]
    await spec.until(lambda: home.get("leases", "node-0")["spec"]["renewTime"] > before, 15)


async def _says_again_what_it_is(spec: Spec) -> None:
    """A client in Go that patches a status sends everything that it leaves empty."""
    resources = {"example.com/fake": "5"}
    empty = dict.fromkeys(("machineID", "kubeletVersion", "osImage", "operatingSystem"), "")
    body = {"status": {"capacity": resources, "allocatable": resources, "nodeInfo": empty}}
    spec.patch("nodes", "node-1", body, "status")
    held = await spec.until(
        lambda: (
            spec.get("nodes", "node-1")["status"]
            if spec.get("nodes", "node-1")["status"]["nodeInfo"]["kubeletVersion"]
            else None
        )
    )
    assert held["nodeInfo"]["kubeletVersion"].startswith("v1.36")
    assert held["capacity"]["example.com/fake"] == "5"


EVICTION = {"key": "kubernetes.io/e2e-evict-taint-key", "value": "evictTaintVal"}


def _tolerating(name: str, seconds: int, node: str) -> Json:
    toleration = {**EVICTION, "effect": "NoExecute", "tolerationSeconds": seconds}
    selector = {"kubernetes.io/hostname": node}
    return agnhost(name, tolerations=[toleration], nodeSelector=selector)


async def _taints_evict_in_time(spec: Spec) -> None:
    await up(spec, _tolerating("first", 5, "node-1"))
    await up(spec, _tolerating("second", 30, "node-1"))
    await up(spec, _tolerating("saved", 60, "node-1"))
    intolerant = agnhost("intolerant", nodeSelector={"kubernetes.io/hostname": "node-1"})
    intolerant["metadata"]["finalizers"] = ["example.com/test-finalizer"]
    await up(spec, intolerant)
    spec.change("nodes", "node-1", lambda node: _taint(node, {**EVICTION, "effect": "NoExecute"}))
    await spec.until(lambda: "deletionTimestamp" in spec.get("pods", "intolerant")["metadata"], 3)
    assert condition_of(spec.get("pods", "intolerant"), "DisruptionTarget") == "True"
    spec.patch("pods", "intolerant", {"metadata": {"finalizers": None}}, kind="merge")
    await spec.until(lambda: not spec.exists("pods", "first"), 10)
    assert spec.exists("pods", "second")
    await spec.until(lambda: not spec.exists("pods", "second"), 40)
    assert spec.exists("pods", "saved")
    spec.change("nodes", "node-1", _untaint)
    await spec.always(lambda: spec.exists("pods", "saved"), 60)


SCENARIOS: dict[str, SpecSteps] = {
    "config maps": _config_maps,
    "secrets": _secrets,
    "immutable config maps": _immutable("configmaps", "value-1", "value-4"),
    "immutable secrets": _immutable("secrets", "dmFsdWUtMQ==", "dmFsdWUtNA=="),
    "leases": _leases,
    "pod templates": _pod_templates,
    "a pod is submitted and removed": _is_submitted_and_removed,
    "a pod is updated": _is_updated,
    "a pod gets a deadline": _gets_a_deadline,
    "pods go together": _goes_with_others,
    "a pod has the address of its node": _has_a_host,
    "a pod's status is patched": _status_is_patched,
    "the life of a pod": _lives,
    "a pod has readiness gates": _has_gates,
    "a pod's generation counts updates": _generations,
    "a pod's generation counts its deletion": _generation_of_a_deletion,
    "a pod's conditions say what they are about": _observed_in_conditions,
    "a pod's grace period is never negative": _negative_grace,
    "a pod has a quality of service": _quality_of_service,
    "a pod's events": _is_talked_about,
    "pods are refused": _refusals,
    "runtime classes are looked up": _runtime_classes,
    "runtime classes place pods": _runtime_classes_place,
    "runtime classes are managed": _runtime_class_api,
    "the life of a node": _life_of_a_node,
    "nodes renew their leases": _leases_of_nodes,
    "a node says again what it is": _says_again_what_it_is,
}
TAINTS: dict[str, SpecSteps] = {"taints evict in time": _taints_evict_in_time}


@cache
def played() -> dict[str, BaseException | None]:
    return play(SCENARIOS) | play(TAINTS)  # which would evict the others' pods


@pytest.mark.parametrize("scenario", [*SCENARIOS, *TAINTS])
def test_pods_and_nodes(scenario: str) -> None:
    if (error := played()[scenario]) is not None:
        raise error
