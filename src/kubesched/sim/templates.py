"""Node and pod templates of a scenario, from Kubernetes fields or from short forms."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from kubesched.api import Node, ObjectMeta, Pod
from kubesched.sim.reading import Members, parse_cpu_milli, parse_memory_bytes
from kubesched.sim.scenario import GROUP_LABEL, WORKLOAD_LABEL, NodeGroup
from kubesched.sim.values import Distribution, ScenarioError

__all__ = ["drawn", "named_node", "node_template", "pod_template", "priority_class", "sized"]

T = TypeVar("T")

ZONE_LABEL = "topology.kubernetes.io/zone"
_HOSTNAME = "kubernetes.io/hostname"
_IMAGE = "registry.k8s.io/pause:3.10"


def node_template(members: Members, group: str) -> Node:
    """Build a group's node from `cpu`, `memory`, `pods`, `resources`, `labels` and `taints`."""
    amounts: dict[str, Any] = {"pods": members.raw("pods", 110)}
    for name, parse in (("cpu", parse_cpu_milli), ("memory", parse_memory_bytes)):
        amounts[name] = _quantity(members, name, parse)
    amounts |= members.take("resources", dict, {})
    document = {
        "metadata": {
            "name": group,
            "labels": {**members.take("labels", dict, {}), GROUP_LABEL: group},
            "annotations": members.take("annotations", dict, {}),
        },
        "spec": {"taints": members.take("taints", list, [])},
        "status": {"capacity": amounts, "allocatable": amounts},
    }
    return _converted(document, Node, members.path)


def named_node(group: NodeGroup, number: int) -> Node:
    """Build the node of a group with this number; zones are assigned in turn."""
    template = group.template
    name = f"{group.name}-{number}"
    labels = {**template.metadata.labels, _HOSTNAME: name}
    if group.zones:
        labels[ZONE_LABEL] = group.zones[number % len(group.zones)]
    annotations = dict(template.metadata.annotations)
    metadata = ObjectMeta(name=name, labels=labels, annotations=annotations)
    return msgspec.structs.replace(template, metadata=metadata)


def pod_template(members: Members, workload: str) -> Pod:
    """Build the pod of a workload.

    `template` is a Kubernetes pod template. The short fields are `labels`, `annotations`,
    `resources`, `priority`, `nodeSelector`, `tolerations`, `affinity`,
    `topologySpreadConstraints` and `schedulerName`. CPU and memory come from the workload.
    """
    given = members.members("template")
    metadata = dict(given.take("metadata", dict, {}))
    spec = dict(given.take("spec", dict, {}))
    given.done()
    labels = {**metadata.get("labels", {}), **members.take("labels", dict, {})}
    metadata["labels"] = {**labels, WORKLOAD_LABEL: workload}
    metadata["annotations"] = {
        **metadata.get("annotations", {}),
        **members.take("annotations", dict, {}),
    }
    if members.has("priority"):
        spec["priorityClassName"] = priority_class(members.take("priority", int))
    for name in (
        "priorityClassName",
        "nodeSelector",
        "tolerations",
        "affinity",
        "topologySpreadConstraints",
        "schedulerName",
        "preemptionPolicy",
    ):
        if members.has(name):
            spec[name] = members.raw(name)
    containers = [dict(each) for each in spec.get("containers") or [{}]]
    containers[0] = {"name": "main", "image": _IMAGE, **containers[0]}
    if members.has("resources"):
        wanted = {name: str(each) for name, each in members.take("resources", dict).items()}
        resources = dict(containers[0].get("resources", {}))
        containers[0]["resources"] = {
            **resources,
            "requests": {**resources.get("requests", {}), **wanted},
            "limits": {**resources.get("limits", {}), **wanted},
        }
    spec["containers"] = containers
    if "tolerations" in spec and isinstance(spec["tolerations"], list):
        spec["tolerations"] = [_toleration(each) for each in spec["tolerations"]]
    return _converted({"metadata": metadata, "spec": spec}, Pod, members.path)


def priority_class(value: int) -> str:
    """Return the name of the PriorityClass that a run creates for a priority."""
    return f"priority-{value}" if value >= 0 else f"priority-minus-{-value}"


def sized(pod: Pod, cpu_milli: int | None, memory_bytes: int | None) -> Pod:
    """Return the pod with these requests in its first container."""
    if cpu_milli is None and memory_bytes is None:
        return pod
    first, *rest = pod.spec.containers
    requests = dict(first.resources.requests)
    if cpu_milli is not None:
        requests["cpu"] = f"{cpu_milli}m"
    if memory_bytes is not None:
        requests["memory"] = str(memory_bytes)
    resources = msgspec.structs.replace(first.resources, requests=requests)
    first = msgspec.structs.replace(first, resources=resources)
    return msgspec.structs.replace(
        pod, spec=msgspec.structs.replace(pod.spec, containers=(first, *rest))
    )


def drawn(distribution: Distribution | None, rng: Any) -> int | None:
    return None if distribution is None else distribution.draw(rng)


def _toleration(value: Any) -> Any:
    """Expand a toleration that is only a key: it tolerates any value and effect."""
    return {"key": value, "operator": "Exists"} if isinstance(value, str) else value


def _quantity(members: Members, name: str, parse: Any) -> Any:
    value = members.raw(name)
    if value is None:
        raise ScenarioError(members.at(name), "is missing")
    try:
        parse(value)
    except ScenarioError as error:
        raise ScenarioError(members.at(name), error.text) from error
    return value if isinstance(value, str) else str(value)


def _converted(document: dict[str, Any], kind: type[T], path: str) -> T:
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        at = where.rstrip("`").removeprefix(".").removeprefix("metadata.").removeprefix("spec.")
        raise ScenarioError(f"{path}.{at}" if at else path, text.replace("`", "")) from error
