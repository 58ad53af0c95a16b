"""Syntax errors: the messages of the parser that Kubernetes uses, for invalid expressions.

The expectations come from the tests of that parser, or follow from its grammar and its rules of
recovery.
"""

from __future__ import annotations

import pytest

from kubesched.foundation.cel.language.cel_errors import CelCompileError
from kubesched.foundation.cel.language.parser import parse
from kubesched.foundation.cel.language.source import Source
from kubesched.foundation.cel.language.syntax_errors import find_syntax_errors

EXPRESSION = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, "
    "BYTES, IDENTIFIER}"
)
OR_ENTRY = EXPRESSION.replace("'('", "'}', '('").replace("'-', '!'", "',', '-', '!', '?'")
OR_FIELD = "{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"

# By text: the column of each error (from 1), and its words.
CASES: dict[str, list[tuple[int, str]]] = {
    "": [(1, f"mismatched input '<EOF>' expecting {EXPRESSION}")],
    "device.driver ==": [(17, f"mismatched input '<EOF>' expecting {EXPRESSION}")],
    "1 + +": [
        (5, f"mismatched input '+' expecting {EXPRESSION}"),
        (6, f"mismatched input '<EOF>' expecting {EXPRESSION}"),
    ],
    "user = 'test'": [
        (6, "token recognition error at: '= '"),
        (8, "extraneous input ''test'' expecting <EOF>"),
    ],
    "a | b": [
        (3, "token recognition error at: '| '"),
        (5, "extraneous input 'b' expecting <EOF>"),
    ],
    "*@a | b": [
        (1, f"extraneous input '*' expecting {EXPRESSION}"),
        (2, "token recognition error at: '@'"),
        (5, "token recognition error at: '| '"),
        (7, "extraneous input 'b' expecting <EOF>"),
    ],
    "1 @ 1": [
        (3, "token recognition error at: '@'"),
        (5, "extraneous input '1' expecting <EOF>"),
    ],
    '{"a": 1}."a"': [(10, "no viable alternative at input '.\"a\"'")],
    '"\\xFh"': [
        (1, "token recognition error at: '\"\\xFh'"),
        (6, "token recognition error at: '\"'"),
        (7, f"mismatched input '<EOF>' expecting {EXPRESSION}"),
    ],
    "in": [
        (1, f"mismatched input 'in' expecting {EXPRESSION}"),
        (3, f"mismatched input '<EOF>' expecting {EXPRESSION}"),
    ],
    "foo.": [(5, "no viable alternative at input '.'")],
    "....": [(2, "no viable alternative at input '..'")],
    "-": [
        (2, "no viable alternative at input '-'"),
        (2, f"mismatched input '<EOF>' expecting {EXPRESSION}"),
    ],
    "--": [
        (3, "no viable alternative at input '-'"),
        (3, f"mismatched input '<EOF>' expecting {EXPRESSION}"),
    ],
    "?": [
        (1, f"mismatched input '?' expecting {EXPRESSION}"),
        (2, f"mismatched input '<EOF>' expecting {EXPRESSION}"),
    ],
    "{": [(2, f"mismatched input '<EOF>' expecting {OR_ENTRY}")],
    "{a}": [(3, "mismatched input '}' expecting ':'")],
    "{:a}": [
        (2, f"extraneous input ':' expecting {OR_ENTRY}"),
        (4, "mismatched input '}' expecting ':'"),
    ],
    "msg{:a}": [
        (5, f"extraneous input ':' expecting {OR_FIELD}"),
        (7, "mismatched input '}' expecting ':'"),
    ],
    "func{{a}}": [
        (6, f"extraneous input '{{' expecting {OR_FIELD}"),
        (8, "mismatched input '}' expecting ':'"),
        (9, "extraneous input '}' expecting <EOF>"),
    ],
    "ind[a{b}]": [(8, "mismatched input '}' expecting ':'")],
    "{1:305 2:569}": [(8, "mismatched input '2' expecting {'}', ','}")],
    "want.filter(l, !(lin resource.labels))": [
        (22, "mismatched input 'resource' expecting ')'"),
        (38, "extraneous input ')' expecting <EOF>"),
    ],
    "text.format(missing])": [(20, "extraneous input ']' expecting ')'")],
    "(1": [(3, "missing ')' at '<EOF>'")],
    "f(1": [(4, "missing ')' at '<EOF>'")],
    "a ? b": [(6, "mismatched input '<EOF>' expecting ':'")],
    "a\t b": [(4, "extraneous input 'b' expecting <EOF>")],
}


@pytest.mark.parametrize(("text", "want"), CASES.items())
def test_syntax_errors(text: str, want: list[tuple[int, str]]) -> None:
    assert [(each.position + 1, each.message) for each in find_syntax_errors(text)] == want


@pytest.mark.parametrize(
    "text",
    [
        "a == 1 ? 2u : [-1, 2.5,]",
        "a.b[?0].c(1, x.y) && !c || -d in {?'k': .e, 'l': f{g: 1}}",
        "!-1",
        "r'\\' + b\"x\" // end",
    ],
)
def test_a_valid_expression_has_no_syntax_errors(text: str) -> None:
    assert find_syntax_errors(text) == []


def test_every_error_is_shown_with_its_line_and_a_caret() -> None:
    with pytest.raises(CelCompileError) as caught:
        parse(Source("'😁' in x\n\t&& in.😁"))
    assert str(caught.value) == (
        f"ERROR: <input>:2:5: Syntax error: extraneous input 'in' expecting {EXPRESSION}\n"
        " |  && in.😁\n"
        " | ....^\n"
        "ERROR: <input>:2:8: Syntax error: token recognition error at: '😁'\n"
        " |  && in.😁\n"
        " | .......\uff3e\n"
        "ERROR: <input>:2:9: Syntax error: no viable alternative at input '.'\n"
        " |  && in.😁\n"
        " | .......\uff0e^"
    )


def test_repairs_are_limited() -> None:
    problems = find_syntax_errors("f(??)+" * 200)
    assert problems[-1].message == "error recovery attempt limit exceeded: 30"
    assert len(problems) <= 32


def test_error_recovery_of_a_long_text_is_limited() -> None:
    problems = find_syntax_errors("a." + " )" * 300)
    assert problems[0].position == -1
    assert problems[0].message == "error recovery token lookahead limit exceeded: 256"


def test_syntax_errors_of_many_signs_are_found_in_linear_time() -> None:
    assert len(find_syntax_errors("-1 + " * 900)) == 1
