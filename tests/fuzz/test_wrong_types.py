"""Documents of every kind, with one value of a wrong type: the answer is never a 500.

Every place of a valid document gets each of a few values in turn, by a POST, a PUT and a patch. No
choice is left to chance.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fuzz.service import KINDS, TABLE, Service

Json = dict[str, Any]
_Place = tuple[str | int, ...]

MANIFESTS = Path(__file__).parents[1] / "integration" / "manifests"
WRONG: tuple[Any, ...] = (5, "x", [None], [5], {}, {"a": 5})
MERGE = "application/merge-patch+json"
REPLICAS = {"metadata": {"name": "x"}, "spec": {"replicas": 3}}
TOKEN = {
    "spec": {
        "audiences": ["a"],
        "expirationSeconds": 600,
        "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x", "uid": "x"},
    }
}
SUBRESOURCES = {
    "Deployment": ("scale", REPLICAS),
    "ReplicaSet": ("scale", REPLICAS),
    "StatefulSet": ("scale", REPLICAS),
    "ServiceAccount": ("token", TOKEN),
    "Namespace": ("finalize", {"metadata": {"name": "x"}, "spec": {"finalizers": ["a"]}}),
}


def documents() -> dict[str, Json]:
    """Return a document of each kind."""
    found: dict[str, Json] = {}
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") in KINDS:
                document["metadata"].pop("namespace", None)
                found.setdefault(document["kind"], document)
    return found


DOCUMENTS = documents()


def places(value: Any, before: _Place = ()) -> Iterator[_Place]:
    if before:
        yield before
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        yield from places(item, (*before, key))


def changed(document: Json, place: _Place, value: Any) -> Json:
    result = copy.deepcopy(document)
    part: Any = result
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    return result


def test_there_are_documents_of_most_kinds() -> None:
    assert len(DOCUMENTS) > 25


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_wrong_types(kind: str) -> None:
    document, resource, service = DOCUMENTS[kind], KINDS[kind], Service()
    name = document["metadata"]["name"]
    path, item = service.path(resource), service.path(resource, name)
    service.ask("POST", path, document)
    for place in places(document):
        for value in WRONG:
            wrong = changed(document, place, value)
            service.ask("PUT", item, wrong)
            service.ask("PATCH", item, wrong, content_type=MERGE)
            if isinstance(wrong["metadata"], dict) and place != ("metadata", "name"):
                wrong["metadata"]["name"] = "other"
            status, _ = service.ask("POST", path, wrong)
            if status == 201:
                service.ask("GET", path, accept=TABLE)
                service.ask("DELETE", f"{path}/other", query={"gracePeriodSeconds": "0"})


@pytest.mark.parametrize("kind", SUBRESOURCES)
def test_wrong_types_for_subresources(kind: str) -> None:
    resource, service = KINDS[kind], Service()
    subresource, body = SUBRESOURCES[kind]
    document = DOCUMENTS[kind]
    service.ask("POST", service.path(resource), document)
    path = service.path(resource, document["metadata"]["name"], subresource)
    for place in places(body):
        for value in (*WRONG, None):
            for method in ("POST", "PUT"):
                service.ask(method, path, changed(body, place, value))
            service.ask("PATCH", path, changed(body, place, value), content_type=MERGE)
