"""The registry of kinds agrees with the discovery documents of a real API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubesched import api
from kubesched.api import KINDS, ApiObject, Kind, Pod, by_api_version_kind, by_plural, kind_of
from kubesched.api.kinds import REVIEWS


def test_both_forms_of_discovery_describe_the_same_kinds(goldens: Path) -> None:
    served = {}
    for line in (goldens / "wire.jsonl").read_text().splitlines():
        body = json.loads(line)["response"].get("body")
        if isinstance(body, dict) and body.get("kind") == "APIResourceList":
            for resource in body["resources"]:
                served[body["groupVersion"], resource["name"]] = resource
    compared = 0
    for kind in KINDS:
        resource = served.get((kind.api_version, kind.plural))
        if resource is None:
            continue
        compared += 1
        assert resource["kind"] == kind.kind
        assert resource["singularName"] == kind.singular
        assert resource["namespaced"] == kind.namespaced
        assert tuple(resource.get("shortNames", ())) == kind.short_names
    assert compared >= 24


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version}/{kind.kind}")
def test_every_kind_is_found_by_type_manifest_and_url(kind: Kind) -> None:
    assert kind_of(kind.type) is kind
    assert by_api_version_kind(kind.api_version, kind.kind) is kind
    assert by_plural(kind.group, kind.version, kind.plural) is kind


def test_every_top_level_type_is_a_kind() -> None:
    exported = (getattr(api, name) for name in api.__all__)
    types = {
        each
        for each in exported
        if isinstance(each, type) and issubclass(each, ApiObject) and each.kind
    }
    assert types - {kind.type for kind in (*KINDS, *REVIEWS)} == {api.List, api.Status}


@pytest.mark.parametrize("review", REVIEWS, ids=lambda review: review.kind)
def test_reviews_have_a_url_but_no_manifest(review: Kind) -> None:
    assert kind_of(review.type) is review
    assert by_api_version_kind(review.api_version, review.kind) is None


def test_recorded_reviews_are_decoded(goldens: Path) -> None:
    answers = {}
    for line in (goldens / "wire.jsonl").read_text().splitlines():
        exchange = json.loads(line)
        if exchange["name"] in ("token review", "token review bad", "access review"):
            kind = api.TokenReview if "token" in exchange["name"] else api.SubjectAccessReview
            answers[exchange["name"]] = api.from_builtins(exchange["response"]["body"], kind)
    assert answers["token review"].status.user == api.UserInfo(
        username="admin", uid="admin", groups=("system:masters", "system:authenticated")
    )
    assert answers["token review bad"].status == api.TokenReviewStatus(error="invalid bearer token")
    assert answers["access review"].status == api.SubjectAccessReviewStatus(allowed=True)


def test_names_of_a_core_and_of_a_grouped_kind() -> None:
    pod = kind_of(Pod)
    assert (pod.group, pod.version, pod.group_resource) == ("", "v1", "pods")
    replica_set = kind_of(api.ReplicaSet)
    assert (replica_set.group, replica_set.group_resource) == ("apps", "replicasets.apps")


def test_unknown_names_have_no_kind() -> None:
    assert by_api_version_kind("example.com/v1", "Widget") is None
    assert by_plural("", "v1", "widgets") is None
    with pytest.raises(KeyError):
        kind_of(api.PodSpec)
