"""Broken configurations cause no traceback, and every rejection names a place."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from typing import Any

import msgspec
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubesched.errors import ConfigError
from kubesched.scheduler.config import (
    args,
    complete_configuration,
    load_configuration,
    types,
    written,
)

WHOLE: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "parallelism": 8,
    "leaderElection": {"leaderElect": True, "leaseDuration": "20s", "resourceName": "x"},
    "clientConnection": {"kubeconfig": "/k", "qps": 2.5, "burst": 7, "contentType": "a/b"},
    "enableProfiling": False,
    "enableContentionProfiling": False,
    "percentageOfNodesToScore": 50,
    "podInitialBackoffSeconds": 2,
    "podMaxBackoffSeconds": 9,
    "delayCacheUntilActive": True,
    "profiles": [
        {
            "schedulerName": "one",
            "percentageOfNodesToScore": 10,
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "NodeAffinity", "weight": 5}],
                    "disabled": [{"name": "ImageLocality"}],
                },
                "score": {"enabled": [{"name": "TaintToleration"}], "disabled": [{"name": "x"}]},
            },
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "ignoredResources": ["example.com/a"],
                        "ignoredResourceGroups": ["example.com"],
                        "scoringStrategy": {
                            "type": "RequestedToCapacityRatio",
                            "resources": [{"name": "cpu", "weight": 3}],
                            "requestedToCapacityRatio": {
                                "shape": [
                                    {"utilization": 0, "score": 0},
                                    {"utilization": 100, "score": 10},
                                ]
                            },
                        },
                    },
                },
                {
                    "name": "NodeAffinity",
                    "args": {
                        "addedAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": {
                                "nodeSelectorTerms": [
                                    {
                                        "matchExpressions": [
                                            {"key": "a", "operator": "In", "values": ["b"]}
                                        ]
                                    }
                                ]
                            }
                        }
                    },
                },
                {
                    "name": "PodTopologySpread",
                    "args": {
                        "defaultingType": "List",
                        "defaultConstraints": [
                            {
                                "maxSkew": 1,
                                "topologyKey": "zone",
                                "whenUnsatisfiable": "ScheduleAnyway",
                            }
                        ],
                    },
                },
                {"name": "DynamicResources", "args": {"filterTimeout": "3s"}},
                {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5}},
                {"name": "Other", "args": {"anything": [1, {"goes": None}]}},
            ],
        },
        {"schedulerName": "two"},
    ],
    "extenders": [
        {
            "urlPrefix": "http://a",
            "prioritizeVerb": "p",
            "weight": 2,
            "enableHTTPS": True,
            "tlsConfig": {"insecure": True, "certData": "YQ=="},
            "httpTimeout": "1s",
            "managedResources": [{"name": "example.com/foo", "ignoredByScheduler": True}],
        }
    ],
}


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here] if here else []
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            found += paths(item, (*here, key))
    return found


PATHS = paths(WHOLE)

# A rejection names a field, or the profile or plugin that cannot be built.
FIELDS = {key for path in PATHS for key in path if isinstance(key, str)} | {
    field.encode_name
    for module in (types, args)
    for struct in vars(module).values()
    if isinstance(struct, type) and issubclass(struct, msgspec.Struct)
    for field in msgspec.structs.fields(struct)
}
OTHERS = ("Kind", "no kind", "version/kind", "GroupVersion", "scheduler name", "plugin")
PLACE = re.compile(rf"\b({'|'.join((*FIELDS, *OTHERS))})\b")

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
        st.sampled_from(["-1s", "10x", "*", "NodeName", "EBSLimits", "a/b/c", "List", "", "é"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)
MUTATIONS = st.tuples(
    st.sampled_from(["replace", "delete", "insert", "rename", "repeat"]),
    st.sampled_from(PATHS),
    VALUES,
)


def mutate(document: Any, how: str, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return  # an earlier mutation took it away
    key = path[-1]
    with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):
        match how:
            case "replace":
                document[key] = value
            case "delete":
                del document[key]
            case "insert":
                document[key][f"new-{key}"] = value
            case "rename":
                document[f"{key}x".title()] = document.pop(key)
            case "repeat":
                document.append(copy.deepcopy(document[key]))


@settings(deadline=None, max_examples=300)
@given(st.lists(MUTATIONS, min_size=1, max_size=3))
def test_a_mutated_configuration_is_taken_or_refused_with_a_place(
    mutations: list[tuple[str, tuple[Any, ...], Any]],
) -> None:
    document = copy.deepcopy(WHOLE)
    for how, path, value in mutations:
        mutate(document, how, path, value)
    try:
        configuration = complete_configuration(load_configuration(json.dumps(document)))
        assert written(configuration)
    except ConfigError as exc:
        told = "\n".join((str(exc), *getattr(exc, "__notes__", ())))
        assert PLACE.search(told), told


def test_the_configuration_is_whole_before_it_is_mutated() -> None:
    assert written(load_configuration(yaml.safe_dump(WHOLE)))


TEXT = yaml.safe_dump(WHOLE)


@settings(deadline=None, max_examples=200)
@given(st.integers(0, len(TEXT)), st.integers(0, 20), st.text(max_size=6))
@example(0, len(TEXT), "")
@example(0, len(TEXT), "\x00")
@example(0, 0, "\ufeff")
@example(TEXT.index("YQ=="), 0, "\xa0")
@example(0, 0, "&a [*a]\n---\n")
def test_text_with_a_hole_or_an_insertion_makes_no_traceback(
    start: int, length: int, inserted: str
) -> None:
    text = TEXT[:start] + inserted + TEXT[start + length :]
    with contextlib.suppress(ConfigError):
        load_configuration(text)


@settings(deadline=None)
@given(st.binary(max_size=40))
def test_random_bytes_cause_no_traceback(content: bytes) -> None:
    with contextlib.suppress(ConfigError):
        load_configuration(content)
