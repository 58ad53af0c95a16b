"""YAML that is too deep, or too large after alias expansion, is refused early."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.foundation.util.yaml_limits import YamlLimitError, check_yaml

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

REFUSED = {
    "brackets": ("[" * 100_000, "exceeded max depth"),
    "closed brackets": ("[" * 100_000 + "]" * 100_000, "exceeded max depth"),
    "braces": ("{a: " * 50_000, "exceeded max depth"),
    "dashes": ("- " * 100_000 + "a", "exceeded max depth"),
    "indentation": ("\n".join(" " * n + "a:" for n in range(1_500)), "exceeded max depth"),
    "a billion values": (BOMB, "excessive aliasing"),
    "a value in itself": ("a: &a [*a]", "contains itself"),
    "a value in a part of itself": ("a: &a {b: {c: *a}}", "contains itself"),
}


@pytest.mark.parametrize(("text", "problem"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, problem: str) -> None:
    with pytest.raises(YamlLimitError, match=problem):
        check_yaml(text)


TAKEN = {
    "nothing": "",
    "as deep as is allowed": "[" * 1_000 + "]" * 1_000,
    "an alias of ordinary use": "a: &a {b: 1}\nc: *a\nd: {<<: *a}\n",
    "many documents, each with its anchors": "a: &a [1,2,3]\nb: *a\n---\n" * 100,
}


@pytest.mark.parametrize("text", TAKEN.values(), ids=TAKEN)
def test_taken(text: str) -> None:
    check_yaml(text)


def size(value: object) -> int:
    if isinstance(value, dict):
        return 1 + sum(1 + size(each) for each in value.values())
    return 1 + sum(map(size, value)) if isinstance(value, list) else 1


@settings(max_examples=200)
@given(st.text("ab&*[]{}:,-# \n'\"!|>%@?<\t~1", max_size=60))
def test_accepted_yaml_is_small_after_parsing(text: str) -> None:
    try:
        check_yaml(text)
        documents = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    except (yaml.YAMLError, ValueError, TypeError):
        return
    assert size(documents) < 200_000
