"""Specs of quotas and of the objects that they count."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from kubesched.api.quantity import parse_quantity
from tests.cluster.specs.definitions import define
from tests.cluster.specs.spec_runner import Json, RefusedError, Spec, SpecSteps, play, pod

UNSCHEDULABLE = {"x-test.k8s.io/unsatisfiable": "not-schedulable"}
DONGLE = "example.com/dongle"
GOLD = "gold.storageclass.storage.k8s.io"
HARD = {
    "pods": "5",
    "services": "10",
    "services.nodeports": "1",
    "services.loadbalancers": "1",
    "replicationcontrollers": "10",
    "resourcequotas": "1",
    "cpu": "1",
    "memory": "500Mi",
    "configmaps": "10",
    "secrets": "10",
    "persistentvolumeclaims": "10",
    "requests.storage": "10Gi",
    "ephemeral-storage": "50Gi",
    f"{GOLD}/persistentvolumeclaims": "10",
    f"{GOLD}/requests.storage": "10Gi",
    "count/replicasets.apps": "5",
    f"requests.{DONGLE}": "3",
}
REQUESTS = {"cpu": "500m", "memory": "200Mi"}
LIMITS = {"cpu": "1", "memory": "400Mi"}
IN_USE = {
    "pods": "1",
    "requests.cpu": "500m",
    "requests.memory": "200Mi",
    "limits.cpu": "1",
    "limits.memory": "400Mi",
}
UNUSED = dict.fromkeys(IN_USE, "0")


def quota(spec: Spec, name: str = "test-quota", **wanted: Any) -> None:
    spec.create("resourcequotas", {"metadata": {"name": name}, "spec": {"hard": HARD, **wanted}})


def scoped(
    spec: Spec, name: str, scope: str, hard: Json, operator: str = "Exists", *values: str
) -> None:
    required: Json = {"scopeName": scope, "operator": operator}
    if values:
        required["values"] = list(values)
    quota(spec, name, hard=hard, scopeSelector={"matchExpressions": [required]})


def used(spec: Spec, amounts: Json, name: str = "test-quota") -> bool:
    """Whether a quota's status has this usage, as the suite compares it."""
    status = spec.get("resourcequotas", name).get("status", {}).get("used", {})
    return all(
        key in status and parse_quantity(status[key]) == parse_quantity(amount)
        for key, amount in amounts.items()
    )


def asking(name: str, requests: Json, limits: Json, **more: Any) -> Json:
    resources = {"requests": requests, "limits": limits}
    container = {"name": "pause", "image": "registry.k8s.io/pause:3.10", "resources": resources}
    return pod(name, containers=[container], nodeSelector=UNSCHEDULABLE, **more)


def claim(name: str, **more: Any) -> Json:
    wanted = {
        "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        **more,
    }
    return {"metadata": {"name": name}, "spec": wanted}


async def life(spec: Spec, plural: str, body: Json, key: str, count: int = 0, **more: str) -> None:
    """An object is created and deleted, and the quota counts it."""
    before = {"resourcequotas": "1", key: str(count), **dict.fromkeys(more, "0")}
    await spec.until(lambda: used(spec, before))
    spec.create(plural, body)
    await spec.until(lambda: used(spec, {key: str(count + 1), **more}))
    spec.delete(plural, body["metadata"]["name"], propagationPolicy="Background")
    await spec.until(lambda: used(spec, before))


async def _services(spec: Spec) -> None:
    quota(spec)
    await spec.until(lambda: used(spec, {"resourcequotas": "1"}))

    def service(name: str, kind: str, **more: Any) -> Json:
        ports = [{"port": 80, "targetPort": 80}]
        return {"metadata": {"name": name}, "spec": {"type": kind, "ports": ports, **more}}

    spec.create("services", service("test-service", "ClusterIP"))
    spec.create("services", service("test-service-np", "NodePort"))
    spec.refused("services", service("lb", "LoadBalancer", allocateLoadBalancerNodePorts=True), 403)
    await spec.until(lambda: used(spec, {"services": "2", "services.nodeports": "1"}))
    spec.delete("services", "test-service")
    spec.delete("services", "test-service-np")
    await spec.until(lambda: used(spec, {"services": "0", "services.nodeports": "0"}))


async def _counted(spec: Spec) -> None:
    """Secrets, config maps, controllers and sets."""
    for plural, body in (
        ("secrets", {"metadata": {"name": "s"}, "data": {"data-1": "dmFsdWUtMQo="}}),
        ("configmaps", {"metadata": {"name": "c"}, "data": {"a": "b"}}),
    ):
        count = len(spec.list(plural))
        quota(spec, hard={**HARD, plural: str(count + 1)})
        await life(spec, plural, body, plural, count)
        spec.delete("resourcequotas", "test-quota")
    quota(spec)
    template = {
        "metadata": {"labels": {"name": "x"}},
        "spec": {"containers": [{"name": "x", "image": "nginx"}]},
    }
    controller = {"replicas": 0, "selector": {"name": "x"}, "template": template}
    body = {"metadata": {"name": "test-rc"}, "spec": controller}
    await life(spec, "replicationcontrollers", body, "replicationcontrollers")
    body = {
        "metadata": {"name": "test-rs"},
        "spec": {**controller, "selector": {"matchLabels": {"name": "x"}}},
    }
    await life(spec, "replicasets", body, "count/replicasets.apps")


async def _pods(spec: Spec) -> None:
    quota(spec)
    amounts = {"cpu": "500m", "memory": "252Mi", "ephemeral-storage": "30Gi", DONGLE: "2"}
    made = spec.create("pods", asking("test-pod", amounts, {DONGLE: "2"}))
    held = {"pods": "1", **amounts, f"requests.{DONGLE}": "2"}
    del held[DONGLE]
    await spec.until(lambda: used(spec, held))
    spec.refused("pods", asking("fail-pod", {"cpu": "600m", "memory": "100Mi"}, {}), 403)
    amounts["memory"] = "100Mi"
    spec.refused("pods", asking("fail-too", amounts, {DONGLE: "2"}), 403)
    fewer = {"cpu": "100m", "memory": "100Mi", "ephemeral-storage": "10Gi"}
    made["spec"]["containers"][0]["resources"]["requests"] = fewer
    with pytest.raises(RefusedError):
        spec.update("pods", made)
    assert used(spec, held)
    spec.delete("pods", "test-pod", gracePeriodSeconds=0)
    await spec.until(lambda: used(spec, dict.fromkeys(held, "0")))


async def _claims(spec: Spec) -> None:
    quota(spec)
    key = "persistentvolumeclaims"
    await life(spec, key, claim("test-claim"), key, **{"requests.storage": "1Gi"})
    storage = {
        "requests.storage": "1Gi",
        f"{GOLD}/persistentvolumeclaims": "1",
        f"{GOLD}/requests.storage": "1Gi",
    }
    await life(spec, key, claim("gold-claim", storageClassName="gold"), key, **storage)


async def _devices(spec: Spec) -> None:
    devices = "gold.deviceclass.resource.k8s.io/devices"
    key = "count/resourceclaims.resource.k8s.io"
    quota(spec, hard={**HARD, key: "1", devices: "1"})
    requests = [{"name": "req-0", "exactly": {"deviceClassName": "gold"}}]
    body = {"metadata": {"name": "test-claim"}, "spec": {"devices": {"requests": requests}}}
    await life(spec, "resourceclaims", body, key, **{devices: "1"})


async def _custom_resources(spec: Spec) -> None:
    defined = define(spec)
    key = f"count/{defined.plural}.{defined.group}"
    quota(spec, "quota-for-it", hard={key: "0"})
    await spec.until(lambda: used(spec, {key: "0"}, "quota-for-it"))
    spec.delete("resourcequotas", "quota-for-it")
    quota(spec, hard={**HARD, key: "1"})
    await spec.until(lambda: used(spec, {key: "0"}))
    defined.create("test-cr-1")
    await spec.until(lambda: used(spec, {key: "1"}))
    with pytest.raises(RefusedError):
        defined.create("test-cr-2")
    defined.delete("test-cr-1")
    await spec.until(lambda: used(spec, {key: "0"}))


async def _terminating(spec: Spec) -> None:
    hard = {"requests.cpu": "1", "requests.memory": "500Mi"}
    hard |= {"pods": "5", "limits.cpu": "2", "limits.memory": "1Gi"}
    quota(spec, "terminating", hard=hard, scopes=["Terminating"])
    quota(spec, "not-terminating", hard=hard, scopes=["NotTerminating"])
    for name, deadline, mine, other in (
        ("test-pod", {}, "not-terminating", "terminating"),
        ("terminating-pod", {"activeDeadlineSeconds": 3600}, "terminating", "not-terminating"),
    ):
        await spec.until(lambda q=mine: used(spec, UNUSED, q))
        spec.create("pods", asking(name, REQUESTS, LIMITS, **deadline))
        await spec.until(lambda q=mine: used(spec, IN_USE, q))
        assert used(spec, UNUSED, other)
        spec.delete("pods", name, gracePeriodSeconds=0)
        await spec.until(lambda q=mine: used(spec, UNUSED, q))


async def _terminating_by_selectors(spec: Spec) -> None:
    hard = {"requests.cpu": "1", "requests.memory": "500Mi"}
    hard |= {"pods": "1", "limits.cpu": "2", "limits.memory": "1Gi"}
    scoped(spec, "terminating", "Terminating", hard)
    scoped(spec, "not-terminating", "NotTerminating", hard)
    second = asking("terminating-pod", REQUESTS, LIMITS, activeDeadlineSeconds=3600)
    spec.create("pods", asking("test-pod", REQUESTS, LIMITS))
    await spec.until(lambda: used(spec, IN_USE, "not-terminating"))
    assert used(spec, UNUSED, "terminating")
    spec.change("pods", "test-pod", lambda it: it["spec"].update(activeDeadlineSeconds=3600))
    spec.refused("pods", second, 403)
    await spec.until(lambda: used(spec, IN_USE, "terminating"))
    await spec.until(lambda: used(spec, UNUSED, "not-terminating"))
    spec.delete("pods", "test-pod", gracePeriodSeconds=0)
    await spec.until(lambda: used(spec, UNUSED, "terminating"))
    spec.create("pods", second)
    await spec.until(lambda: used(spec, IN_USE, "terminating"))


async def _best_effort(spec: Spec) -> None:
    scoped(spec, "selected", "BestEffort", {"pods": "5"})
    scoped(spec, "selected-not", "NotBestEffort", {"pods": "5"})
    quota(spec, "listed", hard={"pods": "5"}, scopes=["BestEffort"])
    quota(spec, "listed-not", hard={"pods": "5"}, scopes=["NotBestEffort"])
    for made, counting, other in (
        (asking("best-effort", {}, {}), "", "-not"),
        (asking("burstable-pod", REQUESTS, LIMITS), "-not", ""),
    ):
        spec.create("pods", made)
        for way in ("selected", "listed"):
            await spec.until(lambda q=way + counting: used(spec, {"pods": "1"}, q))
            assert used(spec, {"pods": "0"}, way + other)
        spec.delete("pods", made["metadata"]["name"], gracePeriodSeconds=0)
        await spec.until(lambda c=counting: used(spec, {"pods": "0"}, f"selected{c}"))


async def _across_namespaces(spec: Spec) -> None:
    scoped(spec, "crossing", "CrossNamespacePodAffinity", {"pods": "5"})

    def near(name: str, **term: Any) -> Json:
        required = [{"topologyKey": "region", **term}]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
        return pod(name, affinity=affinity, nodeSelector=UNSCHEDULABLE)

    spec.create("pods", near("no-cross-namespace-affinity"))
    assert used(spec, {"pods": "0"}, "crossing")
    spec.create("pods", near("with-namespaces", namespaces=["ns1"]))
    await spec.until(lambda: used(spec, {"pods": "1"}, "crossing"))
    selector = {"matchLabels": {"team": "a"}}
    spec.create("pods", near("with-namespace-selector", namespaceSelector=selector))
    await spec.until(lambda: used(spec, {"pods": "2"}, "crossing"))
    spec.delete("pods", "with-namespaces", gracePeriodSeconds=0)
    spec.delete("pods", "with-namespace-selector", gracePeriodSeconds=0)
    await spec.until(lambda: used(spec, {"pods": "0"}, "crossing"))


async def _priorities(spec: Spec) -> None:
    names = [f"{spec.namespace}-{letter}" for letter in "abc"]
    for name in names:
        spec.create("priorityclasses", {"metadata": {"name": name}, "value": 1000})
    one, two, three = names
    scoped(spec, "one", "PriorityClass", {"pods": "1"}, "In", one)
    scoped(spec, "several", "PriorityClass", {"pods": "2"}, "In", one, two)
    scoped(spec, "others", "PriorityClass", {"pods": "1"}, "NotIn", one)
    scoped(spec, "any", "PriorityClass", {"pods": "3"}, "Exists")

    def ranked(name: str, priority: str) -> Json:
        return asking(name, {}, {}, priorityClassName=priority)

    spec.create("pods", ranked("first", one))
    await spec.until(lambda: used(spec, {"pods": "1"}, "one"))
    assert used(spec, {"pods": "0"}, "others")
    spec.refused("pods", ranked("second", one), 403)
    spec.create("pods", ranked("third", two))
    await spec.until(lambda: used(spec, {"pods": "2"}, "several"))
    assert used(spec, {"pods": "1"}, "others")
    assert used(spec, {"pods": "2"}, "any")
    spec.refused("pods", ranked("fourth", three), 403)
    for name in ("first", "third"):
        spec.delete("pods", name, gracePeriodSeconds=0)
    for name in ("one", "several", "others", "any"):
        await spec.until(lambda q=name: used(spec, {"pods": "0"}, q))


async def _priorities_and_resources(spec: Spec) -> None:
    name = f"{spec.namespace}-p"
    spec.create("priorityclasses", {"metadata": {"name": name}, "value": 1000})
    hard = {"requests.cpu": "1", "requests.memory": "1Gi", "limits.cpu": "3"}
    hard |= {"pods": "1", "limits.memory": "3Gi"}
    scoped(spec, "one", "PriorityClass", hard, "In", name)
    requests, limits = {"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}
    spec.create("pods", asking("p", requests, limits, priorityClassName=name))
    held = {"pods": "1", "requests.cpu": "1", "requests.memory": "1Gi"}
    held |= {"limits.cpu": "2", "limits.memory": "2Gi"}
    await spec.until(lambda: used(spec, held, "one"))
    spec.delete("pods", "p", gracePeriodSeconds=0)
    await spec.until(lambda: used(spec, dict.fromkeys(held, "0"), "one"))


STORAGE = {"requests.storage": "5Gi", "persistentvolumeclaims": "1"}
ONE_CLAIM = {"requests.storage": "1Gi", "persistentvolumeclaims": "1"}
NO_CLAIM = dict.fromkeys(ONE_CLAIM, "0")


async def _same_attributes(spec: Spec) -> None:
    scoped(spec, "gold", "VolumeAttributesClass", STORAGE, "In", "gold")
    classes = {"storageClassName": "", "volumeAttributesClassName": "gold"}
    spec.create("persistentvolumeclaims", claim("test-claim-1", **classes))
    await spec.until(lambda: used(spec, ONE_CLAIM, "gold"))
    spec.refused("persistentvolumeclaims", claim("test-claim-2", **classes), 403)
    spec.delete("persistentvolumeclaims", "test-claim-1")
    await spec.until(lambda: used(spec, NO_CLAIM, "gold"))


async def _other_attributes(spec: Spec) -> None:
    """A claim counts with its request, and with its capacity if that is larger."""
    for name in ("gold", "silver"):
        scoped(spec, name, "VolumeAttributesClass", STORAGE, "In", name)
    volume = f"quota-fake-volume-{spec.namespace}"
    label = {"x-test.k8s.io/satisfiable": spec.namespace}
    body = claim(
        "test-claim",
        accessModes=["ReadWriteOnce"],
        storageClassName="",
        volumeAttributesClassName="gold",
        selector={"matchLabels": label},
        volumeName=volume,
    )
    spec.create("persistentvolumeclaims", body)
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "test-claim"}
    wanted = {
        "volumeAttributesClassName": "gold",
        "persistentVolumeReclaimPolicy": "Delete",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "csi": {"driver": "fake.csi.k8s.io", "volumeHandle": "volume-handle"},
        "claimRef": {**reference, "namespace": spec.namespace},
    }
    metadata = {"name": volume, "labels": label}
    spec.create("persistentvolumes", {"metadata": metadata, "spec": wanted})

    def held() -> Json:
        return spec.get("persistentvolumeclaims", "test-claim")

    await spec.until(lambda: held()["status"].get("phase") == "Bound")
    await spec.until(lambda: used(spec, ONE_CLAIM, "gold"))
    silver = {"volumeAttributesClassName": "silver"}
    spec.change("persistentvolumeclaims", "test-claim", lambda it: it["spec"].update(silver))
    await spec.until(lambda: used(spec, ONE_CLAIM, "silver"))
    await spec.until(lambda: used(spec, ONE_CLAIM, "gold"))
    spec.change("persistentvolumes", volume, lambda it: it["spec"].update(silver))
    current = {"currentVolumeAttributesClassName": "silver"}
    spec.change(
        "persistentvolumeclaims", "test-claim", lambda it: it["status"].update(current), "status"
    )
    await spec.until(lambda: used(spec, NO_CLAIM, "gold"))
    assert used(spec, ONE_CLAIM, "silver")
    await spec.always(lambda: used(spec, NO_CLAIM, "gold"), 5)
    spec.delete("persistentvolumes", volume)


async def _is_managed(spec: Spec) -> None:
    hard = {"cpu": "1", "memory": "500Mi"}
    body = {"metadata": {"name": "q", "labels": {"e2e-rq": "q"}}, "spec": {"hard": hard}}
    spec.create("resourcequotas", body)
    assert spec.get("resourcequotas", "q")["spec"]["hard"] == hard
    body["spec"] = {"hard": {"cpu": "2", "memory": "1Gi"}}
    assert spec.update("resourcequotas", body)["spec"] == body["spec"]  # without a version
    assert len(spec.list("resourcequotas", "e2e-rq=q", everywhere=True)) == 1
    patched = spec.patch("resourcequotas", "q", {"spec": {"hard": {"memory": "750Mi"}}})
    assert patched["spec"]["hard"] == {"cpu": "2", "memory": "750Mi"}
    status = {"hard": {"cpu": "3", "memory": "3Gi"}}
    spec.change("resourcequotas", "q", lambda it: it.update(status=status), "status")
    assert spec.get("resourcequotas", "q", "status")["status"]["hard"] == status["hard"]
    spec.delete_all("resourcequotas", "e2e-rq=q")
    assert not spec.exists("resourcequotas", "q")


SCENARIOS: dict[str, SpecSteps] = {
    "services are counted": _services,
    "secrets, config maps, controllers and sets are counted": _counted,
    "pods are counted": _pods,
    "claims are counted": _claims,
    "devices are counted": _devices,
    "custom resources are counted": _custom_resources,
    "pods with a deadline are apart": _terminating,
    "pods get a deadline": _terminating_by_selectors,
    "pods without requests are apart": _best_effort,
    "pods that look into other namespaces are apart": _across_namespaces,
    "priorities are apart": _priorities,
    "priorities have resources": _priorities_and_resources,
    "claims with the same attributes": _same_attributes,
    "claims with changing attributes": _other_attributes,
    "a quota is managed": _is_managed,
}


@cache
def played() -> dict[str, BaseException | None]:
    return play(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_quotas(scenario: str) -> None:
    if (error := played()[scenario]) is not None:
        raise error
