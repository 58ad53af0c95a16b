"""The cost of one request, as a number of calls, for every list of every kind and every format.

docs/reliability.md promises a bounded number of calls per value, and a bounded number of values.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import msgspec
import pytest

from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.rules.errors.value_limit import MOST_VALUES
from kubesched.cluster.apiserver.rules.patching.merge_rules import kind_merge_rules
from kubesched.cluster.apiserver.rules.patching.patches import (
    PatchError,
    json_patch,
    strategic_merge_patch,
)
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.schema.definitions import definition_of
from tests.cluster.apiserver.largest_objects import BASES, Place, fillable_fields
from tests.counted_calls import count_calls, grow, peak_bytes
from tests.fuzz.service import JSON, KINDS, TABLE, Service
from tests.fuzz.test_api_requests import PATCHES
from tests.fuzz.test_objects_in_a_cluster import POD_SPEC

# Items in the smallest object; the largest has four times as many.
SIZE = 9
# Smaller sets of labels are cached between requests (api/sized_caches.py).
LABELS = 32
# The limit for the nine requests of `admission` together. The worst object is refused five times.
CALLS_PER_VALUE = 600
BYTES_PER_VALUE = 3_000

# Query parameters of apply patches.


def forced(language: str) -> dict[str, str]:
    """Return the parameters of an apply that overrides other managers; none for other bodies."""
    is_apply = language == PATCHES["apply"]
    return {"fieldManager": "f", "force": "true"} if is_apply else {}


def values_in(document: Any) -> int:
    if isinstance(document, dict):
        return 1 + sum(map(values_in, document.values()))
    if isinstance(document, list):
        return 1 + sum(map(values_in, document))
    return 1


def admission(service: Service, place: Place, count: int) -> int:
    """Count the calls of all requests with an object of that size."""
    made = place.filled(count, "x")
    path = service.path(place.resource)
    one = f"{path}/{made['metadata']['name']}"
    body = msgspec.json.encode(made)

    def ask() -> None:
        service.ask("POST", path, body)
        service.ask("PUT", one, body)
        if place.path[0] == "status":
            service.ask("PUT", f"{one}/status", body)
        for form in ("merge", "strategic", "apply"):
            service.ask("PATCH", one, body, content_type=PATCHES[form], query=forced(PATCHES[form]))
        for accept in (JSON, TABLE):
            service.ask("GET", path, accept=accept)
        service.ask("DELETE", one, b"{}")

    return count_calls(ask)


RESOURCES = {
    f"{each.kind}.{each.version}.{each.group}": each
    for each in Store(random.Random(0)).catalog.all()
    if definition_of(each.group, each.version, each.kind) is not None
}


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=RESOURCES)
def test_the_cost_of_every_list_of_every_kind_is_linear(resource: Resource) -> None:
    for place in fillable_fields(resource):
        service = Service()
        admission(service, place, 1)  # fill the caches
        size = LABELS if place.path[-1] == "matchLabels" else SIZE
        growth = grow(lambda count, s=service, p=place: admission(s, p, count), size)
        assert growth.is_linear, (str(place), growth)
        each = (values_in(place.filled(9, "x")) - values_in(place.filled(1, "x"))) / 8
        assert growth.among_many <= CALLS_PER_VALUE * each, (str(place), growth, each)


POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
CONTAINER = {"name": "c", "image": "i"}
YAML = "application/yaml"


def pod_with(count: int, item: Any) -> dict[str, Any]:
    """Return a valid pod with many items in a field that the server does not know."""
    return {**POD, "spec": {"containers": [CONTAINER]}, "unknown": [item] * count}


def as_yaml(document: Any) -> bytes:
    """Encode a document as YAML that is not JSON, so that the YAML parser reads it."""
    return b"# text\n" + msgspec.json.encode(document)


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def as_protobuf(count: int) -> bytes:
    """Encode a pod with `count` empty finalizers."""
    head = field(1, b"v1") + field(2, b"Pod")
    metadata = field(1, b"x") + field(14, b"") * count
    return b"k8s\x00" + field(1, head) + field(2, field(1, metadata))


PROTOBUF = "application/vnd.kubernetes.protobuf"
DENSE = {
    "numbers": 1,
    "lists": [],
    "maps": {},
    "texts": "",
    "nothing": None,
    "flags": False,
}


@pytest.mark.parametrize("item", DENSE.values(), ids=DENSE)
def test_too_many_values_are_refused_before_decoding(item: Any) -> None:
    service = Service()
    path = service.path(KINDS["Pod"])
    service.ask("POST", path, {**POD, "spec": {"containers": [CONTAINER]}})
    much = pod_with(MOST_VALUES, item)
    body = msgspec.json.encode(much)
    requests = [
        ("POST", path, body, JSON),
        ("POST", path, as_yaml(much), YAML),
        ("PUT", f"{path}/x", body, JSON),
        ("PATCH", f"{path}/x", body, PATCHES["merge"]),
        ("PATCH", f"{path}/x", body, PATCHES["strategic"]),
        ("PATCH", f"{path}/x", body, PATCHES["apply"]),
        ("PATCH", f"{path}/x", as_yaml(much), PATCHES["apply"]),
        ("DELETE", f"{path}/x", body, JSON),
    ]
    for method, where, sent, language in requests:

        def ask(m: str = method, w: str = where, s: bytes = sent, lang: str = language) -> None:
            status, answer = service.ask(m, w, s, content_type=lang, query=forced(lang))
            assert status == 413, (m, lang, answer)
            assert answer["message"] == (
                f"Request entity too large: limit is {MOST_VALUES} values in an object"
            )

        if language in (YAML, PATCHES["apply"]):
            ask()
        else:
            assert peak_bytes(ask) < 32 * 1024 * 1024, (method, language)


def test_a_binary_object_has_no_more_values_than_another() -> None:
    service = Service()
    path = service.path(KINDS["Pod"])
    for count, want in ((MOST_VALUES - 10, 422), (MOST_VALUES + 10, 413)):
        status, _ = service.ask("POST", path, as_protobuf(count), content_type=PROTOBUF)
        assert status == want


def test_a_value_costs_a_bounded_amount_of_memory() -> None:
    count = MOST_VALUES // 20
    service = Service()
    path = service.path(KINDS["Pod"])
    for language, body in (
        (JSON, msgspec.json.encode(pod_with(count, {}))),
        (YAML, as_yaml(pod_with(count, {}))),
    ):
        answers: list[int] = []

        def ask(sent: bytes = body, spoken: str = language, told: list[int] = answers) -> None:
            told.append(service.ask("POST", path, sent, content_type=spoken)[0])

        assert peak_bytes(ask) < BYTES_PER_VALUE * count, language
        assert answers == [201]
        service.ask("DELETE", f"{path}/x", b"")


def test_patches_do_not_add_up_to_more_values_than_one_request_may_have() -> None:
    service = Service()
    path = service.path(KINDS["ConfigMap"])
    service.ask("POST", path, {"metadata": {"name": "x"}})
    statuses = []
    for part in range(3):
        data = {f"{part}-{number}": "" for number in range(MOST_VALUES // 2)}
        kind = PATCHES["merge"]
        statuses.append(service.ask("PATCH", f"{path}/x", {"data": data}, content_type=kind)[0])
    assert statuses == [200, 413, 413]


def test_texts_with_many_commas_are_one_value() -> None:
    service = Service()
    data = {"csv": '[{,\\",' * 150_000}
    path = service.path(KINDS["ConfigMap"])
    assert service.ask("POST", path, {"metadata": {"name": "x"}, "data": data})[0] == 201


def test_a_json_patch_does_not_copy_a_long_list_ten_thousand_times() -> None:
    document = {"items": list(range(5_000))}
    patch = [{"op": "replace", "path": "/items/0", "value": 5}] * 10_000
    with pytest.raises(PatchError, match="too much work"):
        json_patch(document, patch)
    assert json_patch(document, patch[:1_000])["items"][0] == 5


class CountedText(str):
    """A string that counts its comparisons."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return str.__eq__(self, other)


def test_deletion_from_a_primitive_list_takes_linear_time() -> None:
    count = 300
    there = [CountedText(f"x/{number}") for number in range(count)]
    gone = [CountedText(f"x/{number}") for number in range(1, count)]
    CountedText.compared = 0
    patched = strategic_merge_patch(
        {"metadata": {"finalizers": there}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": gone}},
        kind_merge_rules("", "v1", "Pod"),
    )
    assert patched == {"metadata": {"finalizers": ["x/0"]}}
    assert CountedText.compared <= 4 * count


def custom(schema: dict[str, Any], spec: Any) -> tuple[int, Any]:
    """Create and update an object of a custom resource with this schema. Returns the response."""
    service = Service()
    definition = copy.deepcopy(BASES["CustomResourceDefinition"])
    version = definition["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"] = {"spec": schema}
    where = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    status, answer = service.ask("POST", where, definition)
    assert status == 201, answer
    path = "/apis/x.io/v1/namespaces/default/foos"
    made = {"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a"}, "spec": spec}
    status, answer = service.ask("POST", path, made)
    if status == 201:
        changed = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
        service.ask("PATCH", f"{path}/a", changed, content_type=PATCHES["merge"])
    return status, answer


def list_of(**items: Any) -> dict[str, Any]:
    return {"type": "array", **items}


KEYED = list_of(
    **{
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object",
            "required": ["k"],
            "properties": {"k": {"type": "string"}},
            "x-kubernetes-validations": [{"rule": "self.k != 'x' || oldSelf.k == 'x'"}],
        },
    }
)
SET = list_of(**{"x-kubernetes-list-type": "set", "items": {"type": "string"}})
CUSTOM = {
    "a list with keys": (KEYED, lambda n: [{"k": str(each)} for each in range(n)]),
    "a set": (SET, lambda n: [str(each) for each in range(n)]),
}


@pytest.mark.parametrize(("schema", "spec"), CUSTOM.values(), ids=CUSTOM)
def test_lists_of_custom_resources_cost_no_more_than_their_items(schema: Any, spec: Any) -> None:
    if "maxItems" not in schema:
        schema = {**schema, "maxItems": 1_000}
    custom(schema, spec(1))
    growth = grow(lambda count: count_calls(lambda: custom(schema, spec(count))), SIZE)
    assert growth.is_linear, growth


def test_items_of_a_set_are_looked_up() -> None:
    status, answer = custom(SET, ["a", "b", "a"])
    assert status == 422
    assert 'spec[2]: Duplicate value: "a"' in answer["message"]
    flags = {**SET, "items": {"x-kubernetes-preserve-unknown-fields": True}}
    assert custom(flags, [True, 1, "1"])[0] in (201, 422)


ALTERNATIVES = [{"pattern": f"^a{number}$"} for number in range(1_500)]
TEXTS = [f"b{number}" for number in range(1_500)]
TOO_MUCH = {
    "alternatives": (list_of(items={"type": "string", "anyOf": ALTERNATIVES}), TEXTS),
    "choices": (list_of(items={"type": "string", "enum": TEXTS}), ["c"] * 1_500),
    "long defaults": (
        list_of(
            items={
                "type": "object",
                "properties": {"d": {"type": "string", "default": "x" * 10_000}},
            }
        ),
        [{}] * 1_000,
    ),
    "many defaults": (
        list_of(
            items={
                "type": "object",
                "properties": {f"d{n}": {"type": "string", "default": "x"} for n in range(500)},
            }
        ),
        [{}] * 1_000,
    ),
}


@pytest.mark.parametrize(("schema", "spec"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_the_size_of_schema_defaults_is_bounded(schema: Any, spec: Any) -> None:
    status, answer = custom(schema, spec)
    assert status == 413
    assert answer["message"].startswith("Request entity too large: ")


def test_a_limit_range_does_not_multiply_with_containers() -> None:
    service = Service()
    amounts = {f"example.com/r{number}": "1" for number in range(1_000)}
    limits = {"limits": [{"type": "Container", "default": amounts}]}
    made = {"metadata": {"name": "x"}, "spec": limits}
    assert service.ask("POST", service.path(KINDS["LimitRange"]), made)[0] == 201
    containers = [{"name": f"c{number}", "image": "i"} for number in range(100)]
    pod = {"metadata": {"name": "x"}, "spec": {"containers": containers}}
    assert service.ask("POST", service.path(KINDS["Pod"]), pod)[0] == 413
    few = {**pod, "spec": {"containers": containers[:3]}}
    assert service.ask("POST", service.path(KINDS["Pod"]), few)[0] == 201


NAMES = "metadata.name!="
ASKED = {
    "labels": lambda n: {"labelSelector": ",".join(f"k{each}" for each in range(n))},
    "labels that are not there": lambda n: {
        "labelSelector": ",".join(f"!k{each}" for each in range(n))
    },
    "values of a label": lambda n: {
        "labelSelector": f"k notin ({','.join(f'v{each}' for each in range(n))})"
    },
    "one label": lambda n: {"labelSelector": ",".join(["a=b"] * n)},
    "fields": lambda n: {"fieldSelector": ",".join(f"{NAMES}p{each}x" for each in range(n))},
    "parameters": lambda n: {f"p{each}": "v" for each in range(n)},
    "digits": lambda n: {"limit": "1" * n, "timeoutSeconds": "1" * n},
    "a place in a list": lambda n: {"continue": "A" * n},
    "commas": lambda n: {"labelSelector": "," * n, "fieldSelector": "," * n},
    "brackets": lambda n: {"labelSelector": "(" * n},
}
HEADS = {
    "forms": lambda n: ",".join(f"application/x{each}" for each in range(n)),
    "versions of a form": lambda n: ",".join([f"{JSON};as=Table;v=v{n};g=meta.k8s.io"] * n),
    "parts of a form": lambda n: JSON + ";a=b" * n,
    "one long word": lambda n: "a" * n,
}
LINE_SIZE, CALLS_PER_ITEM = 100, 150


def served(pods: int = 3) -> Service:
    service = Service()
    for number in range(pods):
        body = {"metadata": {"name": f"p{number}", "labels": {"a": "b"}}, "spec": POD_SPEC}
        assert service.ask("POST", service.path(KINDS["Pod"]), body)[0] == 201
    return service


@pytest.mark.parametrize("query", ASKED.values(), ids=ASKED)
def test_the_cost_of_parameters_is_linear(query: Any) -> None:
    service = served()
    path = service.path(KINDS["Pod"])

    def ask(count: int) -> None:
        for form in (JSON, TABLE):
            service.ask("GET", path, accept=form, query=query(count))
        service.ask("GET", path, query={"watch": "1", **query(count)})
        service.ask("DELETE", path, query={"dryRun": "All", **query(count)})

    ask(4 * LINE_SIZE)
    growth = grow(lambda count: count_calls(lambda: ask(count)), LINE_SIZE)
    assert growth.is_linear, growth
    assert growth.among_many <= CALLS_PER_ITEM, growth


@pytest.mark.parametrize("header", HEADS.values(), ids=HEADS)
def test_the_cost_of_headers_is_linear(header: Any) -> None:
    service = served(1)
    path = service.path(KINDS["Pod"])

    def ask(count: int) -> None:
        service.ask("GET", path, accept=header(count))
        service.ask("GET", f"{path}/p0", accept=header(count))
        service.ask("GET", "/api", accept=header(count))
        service.ask("POST", path, b"{}", content_type=header(count))
        service.ask("PATCH", f"{path}/p0", b"{}", content_type=header(count))

    ask(4 * LINE_SIZE)
    growth = grow(lambda count: count_calls(lambda: ask(count)), LINE_SIZE)
    assert growth.is_linear, growth
    assert growth.among_many <= CALLS_PER_ITEM, growth
