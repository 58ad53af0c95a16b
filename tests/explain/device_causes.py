"""Pods that wait for devices: the text counts the devices that the request admits, and no other."""

from __future__ import annotations

from typing import Any

from kubesched.api import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from kubesched.testing import make_pod
from tests.explain.causes import Cause, device_claim, nodes, parsed, waiting


def class_of(name: str, *expressions: str) -> DeviceClass:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    made: DeviceClass = parsed(
        DeviceClass, {"metadata": {"name": name}, "spec": {"selectors": selectors}}
    )
    return made


def devices(
    node: str, driver: str, count: int, *, pool: str = "", **attributes: str
) -> ResourceSlice:
    made: ResourceSlice = parsed(
        ResourceSlice,
        {
            "metadata": {"name": f"{driver}-{pool or node}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": pool or node, "generation": 1, "resourceSliceCount": 1},
                "devices": [
                    {
                        "name": f"d-{number}",
                        "attributes": {key: {"string": text} for key, text in attributes.items()},
                    }
                    for number in range(count)
                ],
            },
        },
    )
    return made


def claim(
    name: str, device_class: str, *expressions: str, count: int = 1, **more: Any
) -> ResourceClaim:
    request = {
        "name": "r",
        "exactly": {
            "deviceClassName": device_class,
            "allocationMode": "ExactCount",
            "count": count,
            "selectors": [{"cel": {"expression": each}} for each in expressions],
        },
    }
    spec = {"devices": {"requests": [request], **more}}
    metadata = {"name": name, "namespace": "shop", "uid": f"claim-{name}"}
    made: ResourceClaim = parsed(ResourceClaim, {"metadata": metadata, "spec": spec})
    return made


def holding(name: str, driver: str, node: str, *names: str) -> ResourceClaim:
    """A claim that has these devices."""
    results = [{"request": "r", "driver": driver, "pool": node, "device": each} for each in names]
    document: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "shop", "uid": f"claim-{name}"},
        "spec": {"devices": {"requests": []}},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    made: ResourceClaim = parsed(ResourceClaim, document)
    return made


def template(name: str) -> ResourceClaimTemplate:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}
    made: ResourceClaimTemplate = parsed(
        ResourceClaimTemplate,
        {
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
    )
    return made


GPU = class_of("gpu", 'device.driver == "gpu.example.com"')
NIC = class_of("nic", 'device.driver == "nic.example.com"')
MODEL = 'device.attributes["gpu.example.com"].model == "{}"'
WANTS = waiting(resource_claims={"gpu": "gpu"})
from_template = {"name": "gpu", "resourceClaimTemplateName": "one-gpus"}

DEVICES: dict[str, Cause] = {
    "devices of another driver are not counted": Cause(
        [
            *nodes("a", "b"),
            GPU,
            NIC,
            devices("a", "gpu.example.com", 2, model="a100"),
            devices("b", "gpu.example.com", 3, model="a100"),
            devices("a", "nic.example.com", 40),
            devices("b", "nic.example.com", 40),
            holding("other", "gpu.example.com", "b", "d-0", "d-1"),
            claim("gpu", "gpu", count=4),
        ],
        WANTS,
        ("asks for 4 x gpu", "5 devices, 2 in use", "most free: 2 on a"),
        ("ask for 2 devices instead of 4",),
    ),
    "a selector that no device matches": Cause(
        [
            *nodes("a"),
            GPU,
            NIC,
            devices("a", "gpu.example.com", 3, model="a100"),
            devices("a", "gpu.example.com", 1, pool="a-small", model="t4"),
            devices("a", "nic.example.com", 8),
            claim("gpu", "gpu", MODEL.format("A-100")),
        ],
        WANTS,
        (
            'selector `device.attributes["gpu.example.com"].model == "A-100"` excludes all '
            "4 devices of class gpu",
            "their model is a100 (3), t4 (1)",
            'ask for model "a100" instead of "A-100"',
        ),
        ('ask for model "a100"', 'ask for model "t4"', "drop selector"),
    ),
    "a selector that no free device matches": Cause(
        [
            *nodes("a"),
            GPU,
            devices("a", "gpu.example.com", 2, model="a100"),
            devices("a", "gpu.example.com", 3, pool="a-small", model="t4"),
            holding("other", "gpu.example.com", "a", "d-0", "d-1"),
            claim("gpu", "gpu", MODEL.format("a100")),
        ],
        WANTS,
        ("2 devices, 2 in use", 'model == "a100"` excludes 3 more'),
        ('ask for model "t4" instead of "a100"', "drop selector"),
    ),
    "two selectors, of which each excludes some": Cause(
        [
            *nodes("a"),
            GPU,
            devices("a", "gpu.example.com", 2, model="a100", vendor="x"),
            devices("a", "gpu.example.com", 3, pool="a-small", model="t4", vendor="y"),
            claim(
                "gpu",
                "gpu",
                MODEL.format("a100"),
                'device.attributes["gpu.example.com"].vendor == "y"',
            ),
        ],
        WANTS,
        ("its selectors exclude all 5 devices", "excludes 3 (their model", "excludes 2 (their"),
        ("drop selector",),
    ),
    "a class that admits no device": Cause(
        [
            *nodes("a"),
            class_of("gpu", 'device.driver == "gpus.example.com"'),
            devices("a", "gpu.example.com", 2),
            claim("gpu", "gpu"),
        ],
        WANTS,
        ("none of the 2 devices is of class gpu", "gpu.example.com (2)"),
    ),
    "devices that do not match each other": Cause(
        [
            *nodes("a"),
            GPU,
            devices("a", "gpu.example.com", 1, rack="r1"),
            devices("a", "gpu.example.com", 1, pool="a-2", rack="r2"),
            claim(
                "gpu",
                "gpu",
                count=2,
                constraints=[{"requests": [], "matchAttribute": "gpu.example.com/rack"}],
            ),
        ],
        WANTS,
        ("no node has that free together", "constraints compare gpu.example.com/rack"),
        ("ask for 1 device instead of 2",),
    ),
    "a claim template that does not exist": Cause(
        [*nodes("a"), GPU, template("one-gpu")],
        parsed(
            type(make_pod("web")),
            {
                "metadata": {"name": "web", "namespace": "shop", "uid": "web"},
                "spec": {"containers": [{"name": "c"}], "resourceClaims": [from_template]},
                "status": {"phase": "Pending"},
            },
        ),
        (
            "ResourceClaimTemplate one-gpus of its device claim gpu does not exist in namespace "
            "shop; did you mean one-gpu?",
            "Create ResourceClaimTemplate shop/one-gpus",
        ),
    ),
    "a device of each of two classes": Cause(
        [
            *nodes("a"),
            GPU,
            NIC,
            devices("a", "gpu.example.com", 2),
            parsed(
                ResourceClaim,
                {
                    "metadata": {"name": "gpu", "namespace": "shop", "uid": "claim-gpu"},
                    "spec": {
                        "devices": {
                            "requests": [
                                {
                                    "name": one,
                                    "exactly": {
                                        "deviceClassName": one,
                                        "allocationMode": "ExactCount",
                                        "count": 1,
                                    },
                                }
                                for one in ("gpu", "nic")
                            ]
                        }
                    },
                },
            ),
        ],
        WANTS,
        ("for request nic none of the 2 devices is of class nic",),
    ),
    "no devices at all": Cause(
        [*nodes("a"), GPU, device_claim("gpu", "gpu")],
        WANTS,
        ("no node offers any device",),
    ),
    "a pool that is not complete": Cause(
        [
            *nodes("a"),
            GPU,
            parsed(
                ResourceSlice,
                {
                    "metadata": {"name": "half"},
                    "spec": {
                        "driver": "gpu.example.com",
                        "nodeName": "a",
                        "pool": {"name": "a", "generation": 2, "resourceSliceCount": 2},
                        "devices": [{"name": "d-0"}],
                    },
                },
            ),
            claim("gpu", "gpu"),
        ],
        WANTS,
        ("pool a is incomplete: slices are missing",),
    ),
}
