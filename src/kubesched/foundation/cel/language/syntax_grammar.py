"""The grammar of CEL as the parser of the reference has it, as points between tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubesched.foundation.cel.language.syntax_tokens import END

__all__ = ["Grammar", "GrammarPoint"]


class GrammarPoint:
    """A point between the parts of a rule: a choice, a call of a rule, a token, or the end."""

    __slots__ = (
        "can_skip", "choices", "deletes", "ends", "is_loop", "kinds", "levels", "next", "rule",
    )  # fmt: skip

    def __init__(self) -> None:
        self.choices: list[GrammarPoint] = []
        # For a choice: whether one wrong token is deleted here, and whether it ends a repetition.
        self.deletes = self.is_loop = False
        self.can_skip = True  # whether the last branch is taken if no other fits
        # For a choice: the precedence of each branch; None: decided by one token; empty: by many.
        self.levels: tuple[int, ...] | None = None
        self.kinds: frozenset[str] = frozenset()
        self.rule: tuple[str, int] | None = None  # and the least precedence within it
        self.next: GrammarPoint | None = None
        self.ends = ""  # the name of the rule that ends here


# Builds a part of a rule, given the point after it.
_Part = Callable[[GrammarPoint], GrammarPoint]


def _token(*kinds: str) -> _Part:
    def build(after: GrammarPoint) -> GrammarPoint:
        point = GrammarPoint()
        point.kinds, point.next = frozenset(kinds), after
        return point

    return build


def _call(rule: str, precedence: int = 0) -> _Part:
    def build(after: GrammarPoint) -> GrammarPoint:
        point = GrammarPoint()
        point.rule, point.next = (rule, precedence), after
        return point

    return build


def _all(*parts: _Part) -> _Part:
    def build(after: GrammarPoint) -> GrammarPoint:
        for part in reversed(parts):
            after = part(after)
        return after

    return build


def _one_of(*parts: _Part, far: bool = True) -> _Part:
    def build(after: GrammarPoint) -> GrammarPoint:
        point = GrammarPoint()
        point.choices, point.deletes = [part(after) for part in parts], True
        point.levels = () if far else None
        point.can_skip = False
        return point

    return build


def _maybe(part: _Part) -> _Part:
    def build(after: GrammarPoint) -> GrammarPoint:
        point = GrammarPoint()
        point.choices, point.deletes = [part(after), after], True
        return point

    return build


def _many(*parts: _Part, far: bool = False, levels: tuple[int, ...] | None = None) -> _Part:
    """Any number of the parts; with `levels`, operators with these precedences."""

    def build(after: GrammarPoint) -> GrammarPoint:
        point = GrammarPoint()
        point.choices = [*(part(point) for part in parts), after]
        point.levels = levels or (() if far else None)
        return point

    return build


def _some(part: _Part, *, far: bool = False) -> _Part:
    """The part once or more often."""

    def build(after: GrammarPoint) -> GrammarPoint:
        point = GrammarPoint()
        first = part(point)
        point.choices, point.is_loop = [first, after], True
        point.levels = () if far else None
        return first

    return build


def _listed(part: _Part, *, far: bool) -> _Part:
    return _all(part, _many(_all(_token("','"), part), far=far))


_DOT, _NAME, _COMMA = _token("'.'"), _token("IDENTIFIER"), _token("','")
_EXPR, _ARGUMENTS = _call("expr"), _maybe(_call("exprList"))
_PAIR: Final = _all(_call("optExpr"), _token("':'"), _EXPR)
_FIELD: Final = _all(_call("optField"), _token("':'"), _EXPR)
_RULES: Final[dict[str, _Part]] = {
    "start": _all(_EXPR, _token(END)),
    "expr": _all(
        _call("conditionalOr"),
        _maybe(_all(_token("'?'"), _call("conditionalOr"), _token("':'"), _EXPR)),
    ),
    "conditionalOr": _all(
        _call("conditionalAnd"), _many(_all(_token("'||'"), _call("conditionalAnd")))
    ),
    "conditionalAnd": _all(_call("relation"), _many(_all(_token("'&&'"), _call("relation")))),
    "relation": _all(
        _call("calc"),
        _many(
            _all(
                _token("'<'", "'<='", "'>='", "'>'", "'=='", "'!='", "'in'"), _call("relation", 2)
            ),
            levels=(1,),
        ),
    ),
    "calc": _all(
        _call("unary"),
        _many(
            _all(_token("'*'", "'/'", "'%'"), _call("calc", 3)),
            _all(_token("'+'", "'-'"), _call("calc", 2)),
            levels=(2, 1),
        ),
    ),
    "unary": _one_of(
        _call("member"),
        _all(_some(_token("'!'")), _call("member")),
        _all(_some(_token("'-'"), far=True), _call("member")),
    ),
    "member": _all(
        _call("primary"),
        _many(
            _one_of(
                _all(_DOT, _maybe(_token("'?'")), _call("escapeIdent")),
                _all(_DOT, _NAME, _token("'('"), _ARGUMENTS, _token("')'")),
                _all(_token("'['"), _maybe(_token("'?'")), _EXPR, _token("']'")),
            ),
            levels=(1,),
        ),
    ),
    "primary": _one_of(
        _all(_maybe(_DOT), _NAME),
        _all(_maybe(_DOT), _NAME, _token("'('"), _ARGUMENTS, _token("')'")),
        _all(_token("'('"), _EXPR, _token("')'")),
        _all(_token("'['"), _maybe(_call("listInit")), _maybe(_COMMA), _token("']'")),
        _all(_token("'{'"), _maybe(_call("mapInitializerList")), _maybe(_COMMA), _token("'}'")),
        _all(
            _maybe(_DOT),
            _NAME,
            _many(_all(_DOT, _NAME)),
            _token("'{'"),
            _maybe(_call("fieldInitializerList")),
            _maybe(_COMMA),
            _token("'}'"),
        ),
        _call("literal"),
    ),
    "exprList": _listed(_EXPR, far=False),
    "listInit": _listed(_call("optExpr"), far=True),
    "fieldInitializerList": _listed(_FIELD, far=True),
    "mapInitializerList": _listed(_PAIR, far=True),
    "optField": _all(_maybe(_token("'?'")), _call("escapeIdent")),
    "optExpr": _all(_maybe(_token("'?'")), _EXPR),
    "escapeIdent": _one_of(_NAME, _token("ESC_IDENTIFIER"), far=False),
    "literal": _one_of(
        _all(_maybe(_token("'-'")), _token("NUM_INT")),
        _token("NUM_UINT"),
        _all(_maybe(_token("'-'")), _token("NUM_FLOAT")),
        *map(_token, ("STRING", "BYTES", "'true'", "'false'", "'null'")),
    ),
}


class Grammar:
    """The points of all rules: where each begins, and where callers continue after it."""

    def __init__(self) -> None:
        self.begins: dict[str, GrammarPoint] = {}
        self.callers: dict[str, list[GrammarPoint]] = {name: [] for name in _RULES}
        for name, build in _RULES.items():
            end = GrammarPoint()
            end.ends = name
            self.begins[name] = build(end)
        seen: set[GrammarPoint] = set()
        pending = list(self.begins.values())
        while pending:
            point = pending.pop()
            if point in seen:
                continue
            seen.add(point)
            pending.extend(point.choices)
            if point.next is not None:
                pending.append(point.next)
                if point.rule is not None:
                    self.callers[point.rule[0]].append(point.next)

    def first(self, point: GrammarPoint) -> tuple[set[str], bool]:
        """Return the tokens that may come next in the rule, and whether it may end here."""
        kinds: set[str] = set()
        may_end = False
        seen: set[GrammarPoint] = set()
        pending = [point]
        while pending:
            point = pending.pop()
            if point in seen:
                continue
            seen.add(point)
            may_end = may_end or bool(point.ends)
            kinds |= point.kinds
            pending.extend(point.choices)
            if point.rule is not None:
                # No rule is empty, so the tokens after the call need not be considered.
                pending.append(self.begins[point.rule[0]])
        return kinds, may_end
