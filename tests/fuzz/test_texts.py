"""Texts with a syntax: they are parsed, or rejected with the exception that callers expect."""

from __future__ import annotations

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from kubesched.api.label_query import parse_label_query
from kubesched.api.quantity import parse_quantity
from kubesched.api.time import parse_time
from kubesched.errors import QuantityError, SelectorError
from kubesched.foundation.cel import CelError, CompiledSelector
from kubesched.foundation.util.yaml_documents import YamlDocument, read_documents
from tests.fuzz.effort import effort

QUANTITY = st.text(alphabet="0123456789.eE+-mnukKMGTPi \u0663", max_size=24)
CEL = st.lists(
    st.sampled_from(
        [
            *(
                "device",
                ".",
                "attributes",
                "[",
                "]",
                '"x"',
                "(",
                ")",
                "==",
                "&&",
                "||",
                "!",
                "-",
                "?",
            ),
            *(
                ":",
                "1",
                "1u",
                "1.5",
                "'a'",
                "in",
                "exists",
                "map",
                "{",
                "}",
                ",",
                "x",
                "true",
                "null",
            ),
            "quantity",
            "semver",
            "9223372036854775808",
            "%",
            "/",
            "0",
            ".matches",
            '"(a+)+$"',
            *(
                "device.driver",
                'device.capacity["a"]',
                ".compareTo",
                "duration('x')",
                "\u00e9",
                '"\\u',
            ),
        ]
    ),
    max_size=14,
).map("".join)
YAML = st.lists(
    st.sampled_from(
        [
            *(
                "a: ",
                "- ",
                "\n",
                "  ",
                "&x ",
                "*x",
                "[",
                "]",
                "{",
                "}",
                '"',
                "'",
                "|\n",
                "---\n",
                "? ",
            ),
            "!!binary ",
            "!!python/object:os.system ",
            "<<: ",
            "1:30",
            "0x1f",
            "2026-01-01",
            "~",
            "\t",
            "\u0000",
            "\u2028",
            "%YAML 1.1\n",
            "!!set ",
            "!!int abc",
            ".inf",
            "é: ",
            "#",
        ]
    ),
    max_size=16,
).map("".join)


@effort(400)
@given(text=QUANTITY)
@example(text="1e" + "9" * 5000)
@example(text="9" * 5000)
@example(text="." * 5000)
def test_quantities(text: str) -> None:
    with contextlib.suppress(QuantityError):
        parse_quantity(text)


@effort(200)
@given(text=st.text(alphabet="0123456789-:TZ.+ ", max_size=32))
@example(text="0000-01-01T00:00:00Z")
@example(text="2026-01-01T00:00:00+99:99")
@example(text="2026-01-01T00:00:00." + "9" * 5000 + "Z")
def test_times(text: str) -> None:
    with contextlib.suppress(ValueError):
        parse_time(text)


@effort(300)
@given(text=CEL)
@example(text="(" * 5000)
@example(text="!" * 5000 + "true")
@example(text="1" + "+1" * 5000)
@example(text='"' + "a" * 100_000)
def test_expressions(text: str) -> None:
    with contextlib.suppress(CelError):
        CompiledSelector.compile(text).matches("driver", {}, {"a": "1"}, None)


@effort(300)
@given(text=YAML)
@example(text="[" * 100_000)
@example(text="a: &a [" + "*a, " * 5 + "]")
@example(text="{? {? {? a")
def test_yaml_files(text: str) -> None:
    for found in read_documents(text):
        if isinstance(found, YamlDocument):
            found.line_of("a.b[0].c[²]")
        else:
            assert found.line >= 1
            assert found.text


@effort(100)
@given(text=st.text(alphabet="abk/.=!,() inot<>0é", max_size=24))
def test_selectors(text: str) -> None:
    with contextlib.suppress(SelectorError):
        parse_label_query(text)
