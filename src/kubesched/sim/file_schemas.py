"""JSON Schemas of scenario, placement-test and tuning files, for editors and the documentation.

The readers in `scenario_file`, `checks` and `tuning` validate files, and report errors with lines.
A schema describes the same fields with their defaults, so that an editor can complete them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

__all__ = ["FILE_SCHEMAS", "placement_test_schema", "scenario_schema", "tuning_schema"]

Json = dict[str, Any]

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))+$"
_RATE_PATTERN: Final = r"^[0-9.e+-]+/(ms|s|m|h|d|w)$"


def _ref(name: str, description: str = "", default: Any = None) -> Json:
    found: Json = {"$ref": f"#/$defs/{name}"}
    return _described(found, description, default)


def _described(schema: Json, description: str, default: Any = None) -> Json:
    if description:
        schema = {**schema, "description": description}
    return schema if default is None else {**schema, "default": default}


def _of(kind: str, description: str, default: Any = None) -> Json:
    return _described({"type": kind}, description, default)


def _list(items: Json, description: str) -> Json:
    return {"type": "array", "items": items, "description": description}


def _texts(description: str) -> Json:
    """Return the schema of a list of strings; a single string stands for a list of one."""
    text = {"type": "string"}
    return {"anyOf": [text, {"type": "array", "items": text}], "description": description}


def _mapping(fields: Mapping[str, Json], required: tuple[str, ...] = ()) -> Json:
    found: Json = {"type": "object", "properties": dict(fields), "additionalProperties": False}
    return {**found, "required": list(required)} if required else found


def _one_of(fields: Mapping[str, Json], others: Mapping[str, Json] | None = None) -> Json:
    """Return the schema of a mapping with exactly one of these fields, and any of the others."""
    choices = [{"required": [name]} for name in fields]
    return {**_mapping({**fields, **(others or {})}), "oneOf": choices}


def _labels(description: str) -> Json:
    return _described({"type": "object", "additionalProperties": {"type": "string"}}, description)


def _distribution(value: str) -> Json:
    single = _ref(value)
    fields = {
        "uniform": {"type": "array", "items": single, "minItems": 2, "maxItems": 2},
        "exponential": _mapping({"mean": single}, ("mean",)),
        "normal": _mapping({"mean": single, "deviation": single}, ("mean", "deviation")),
        "lognormal": _mapping({"median": single, "sigma": {"type": "number"}}, ("median", "sigma")),
        "pareto": _mapping({"minimum": single, "shape": {"type": "number"}}, ("minimum", "shape")),
        "choice": {"type": "array", "items": single, "minItems": 1},
    }
    weights = {"weights": {"type": "array", "items": {"type": "number", "minimum": 0}}}
    return {"anyOf": [single, _one_of(fields, weights)]}


def _arrivals() -> Json:
    duration, rate = _ref("duration"), _ref("rate")
    fields = {
        "at": {"anyOf": [duration, {"type": "array", "items": duration}]},
        "every": duration,
        "poisson": rate,
        "diurnal": _mapping(
            {
                "mean": rate,
                "peak": _ref("duration", "The time of day with the highest rate.", "14h"),
                "swing": {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
            },
            ("mean",),
        ),
        "bursts": _mapping(
            {
                "every": duration,
                "size": {"type": "integer", "minimum": 1},
                "within": _ref("duration", "The time in which all pods of a burst arrive.", 0),
            },
            ("every", "size"),
        ),
    }
    return _one_of(fields, {"from": duration, "until": duration})


def _node_group() -> Json:
    amounts = {"type": "object", "additionalProperties": _ref("quantity")}
    return _mapping(
        {
            "name": _of("string", "The node group; its nodes are NAME-0, NAME-1 and so on."),
            "count": _described({"type": "integer", "minimum": 0}, "The number of nodes.", 1),
            "cpu": _ref("quantity", "Allocatable CPU of a node."),
            "memory": _ref("quantity", "Allocatable memory of a node."),
            "pods": _ref("quantity", "How many pods a node takes.", 110),
            "resources": {**amounts, "description": "Further allocatable amounts by name."},
            "labels": _labels("Labels of the nodes."),
            "annotations": _labels("Annotations of the nodes."),
            "taints": _list({"type": "object"}, "Taints as in Kubernetes."),
            "zones": _texts("Zones; the nodes are assigned to them in turn."),
            "price": {"type": "number", "minimum": 0, "description": "The price per hour."},
        },
        ("name", "cpu", "memory"),
    )


def _cluster() -> Json:
    return _mapping(
        {
            "nodes": _list(_ref("nodeGroup"), "Templates of nodes."),
            "capture": _of("string", "A file that `kubesched capture` wrote."),
            "files": _texts("Manifests or dumps; *.csv: nodes of an openb trace."),
        }
    )


def _pod_group() -> Json:
    fields = {
        "policy": _described({"enum": ["gang", "basic"]}, "Whether pods wait for others.", "gang"),
        "minCount": _described(
            {"type": "integer", "minimum": 1}, "How many pods must fit together; default: all."
        ),
        "topology": _of("string", "The label of nodes that all pods must have one value of."),
        "disruptionMode": _described({"enum": ["Pod", "PodGroup"]}, "How pods are preempted."),
    }
    return _described(_mapping(fields), "The pods of an arrival form a PodGroup.")


def _workload() -> Json:
    short = {
        name: _of(kind, "Short for the same field of the template.")
        for name, kind in (
            ("resources", "object"),
            ("priorityClassName", "string"),
            ("nodeSelector", "object"),
            ("affinity", "object"),
            ("schedulerName", "string"),
            ("preemptionPolicy", "string"),
        )
    }
    return _mapping(
        {
            "name": _of("string", "The name of the workload, and the prefix of its pods."),
            "kind": _described(
                {"enum": ["Pod", "Job", "Deployment", "StatefulSet", "DaemonSet", "CronJob"]},
                "What an arrival creates.",
                "Pod",
            ),
            "schedule": _of("string", "The schedule of a CronJob, such as `0 3 * * *`."),
            "arrivals": _ref("arrivals", "When pods arrive; once at the start without it."),
            "replicas": _ref("counts", "Pods per arrival.", 1),
            "duration": _ref("durations", "How long a pod runs; to the end without it."),
            "cpu": _ref("quantities", "The CPU request of the first container."),
            "memory": _ref("quantities", "The memory request of the first container."),
            "startDelay": _ref("durations", "The time from binding to running."),
            "priority": _of("integer", "The priority; a run creates the PriorityClass."),
            "podGroup": _pod_group(),
            "template": _mapping({"metadata": {"type": "object"}, "spec": {"type": "object"}}),
            "labels": _labels("Labels of the pods."),
            "annotations": _labels("Annotations of the pods."),
            "tolerations": _list(
                {"type": ["object", "string"]}, "Tolerations; a key alone tolerates every value."
            ),
            "topologySpreadConstraints": _list({"type": "object"}, "As in Kubernetes."),
            **short,
        },
        ("name",),
    )


_TARGET: Final = _mapping(
    {
        "group": _of("string", "Nodes of this group."),
        "zone": _of("string", "Nodes of this zone."),
        "nodes": _texts("Nodes with these names."),
        "count": _described({"type": "integer", "minimum": 1}, "As many of them, at random."),
    }
)
_ADDED: Final = {**_TARGET, "required": ["group", "count"]}
_EVENTS: Final = {
    "fail": _ref("target", "Their kubelets stop."),
    "drain": _ref("target", "They are cordoned, and their pods are evicted."),
    "add": _ref("added", "Nodes of a group that join."),
    "remove": _ref("target", "They are deleted."),
}


def _event() -> Json:
    duration = _ref("duration")
    return _one_of(
        _EVENTS,
        {
            "at": {"anyOf": [duration, {"type": "array", "items": duration}]},
            "rate": _ref("rate", "As independent events, such as 0.5/d."),
            "arrivals": _ref("arrivals", "When it happens."),
            "for": _ref("durations", "After this time it is undone."),
        },
    )


def _autoscaler() -> Json:
    return _mapping(
        {
            "group": _of("string", "The group whose nodes are added and removed."),
            "min": _described({"type": "integer", "minimum": 0}, "The fewest nodes.", 0),
            "max": _described({"type": "integer", "minimum": 0}, "The most nodes."),
            "delay": _ref("duration", "The time until an ordered node is ready.", "2m"),
            "idle": _ref("duration", "An empty node is removed after this time.", "10m"),
        },
        ("group", "max"),
    )


def _configuration_fields() -> dict[str, Json]:
    return {
        "file": _of("string", "A KubeSchedulerConfiguration."),
        "config": _of("object", "The same, inline."),
        "plugins": _texts(
            "Plugins as with --plugin: module:Class, or the path of a .py file. The commands need "
            "--run-plugins if they are not installed."
        ),
    }


def _definitions(*names: str) -> dict[str, Json]:
    """Return the definitions with these names; each name also brings those it refers to."""
    every: dict[str, Json] = {
        "duration": {
            "anyOf": [
                {"type": "number", "minimum": 0, "description": "Seconds."},
                {"type": "string", "pattern": _DURATION_PATTERN, "description": "90s, 1h30m, 2d"},
            ]
        },
        "quantity": {"type": ["string", "number"], "description": "500m, 2Gi or a number"},
        "count": {"type": "integer", "minimum": 0},
        "rate": {"type": "string", "pattern": _RATE_PATTERN, "description": "30/h or 0.5/d"},
        "durations": _distribution("duration"),
        "quantities": _distribution("quantity"),
        "counts": _distribution("count"),
        "arrivals": _arrivals(),
        "nodeGroup": _node_group(),
        "cluster": _cluster(),
        "workload": _workload(),
        "target": _TARGET,
        "added": _ADDED,
        "event": _event(),
        "autoscaler": _autoscaler(),
        "configuration": _mapping(
            {
                "name": _of("string", "Shown in results."),
                **_configuration_fields(),
                "featureGates": _described(
                    {"type": "object", "additionalProperties": {"type": "boolean"}},
                    "Feature gates of the scheduler, such as GangScheduling.",
                ),
            },
            ("name",),
        ),
    }
    found: dict[str, Json] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = every[name]
            waiting += _referred(every[name])
    return {name: every[name] for name in every if name in found}


def _referred(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"].rpartition("/")[2]] if "$ref" in schema else []
        return own + [name for value in schema.values() for name in _referred(value)]
    return (
        [name for value in schema for name in _referred(value)] if isinstance(schema, list) else []
    )


def _document(
    title: str, fields: Mapping[str, Json], required: tuple[str, ...], *definitions: str
) -> Json:
    head = {"$schema": _DRAFT, "title": title}
    used = _definitions(*definitions, *_referred(dict(fields)))
    return {**head, **_mapping(fields, required), "$defs": used}


def scenario_schema() -> Json:
    """Return the schema of a file for `kubesched simulate`."""
    seed: Json = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+-[0-9]+$"}]}
    seeds = {"anyOf": [*seed["anyOf"], {"type": "array", "items": seed}]}
    trace = _mapping(
        {
            "file": _of("string", "A trace, plain or gzipped."),
            "format": _of("string", "openb for the Alibaba GPU traces."),
            "speed": _described({"type": "number"}, "2: twice as fast.", 1.0),
        },
        ("file",),
    )
    behaviour = _mapping(
        {
            "startDelay": _ref("duration", "The time from binding to running.", "100ms"),
            "stopDelay": _ref("duration", "How long containers take to end.", "1s"),
            "rules": {
                "type": ["string", "array"],
                "description": "Behavior rules, or a file with them.",
            },
        }
    )
    fields = {
        "apiVersion": {"type": "string"},
        "kind": {"const": "Scenario"},
        "name": _of("string", "Shown in results; the file's name without it."),
        "duration": _ref("duration", "How long the run lasts in virtual time."),
        "start": _of("string", "When it begins, such as 2026-01-05T08:00:00Z."),
        "step": _ref("duration", "How often the cluster is measured.", "5m"),
        "changes": _of("boolean", "Also store a row for every change of a pod.", False),
        "seeds": _described(seeds, "7, [1, 2, 3] or 1-10.", 0),
        "cluster": _ref("cluster", "Where nodes come from."),
        "workloads": _list(_ref("workload"), "Pods that arrive."),
        "traces": _list(trace, "Recorded pods that arrive."),
        "events": _list(_ref("event"), "Failures, drains, and changes of the set of nodes."),
        "autoscaler": _list(_ref("autoscaler"), "Groups that grow and shrink."),
        "behaviour": {**behaviour, "description": "How pods behave."},
        "configurations": _list(_ref("configuration"), "Schedulers to compare."),
    }
    return _document("A kubesched scenario", fields, ("duration", "cluster"))


def placement_test_schema() -> Json:
    """Return the schema of a file for `kubesched check`."""
    pods = {"pods": _labels("The pods with these labels; all without them.")}
    count = {"count": {"type": "integer"}}
    on = {"nodes": _labels("Nodes with these labels.")}
    claims = {
        "placed": _mapping({**pods, **count}),
        "pending": _mapping({**pods, **count, "reason": _of("string", "Part of the message.")}),
        "pendingAtMost": _mapping({**pods, "for": _ref("duration")}, ("for",)),
        "spread": _mapping(
            {
                **pods,
                "over": _of("string", "zone, node or the key of a node label.", "zone"),
                "domains": {"type": "integer"},
                "skew": {"type": "integer"},
            }
        ),
        "never": _mapping({**pods, **on}),
        "only": _mapping({**pods, **on}),
        "perNode": _mapping({**pods, "atMost": _described({"type": "integer"}, "", 1)}),
    }
    step = _one_of(
        {
            "pods": _ref("workload", "A workload that arrives."),
            "wait": _ref("duration", "The time until the next step."),
            **_EVENTS,
        },
        {"for": _ref("durations", "After this time the event is undone.")},
    )
    fields = {
        "apiVersion": {"type": "string"},
        "kind": {"const": "PlacementTest"},
        "name": _of("string", "The name of the test."),
        "given": _ref("cluster", "The cluster, as in a scenario."),
        "when": _list(step, "Steps in order."),
        "then": {**_list(_one_of(claims), "Assertions at the end."), "minItems": 1},
        "within": _ref("duration", "The time from the last step to the end.", "5m"),
        "seed": _of("integer", "The seed of the run.", 0),
        "configuration": _mapping(_configuration_fields()),
    }
    return _document("A kubesched placement test", fields, ("name", "given", "then"))


def tuning_schema() -> Json:
    """Return the schema of a file for `kubesched tune`."""
    bounds = {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}
    parameter = _one_of(
        {"integer": bounds, "number": bounds, "choice": {"type": "array", "minItems": 1}}
    )
    measure = {"type": "string"}
    fields = {
        "scenario": _of("string", "The scenario's file."),
        "config": _of("object", "The KubeSchedulerConfiguration that the search begins with."),
        "parameters": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": parameter,
            "description": "Paths in the configuration, and their possible values.",
        },
        "objectives": {
            **_list(_one_of({"minimize": measure, "maximize": measure}), "Measures to improve."),
            "minItems": 1,
        },
        "trials": _of("integer", "How many settings are tried.", 30),
        "seed": _of("integer", "The seed of the search.", 0),
    }
    return _document("A kubesched tuning file", fields, ("scenario", "parameters", "objectives"))


FILE_SCHEMAS: Final = {
    "scenario": scenario_schema,
    "placement-test": placement_test_schema,
    "tuning": tuning_schema,
}
