"""YAML in and out, by the reference's rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.errors import ConfigError
from kubesched.scheduler.config.yaml_output import dump_yaml
from kubesched.scheduler.config.yaml_text import read_yaml

SCALARS: dict[str, Any] = {
    "y": True,
    "Off": False,
    "~": None,
    "null": None,
    "010": 8,
    "08": 8,
    "0x1F": 31,
    "0b11": 3,
    "0o17": 15,
    "1_000": 1000,
    "+5": 5,
    "-7": -7,
    "1.5": 1.5,
    "1e3": 1000,
    ".5": 0.5,
    "1:30": "1:30",
    "2001-12-14": "2001-12-14",
    "'5'": "5",
    '"yes"': "yes",
    "!!str 5": "5",
    "!!int 5": 5,
    "!!float 5": 5,
    "! 5": "5",
    "!!binary aGVsbG8=": "hello",
    "1.2.3": "1.2.3",
    "-": [None],
}


@pytest.mark.parametrize(("text", "want"), SCALARS.items())
def test_scalar(text: str, want: Any) -> None:
    value, problems = read_yaml(text)
    assert value == want
    assert type(value) is type(want)
    assert problems == ()


def test_anchors_and_merges() -> None:
    text = "base: &b {p: 1, q: 2}\ncopy: *b\nmore: {<<: *b, r: 3}\n"
    assert read_yaml(text)[0] == {
        "base": {"p": 1, "q": 2},
        "copy": {"p": 1, "q": 2},
        "more": {"p": 1, "q": 2, "r": 3},
    }


def test_keys_become_text() -> None:
    assert read_yaml("{y: 1, 2: 3, x: 4}")[0] == {"true": 1, "2": 3, "x": 4}


REFUSED = {
    "alias to nothing": ("a: *x", "yaml: unknown anchor 'x' referenced"),
    "alias to itself": ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
    "merge of a number": (
        "{<<: 1}",
        "yaml: map merge requires map or sequence of maps as the value",
    ),
    "text tagged as a number": ("!!int abc", "yaml: cannot decode !!str `abc` as a !!int"),
    "not a number": ("a: .nan", "json: unsupported value: NaN"),
    "infinity": ("a: -.inf", "json: unsupported value: -Inf"),
}


@pytest.mark.parametrize(("text", "want"), REFUSED.values(), ids=REFUSED)
def test_refused(text: str, want: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text)
    assert str(caught.value) == want


def test_aliases_that_multiply_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 8)]
    with pytest.raises(ConfigError, match="document contains excessive aliasing"):
        read_yaml("\n".join(lines))


def test_every_repeated_key_is_reported_with_its_line() -> None:
    _, (problem,) = read_yaml("a: 1\nb: {c: 1, c: 2}\na:\n  x: 1\n5: 1\n5: 2\n")
    assert problem == (
        "yaml: unmarshal errors:\n"
        '  line 2: key "c" already set in map\n'
        '  line 4: key "a" already set in map\n'
        "  line 6: key 5 already set in map"
    )


OUTPUT = {
    "text that looks like something else is quoted": (
        ["true", "y", "1", "0x1", "1.5", "~", "", "2001-01-01", "1:30", "<<"],
        '- "true"\n- "y"\n- "1"\n- "0x1"\n- "1.5"\n- "~"\n- ""\n- "2001-01-01"\n- "1:30"\n- "<<"\n',
    ),
    "text that YAML would misread is quoted": (["*", "a: b", "#x"], "- '*'\n- 'a: b'\n- '#x'\n"),
    "plain text stays plain": (["10m0s", "a/b", "é"], "- 10m0s\n- a/b\n- é\n"),
    "numbers have no needless fraction": ([1.0, 0.1, 1e21, 1e-7], "- 1\n- 0.1\n- 1e+21\n- 1e-07\n"),
    "several lines": ({"a": "x\ny\n"}, "a: |\n  x\n  y\n"),
    "lists stand level with their key": ({"b": [1, None], "a": {}}, "a: {}\nb:\n- 1\n- null\n"),
    "numbers in keys count": ({"a10": 1, "a9": 2, "a_": 3}, "a_: 3\na9: 2\na10: 1\n"),
}


@pytest.mark.parametrize(("value", "want"), OUTPUT.values(), ids=OUTPUT)
def test_written(value: Any, want: str) -> None:
    assert dump_yaml(value) == want


texts = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_written_yaml_is_read_back_unchanged(value: Any) -> None:
    assert read_yaml(dump_yaml(value)) == (value, ())
