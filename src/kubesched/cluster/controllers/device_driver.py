"""A stand-in for DRA drivers: it publishes the devices that a node's annotation lists.

The annotation `kubesched.io/devices` is a JSON list. Each entry has a `driver` and a `count`, and
optionally `attributes` (a value that looks like a number, boolean or version becomes one),
`capacity`, and `partitions`: then each device can be allocated whole or in so many parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from kubesched.api import DeviceClass, Node, ResourceSlice
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, Delete, RecordEvent
from kubesched.cluster.controllers.triggers import RelatedChange
from kubesched.cluster.nodes.pod_behavior import PREFIX

__all__ = ["DEVICES", "DEVICE_DRIVER", "MOST_DEVICES", "AnnotatedDevices", "plan_devices"]

Json = dict[str, Any]

DEVICES = PREFIX + "devices"
_PER_SLICE = 64
# Devices of one node, parts included.
MOST_DEVICES = 10_000
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+([-+].*)?", re.ASCII)


# The limits of a ResourceSlice.
_Text = Annotated[str, msgspec.Meta(max_length=64)]
_Texts = Annotated[dict[_Text, _Text], msgspec.Meta(max_length=32)]


class AnnotatedDevices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Devices of a node that are equal: one entry of its annotation."""

    driver: _Text
    count: Annotated[int, msgspec.Meta(ge=0, le=MOST_DEVICES)]
    attributes: _Texts = {}
    capacity: _Texts = {}
    partitions: Annotated[int, msgspec.Meta(ge=0, le=32)] = 0


def plan_devices(
    objects: ObjectIndex, node: Node, _document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Publish a node's devices as slices, with a device class for each driver."""
    text = node.metadata.annotations.get(DEVICES, "")
    published: list[ResourceSlice] = [
        each for each in objects.dependents(node.metadata.uid) if isinstance(each, ResourceSlice)
    ]
    if not text:
        return ActionPlan([Delete(each) for each in published])
    try:
        groups = _read_devices(text)
    except ValueError as exc:
        return ActionPlan([RecordEvent(node, "InvalidDevices", f"{DEVICES}: {exc}", warning=True)])
    wanted = _slices(node, groups)
    if _have_same_devices(published, wanted):
        return ActionPlan()
    generation = 1 + max((each.spec.pool.generation for each in published), default=0)
    actions: list[Action] = [Delete(each) for each in published]
    for each in wanted:
        each["spec"]["pool"]["generation"] = generation
        actions.append(Create(ResourceSlice, each))
    actions += [
        Create(DeviceClass, _class(driver), optional=True)
        for driver in dict.fromkeys(group.driver for group in groups)
        if objects.find(DeviceClass, "", driver) is None
    ]
    return ActionPlan(actions)


def _read_devices(text: str) -> list[AnnotatedDevices]:
    """Read the annotation.

    Raises:
        ValueError: it is invalid, or lists too many devices.
    """
    groups = msgspec.json.decode(text, type=list[AnnotatedDevices])
    count = sum(group.count * (1 + group.partitions) for group in groups)
    if count > MOST_DEVICES:
        raise ValueError(f"{count} devices, at most {MOST_DEVICES} can be published")
    return groups


def _have_same_devices(published: list[ResourceSlice], wanted: list[Json]) -> bool:
    stored = [_comparable(msgspec.to_builtins(each.spec)) for each in published]
    return _sorted(stored) == _sorted([_comparable(each["spec"]) for each in wanted])


def _comparable(spec: Json) -> Json:
    """Return the spec of a slice without its generation."""
    return {**spec, "pool": {k: v for k, v in spec["pool"].items() if k != "generation"}}


def _sorted(specs: list[Json]) -> list[bytes]:
    return sorted(msgspec.json.encode(spec, order="sorted") for spec in specs)


def _slices(node: Node, groups: list[AnnotatedDevices]) -> list[Json]:
    by_driver: dict[str, list[AnnotatedDevices]] = {}
    for group in groups:
        by_driver.setdefault(group.driver, []).append(group)
    slices: list[Json] = []
    for driver, members in by_driver.items():
        devices, counters = _devices(members)
        parts: list[Json] = [
            {"devices": devices[start : start + _PER_SLICE]}
            for start in range(0, len(devices), _PER_SLICE)
        ]
        parts += [
            {"sharedCounters": counters[start : start + 8]} for start in range(0, len(counters), 8)
        ]
        slices += [_slice(node, driver, len(parts), part) for part in parts]
    return slices


def _slice(node: Node, driver: str, count: int, content: Json) -> Json:
    name = node.metadata.name
    owner = {
        "apiVersion": Node.api_version,
        "kind": Node.kind,
        "name": name,
        "uid": node.metadata.uid,
    }
    pool = {"name": name, "generation": 1, "resourceSliceCount": count}
    return {
        "metadata": {"generateName": f"{name}-{driver}-", "ownerReferences": [owner]},
        "spec": {"driver": driver, "pool": pool, "nodeName": name, **content},
    }


def _devices(groups: list[AnnotatedDevices]) -> tuple[list[Json], list[Json]]:
    """Return the devices of a driver, and the counters that the parts of a device share."""
    devices: list[Json] = []
    counters: list[Json] = []
    number = 0
    for group in groups:
        short = group.driver.partition(".")[0]
        for _ in range(group.count):
            name = f"{short}-{number}"
            attributes = {
                "index": {"int": number},
                **{key: _attribute(value) for key, value in group.attributes.items()},
            }
            device: Json = {"name": name, "attributes": attributes}
            if group.capacity:
                device["capacity"] = {k: {"value": v} for k, v in group.capacity.items()}
            devices.append(device)
            if group.partitions:
                whole = {"parts": {"value": str(group.partitions)}}
                counters.append({"name": name, "counters": whole})
                device["consumesCounters"] = [{"counterSet": name, "counters": whole}]
                attributes["partition"] = {"bool": False}
                devices += _parts(name, attributes, group.partitions)
            number += 1
    return devices, counters


def _parts(name: str, attributes: Json, count: int) -> list[Json]:
    one = {"parts": {"value": "1"}}
    return [
        {
            "name": f"{name}-part-{part}",
            "attributes": {**attributes, "partition": {"bool": True}},
            "consumesCounters": [{"counterSet": name, "counters": one}],
        }
        for part in range(count)
    ]


def _attribute(text: str) -> Json:
    if text in ("true", "false"):
        return {"bool": text == "true"}
    if text.removeprefix("-").isdecimal():
        return {"int": int(text)}
    if _VERSION.fullmatch(text):
        return {"version": text}
    return {"string": text}


def _class(driver: str) -> Json:
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {"metadata": {"name": driver}, "spec": {"selectors": [selector]}}


def _node_of_deleted_slice(
    objects: ObjectIndex, subject: ResourceSlice, _before: ResourceSlice | None, gone: bool
) -> tuple[str, ...]:
    node = objects.find(Node, "", subject.spec.node_name or "") if gone else None
    return () if node is None else (node.metadata.uid,)


# The node controller declares which changes of a node trigger its plans.
DEVICE_DRIVER = Controller(
    "device-driver",
    Node,
    plan_devices,
    triggers=(RelatedChange(ResourceSlice, Node, _node_of_deleted_slice),),
)
