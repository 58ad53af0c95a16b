"""Properties of every API type."""

from __future__ import annotations

import re

import msgspec
import pytest

from kubesched import api
from kubesched.api import ApiStruct, ObjectMeta, Pod

TYPES = sorted(
    (
        each
        for each in (getattr(api, name) for name in api.__all__)
        if isinstance(each, type) and issubclass(each, ApiStruct)
    ),
    key=lambda each: (each.__module__, each.__name__),
)
# The results of a plain camel-case rename for the API's IP, ID, UUID and the like.
WRONG_CASE = re.compile(r"(Ip|Id|Uri|Cidr|Pid|Ipc|Uuid|Fqdn|Api|Wwn|Io)s?(?![a-z])")


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_field_has_a_default_and_the_api_spelling(kind: type[ApiStruct]) -> None:
    assert msgspec.json.decode(b"{}", type=kind) == kind()
    assert msgspec.json.encode(kind()) == b"{}"
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    assert [name for name in names if WRONG_CASE.search(name)] == []


def test_objects_are_immutable() -> None:
    with pytest.raises(AttributeError):
        Pod().metadata.name = "x"  # type: ignore[misc]


def test_a_change_is_a_new_object() -> None:
    before = Pod(metadata=ObjectMeta(name="a"))
    after = msgspec.structs.replace(before, metadata=ObjectMeta(name="b"))
    assert (before.metadata.name, after.metadata.name) == ("a", "b")


def test_repr_shows_the_fields_that_are_set() -> None:
    assert repr(Pod(metadata=ObjectMeta(name="a"))) == "Pod(metadata=ObjectMeta(name='a'))"


def test_every_exported_name_exists() -> None:
    assert [name for name in api.__all__ if not hasattr(api, name)] == []
    assert len(set(api.__all__)) == len(api.__all__)
