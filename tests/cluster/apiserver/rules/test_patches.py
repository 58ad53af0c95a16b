from __future__ import annotations

import copy
import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.cluster.apiserver.rules.patching.merge_rules import MergeRules
from kubesched.cluster.apiserver.rules.patching.patches import (
    PatchError,
    apply_patch,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from kubesched.cluster.apiserver.rules.strategies.shared_specs import share_spec


class Case(NamedTuple):
    original: Any
    patch: Any
    want: Any


# The examples of RFC 7386, appendix A.
MERGES = [
    Case({"a": "b"}, {"a": "c"}, {"a": "c"}),
    Case({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    Case({"a": "b"}, {"a": None}, {}),
    Case({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    Case({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    Case({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    Case({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    Case({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    Case({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    Case({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.parametrize("case", MERGES)
def test_merge_patch(case: Case) -> None:
    assert merge_patch(case.original, case.patch) == case.want


# The examples of RFC 6902, appendix A.
JSON = {
    "adding a member": Case(
        {"foo": "bar"},
        [{"op": "add", "path": "/baz", "value": "qux"}],
        {"baz": "qux", "foo": "bar"},
    ),
    "adding an element": Case(
        {"foo": ["bar", "baz"]},
        [{"op": "add", "path": "/foo/1", "value": "qux"}],
        {"foo": ["bar", "qux", "baz"]},
    ),
    "removing a member": Case(
        {"baz": "qux", "foo": "bar"}, [{"op": "remove", "path": "/baz"}], {"foo": "bar"}
    ),
    "removing an element": Case(
        {"foo": ["bar", "qux", "baz"]},
        [{"op": "remove", "path": "/foo/1"}],
        {"foo": ["bar", "baz"]},
    ),
    "replacing": Case(
        {"baz": "qux"}, [{"op": "replace", "path": "/baz", "value": "boo"}], {"baz": "boo"}
    ),
    "moving a value": Case(
        {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}},
        [{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}],
        {"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}},
    ),
    "moving an element": Case(
        {"foo": ["all", "grass", "cows", "eat"]},
        [{"op": "move", "from": "/foo/1", "path": "/foo/3"}],
        {"foo": ["all", "cows", "eat", "grass"]},
    ),
    "testing": Case(
        {"baz": "qux", "foo": ["a", 2]},
        [{"op": "test", "path": "/foo/1", "value": 2}],
        {"baz": "qux", "foo": ["a", 2]},
    ),
    "adding a nested object": Case(
        {"foo": "bar"},
        [{"op": "add", "path": "/child", "value": {"grandchild": {}}}],
        {"foo": "bar", "child": {"grandchild": {}}},
    ),
    "escaped names": Case(
        {"/": 9, "~1": 10}, [{"op": "replace", "path": "/~01", "value": 1}], {"/": 9, "~1": 1}
    ),
    "adding at the end": Case(
        {"foo": ["bar"]},
        [{"op": "add", "path": "/foo/-", "value": ["abc"]}],
        {"foo": ["bar", ["abc"]]},
    ),
}


@pytest.mark.parametrize("case", JSON.values(), ids=JSON)
def test_json_patch(case: Case) -> None:
    before = copy.deepcopy(case.original)
    assert json_patch(case.original, case.patch) == case.want
    assert case.original == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/baz", "value": "bar"},
        {"op": "add", "path": "/no/where", "value": 1},
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/nope", "value": 1},
        {"op": "add", "path": "/list/5", "value": 1},
        {"op": "jump", "path": "/baz"},
        {"op": "add", "path": "/x"},
        {"path": "/x"},
    ],
    ids=str,
)
def test_json_patches_that_do_not_apply(operation: dict[str, Any]) -> None:
    with pytest.raises(PatchError):
        json_patch({"baz": "qux", "list": [1]}, [operation])


def named(*names: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": name, **fields} for name in names]


def merging(key: str, **fields: Any) -> dict[str, Any]:
    """The schema of a list whose items this key identifies."""
    return {
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": key,
        "items": {"properties": fields},
    }


FIELDS: dict[str, Any] = {
    "containers": merging("name", ports=merging("containerPort")),
    "conditions": merging("type"),
    "volumes": merging("name"),
    "ownerReferences": merging("uid"),
    "finalizers": {"x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}},
    "selector": {"x-kubernetes-patch-strategy": "replace", "properties": {}},
}
SPEC = {"properties": {**FIELDS, "ports": merging("port")}}
RULES = MergeRules(
    {"properties": {**FIELDS, "spec": SPEC, "status": SPEC, "metadata": {"properties": FIELDS}}}
)
STRATEGIC = {
    "maps merge": Case(
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"b": "2", "a": None}}},
        {"metadata": {"labels": {"b": "2"}}},
    ),
    "items with an identity merge in place": Case(
        {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}]},
        {"containers": [{"name": "b", "image": "3"}]},
        {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "3"}]},
    ),
    "new items come first": Case(
        {"conditions": [{"type": "A"}, {"type": "B"}]},
        {"conditions": [{"type": "C"}]},
        {"conditions": [{"type": "C"}, {"type": "A"}, {"type": "B"}]},
    ),
    "other lists are replaced": Case(
        {"taints": [{"key": "a"}], "tolerations": [{"key": "a"}], "args": ["x"]},
        {"taints": [{"key": "b"}], "tolerations": [{"key": "b"}], "args": ["y"]},
        {"taints": [{"key": "b"}], "tolerations": [{"key": "b"}], "args": ["y"]},
    ),
    "an item can be deleted": Case(
        {"volumes": named("a", "b")},
        {"volumes": [{"name": "a", "$patch": "delete"}]},
        {"volumes": named("b")},
    ),
    "a list can be replaced": Case(
        {"containers": named("a", "b")},
        {"containers": [{"$patch": "replace"}, {"name": "c"}]},
        {"containers": named("c")},
    ),
    "a map can be replaced": Case(
        {"spec": {"a": 1, "b": 2}}, {"spec": {"$patch": "replace", "c": 3}}, {"spec": {"c": 3}}
    ),
    "a map can be emptied": Case({"spec": {"a": 1}}, {"spec": {"$patch": "delete"}}, {"spec": {}}),
    "elements are put in order": Case(
        {"containers": named("a", "b", "c")},
        {
            "$setElementOrder/containers": named("c", "b", "a"),
            "containers": [{"name": "b", "image": "x"}],
        },
        {"containers": [{"name": "c"}, {"name": "b", "image": "x"}, {"name": "a"}]},
    ),
    "order alone is a change": Case(
        {"containers": named("a", "b")},
        {"$setElementOrder/containers": named("b", "a")},
        {"containers": named("b", "a")},
    ),
    "primitives merge": Case(
        {"finalizers": ["a", "b"]}, {"finalizers": ["b", "c"]}, {"finalizers": ["a", "b", "c"]}
    ),
    "primitives are deleted": Case(
        {"finalizers": ["a", "b"]},
        {"$deleteFromPrimitiveList/finalizers": ["a"]},
        {"finalizers": ["b"]},
    ),
    "only some keys are kept": Case(
        {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
        {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
        {"strategy": {"type": "Recreate"}},
    ),
    "container ports are known by their number": Case(
        {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "x"}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "y"}]}]},
        {"containers": [{"name": "a", "ports": [{"containerPort": 1, "name": "y"}]}]},
    ),
    "service ports are known by their port": Case(
        {"spec": {"ports": [{"port": 80, "name": "x"}, {"port": 81}]}},
        {"spec": {"ports": [{"port": 80, "name": "y"}]}},
        {"spec": {"ports": [{"port": 80, "name": "y"}, {"port": 81}]}},
    ),
    "owners are known by their uid": Case(
        {"ownerReferences": [{"uid": "1", "name": "a"}]},
        {"ownerReferences": [{"uid": "1", "name": "b"}]},
        {"ownerReferences": [{"uid": "1", "name": "b"}]},
    ),
    "a map is replaced if its strategy says so": Case(
        {"selector": {"a": 1}}, {"selector": {"b": 2}}, {"selector": {"b": 2}}
    ),
    "what is new holds no nulls": Case({}, {"spec": {"a": None, "b": 1}}, {"spec": {"b": 1}}),
}


@pytest.mark.parametrize("case", STRATEGIC.values(), ids=STRATEGIC)
def test_strategic_merge_patch(case: Case) -> None:
    before = copy.deepcopy(case.original)
    assert strategic_merge_patch(case.original, case.patch, RULES) == case.want
    assert case.original == before


def test_an_item_without_its_identity_is_refused() -> None:
    with pytest.raises(PatchError, match="does not contain declared merge key: name"):
        strategic_merge_patch({"containers": named("a")}, {"containers": [{"image": "x"}]}, RULES)


SCALARS = st.sampled_from(["a", "b", "null", 1, 1.5, True, False, ""])
ITEMS = st.fixed_dictionaries({"name": st.sampled_from("abc")}, optional={"image": SCALARS})
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(ITEMS, max_size=3),
        "finalizers": st.lists(st.sampled_from("abc"), max_size=3, unique=True),
        "args": st.lists(SCALARS, max_size=2),
        "labels": st.dictionaries(st.sampled_from("xyz"), SCALARS, max_size=2),
        "phase": SCALARS,
    },
)
DOCUMENTS = st.fixed_dictionaries({}, optional={"spec": VALUES, "status": VALUES, "kind": SCALARS})


@given(DOCUMENTS, DOCUMENTS)
@settings(max_examples=200, deadline=None)
def test_a_patch_of_values_is_a_patch_with_a_directive_that_changes_nothing(
    original: dict[str, Any], patch: dict[str, Any]
) -> None:
    before = copy.deepcopy((original, patch))
    patched = strategic_merge_patch(original, patch, RULES)
    # A directive prevents the fast path.
    slowly = strategic_merge_patch(original, {**patch, "$patch": "merge"}, RULES)
    assert json.dumps(patched) == json.dumps(slowly)
    assert (original, patch) == before


def test_a_spec_that_pods_share_is_merged_into_as_well() -> None:
    spec = share_spec({"containers": [{"name": "c", "image": "a"}], "nodeName": "n"})
    patched = strategic_merge_patch(
        {"spec": spec}, {"spec": {"containers": [{"name": "c", "image": "b"}]}}, RULES
    )
    assert patched == {"spec": {"containers": [{"name": "c", "image": "b"}], "nodeName": "n"}}
    assert spec["containers"][0]["image"] == "a"


def test_a_patch_is_not_shared_with_the_caller() -> None:
    patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    patched = strategic_merge_patch({}, patch, RULES)
    patch["status"]["conditions"][0]["status"] = "False"
    assert patched["status"]["conditions"][0]["status"] == "True"


def strategic(original: Any, patch: Any) -> Any:
    return strategic_merge_patch(original, patch, RULES)


@pytest.mark.parametrize("patch", [merge_patch, strategic])
def test_untouched_parts_are_shared(patch: Any) -> None:
    original = {"spec": {"a": [1, 2]}, "status": {"phase": "x"}}
    patched = patch(original, {"status": {"phase": "y"}})
    assert patched["spec"] is original["spec"]


NO_PATCHES = {
    "null": ("json", None),
    "a number": ("json", 5),
    "a map of operations": ("json", {"op": "add"}),
    "an index that only looks like one": (
        "json",
        [{"op": "add", "path": "/spec/containers/²", "value": 1}],
    ),
    "an index beyond all integers": (
        "json",
        [{"op": "test", "path": "/spec/containers/" + "9" * 5000, "value": 1}],
    ),
    "a list as a merge": ("merge", []),
    "an order that is no list": ("strategic", {"spec": {"$setElementOrder/containers": 5}}),
    "an identity that is a map": ("strategic", {"spec": {"containers": [{"name": {}}]}}),
    "an identity that is a list": ("strategic", {"spec": {"containers": [{"name": []}]}}),
    "keys to retain that are no list": ("strategic", {"spec": {"$retainKeys": 5}}),
    "things to delete that are no list": (
        "strategic",
        {"metadata": {"$deleteFromPrimitiveList/finalizers": 5}},
    ),
}


@pytest.mark.parametrize(("form", "patch"), NO_PATCHES.values(), ids=NO_PATCHES)
def test_malformed_patches_are_refused(form: str, patch: Any) -> None:
    original = {"metadata": {"finalizers": ["x"]}, "spec": {"containers": [{"name": "c"}]}}
    with pytest.raises(PatchError):
        apply_patch(original, patch, form, RULES)
