"""Field selectors over typed objects and dictionaries."""

from __future__ import annotations

import pytest

from kubesched.api import (
    ConfigMap,
    Event,
    Node,
    NodeSpec,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodSpec,
    PodStatus,
)
from kubesched.api.codec import to_builtins
from kubesched.api.fields import FieldSelector, FieldTerm
from kubesched.errors import SelectorError

POD = Pod(
    metadata=ObjectMeta(name="p", namespace="ns"),
    spec=PodSpec(node_name="n1", host_network=True),
    status=PodStatus(phase="Running", pod_ip="10.0.0.1"),
)

CASES = {
    "": True,
    "metadata.name=p": True,
    "metadata.name==p,metadata.namespace=ns": True,
    "metadata.name!=p": False,
    "spec.nodeName=": False,
    "spec.nodeName!=": True,
    "status.phase!=Failed,status.phase!=Succeeded": True,
    "status.phase=Pending": False,
    "status.podIP=10.0.0.1": True,
    "spec.hostNetwork=true": True,
    "status.nominatedNodeName=": True,
    "metadata.name=p,": True,
}


@pytest.mark.parametrize(("text", "want"), CASES.items(), ids=CASES)
def test_matches(text: str, want: bool) -> None:
    selector = FieldSelector.parse(text, Pod)
    assert selector.matches(POD) is want
    assert selector.matches(to_builtins(POD)) is want
    assert selector.for_kind(Pod)(POD) is want


def test_other_kinds() -> None:
    node = Node(spec=NodeSpec(unschedulable=True))
    assert FieldSelector.parse("spec.unschedulable=true", Node).matches(node)
    assert FieldSelector.parse("spec.unschedulable=false", Node).matches(Node())
    assert FieldSelector.parse("spec.unschedulable=false", Node).for_kind(Node)(Node())
    event = Event(involved_object=ObjectReference(kind="Pod", name="p"))
    assert FieldSelector.parse("involvedObject.name=p,involvedObject.kind=Pod", Event).matches(
        event
    )


def test_values_may_be_escaped() -> None:
    selector = FieldSelector.parse(r"metadata.name=a\,b\=c\\d")
    assert selector.terms == (FieldTerm("metadata.name", r"a,b=c\d"),)
    assert FieldSelector.parse(str(selector)) == selector


WRONG = {
    "metadata.name": "invalid selector: 'metadata.name'; can't understand 'metadata.name'",
    "spec.nope=1": "field label not supported: spec.nope",
    "metadata.name=a=b": "invalid field selector: unescaped character in value: 61",
    r"metadata.name=\x": r"invalid field selector: invalid escape sequence: \x",
}


@pytest.mark.parametrize(("text", "want"), WRONG.items(), ids=WRONG)
def test_invalid_selectors(text: str, want: str) -> None:
    with pytest.raises(SelectorError) as error:
        FieldSelector.parse(text, Pod)
    assert str(error.value) == want


def test_most_kinds_can_only_be_selected_by_name_and_namespace() -> None:
    assert FieldSelector.parse("metadata.name=x", ConfigMap).terms
    with pytest.raises(SelectorError) as error:
        FieldSelector.parse("data=x", ConfigMap)
    assert str(error.value) == (
        '"data" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )
