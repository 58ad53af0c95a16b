"""Bodies that the server cannot decode or does not accept, with the texts of the reference."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.apiserver.rules.schema.field_types import byte_problem
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]
CORE = "/api/v1/namespaces/default"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
SCHEME = 'in scheme "pkg/api/legacyscheme/scheme.go:30"'


def refused(path: str, body: Json) -> tuple[int, str]:
    code, answer = Client().send("POST", path, body)
    return code, answer["message"]


@pytest.mark.parametrize(
    ("version", "kind", "text"),
    [
        ("v1", "Pod", "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
        (
            "apps/v1",
            "Deployment",
            "converting (v1.Deployment) to (core.ConfigMap): unknown conversion",
        ),
        ("v2", "ConfigMap", f'no kind "ConfigMap" is registered for version "v2" {SCHEME}'),
        ("bar/v1", "Foo", f'no kind "Foo" is registered for version "bar/v1" {SCHEME}'),
    ],
)
def test_a_body_of_another_kind(version: str, kind: str, text: str) -> None:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}}
    short = version.rpartition("/")[2]
    wanted = f'{kind} in version "{short}" cannot be handled as a ConfigMap: {text}'
    assert refused(f"{CORE}/configmaps", body) == (400, wanted)


def test_a_body_of_another_version() -> None:
    path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    body = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "x"},
    }
    assert refused(path, body) == (
        400,
        "the API version in the data (autoscaling/v1) does not match the expected API version "
        "(autoscaling/v2)",
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", None),
        ("AAEC", None),
        ("AA==", None),
        ("AA\n==\n", None),
        ("???", 0),
        ("AAE", 0),
        ("AAECA", 4),
        ("AA=C", 2),
        ("AA=", 3),
        ("AA==A", 4),
        ("A===", 1),
    ],
)
def test_bytes_must_be_base64(text: str, place: int | None) -> None:
    """The places are those of Go's `CorruptInputError`."""
    wanted = None if place is None else f"illegal base64 data at input byte {place}"
    assert byte_problem(text) == wanted


@pytest.mark.parametrize(("kind", "field"), [("Secret", "data"), ("ConfigMap", "binaryData")])
def test_data_that_is_not_base64(kind: str, field: str) -> None:
    text = f'{kind} in version "v1" cannot be handled as a {kind}: illegal base64 data at input '
    path = f"{CORE}/{kind.lower()}s"
    body = {"metadata": {"name": "x"}, field: {"good": "AAEC", "bad": "???"}}
    assert refused(path, body) == (400, f"{text}byte 0")
    client = Client()
    client.create(path, {"metadata": {"name": "x"}})
    code, answer = client.send(
        "PATCH", f"{path}/x", {field: {"a": "???"}}, content_type="application/merge-patch+json"
    )
    assert (code, answer["message"]) == (400, f"{text}byte 0")


def test_which_runtime_classes_are_refused() -> None:
    def message(**fields: Json | str) -> str:
        code, text = refused(RUNTIME_CLASSES, {"metadata": {"name": "x"}, **fields})
        assert code == 422
        return text.partition("is invalid: ")[2]

    assert message(handler="A_B").startswith('handler: Invalid value: "A_B": a lowercase RFC 1123')
    assert message().startswith('handler: Invalid value: ""')
    negative = {"podFixed": {"cpu": "-1"}}
    assert message(handler="a", overhead=negative) == (
        'overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0'
    )
    wrong = {"overhead": {"podFixed": {"cpu": "x"}}}
    code, text = refused(RUNTIME_CLASSES, {"metadata": {"name": "x"}, "handler": "a", **wrong})
    assert (code, "quantities must match the regular expression" in text) == (400, True)
    labels = message(handler="a", scheduling={"nodeSelector": {"a b": "c"}})
    assert labels.startswith('scheduling.nodeSelector: Invalid value: "a b"')
    toleration = {"key": "a", "operator": "Exists"}
    twice = message(handler="a", scheduling={"tolerations": [toleration, toleration]})
    assert twice.startswith("scheduling.tolerations[1]: Duplicate value: ")
    client = Client()
    client.create(RUNTIME_CLASSES, {"metadata": {"name": "x"}, "handler": "a"})
    code, answer = client.send(
        "PATCH",
        f"{RUNTIME_CLASSES}/x",
        {"handler": "b"},
        content_type="application/merge-patch+json",
    )
    assert code == 422
    assert 'handler: Invalid value: "b": field is immutable' in answer["message"]


@pytest.mark.parametrize(
    ("namespace", "about", "is_refused"),
    [
        ("default", "", False),
        ("default", "default", False),
        ("default", "kube-system", True),
        ("kube-system", "", True),
        ("kube-system", "kube-system", False),
    ],
)
def test_an_event_is_in_the_namespace_of_its_subject(
    namespace: str, about: str, is_refused: bool
) -> None:
    subject = {"kind": "Pod", "name": "p", **({"namespace": about} if about else {})}
    body = {"metadata": {"name": "e"}, "involvedObject": subject}
    code, answer = Client().send("POST", f"/api/v1/namespaces/{namespace}/events", body)
    text = f'involvedObject.namespace: Invalid value: "{about}": does not match event.namespace'
    assert (code, text in answer.get("message", "")) == (
        (422, True) if is_refused else (201, False)
    )
