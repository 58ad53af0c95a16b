"""Unification: assignability of types, and the values of type parameters."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.foundation.cel.language.expression_types import DYN, Type

__all__ = ["Substitutions", "most_general"]


class Substitutions:
    """What each type parameter was found to be."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        # Bindings of the current attempt, and those of earlier ones.
        self._trail: list[tuple[str, Type | None]] = []
        self._fresh = 0

    def fresh(self) -> Type:
        """Create an unbound type parameter."""
        self._fresh += 1
        return Type(f"_var{self._fresh}", is_parameter=True)

    def assignable(self, given: Type, wanted: Type) -> bool:
        """Whether a type matches another; if so, the bindings of parameters are stored."""
        return self.all_assignable((given,), (wanted,))

    def all_assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Whether each type is assignable to its counterpart.

        No variable is bound if one is not.
        """
        if len(given) != len(wanted):
            return False
        self._trail.clear()
        if all(map(self._fits, given, wanted)):
            return True
        for name, before in reversed(self._trail):
            if before is None:
                del self._known[name]
            else:
                self._known[name] = before
        return False

    def _bind(self, variable: Type, found: Type) -> None:
        self._trail.append((variable.name, self._known.get(variable.name)))
        self._known[variable.name] = found

    def resolve(self, found: Type, *, free_to_dyn: bool = False) -> Type:
        """Return the type with its bindings; unbound parameters become `dyn` if requested."""
        if found.is_parameter:
            known = self._known.get(found.name)
            if known is not None:
                return self.resolve(known, free_to_dyn=free_to_dyn)
            return DYN if free_to_dyn else found
        if not found.parameters:
            return found
        inner = tuple(self.resolve(part, free_to_dyn=free_to_dyn) for part in found.parameters)
        return Type(found.name, inner, is_nullable=found.is_nullable)

    def instantiate(self, types: Sequence[Type]) -> tuple[Type, ...]:
        """The types of a signature with fresh parameters for its own."""
        renamed: dict[str, Type] = {}
        return tuple(self._rename(part, renamed) for part in types)

    def _rename(self, found: Type, renamed: dict[str, Type]) -> Type:
        if found.is_parameter:
            if found.name not in renamed:
                renamed[found.name] = self.fresh()
            return renamed[found.name]
        if not found.parameters:
            return found
        inner = tuple(self._rename(part, renamed) for part in found.parameters)
        return Type(found.name, inner, is_nullable=found.is_nullable)

    def _fits(self, given: Type, wanted: Type) -> bool:
        if wanted.is_parameter:
            fits, was_known = self._substitutes(given, wanted)
            if fits or was_known:
                return fits
        if given.is_parameter:
            return self._substitutes(wanted, given)[0]
        if given.is_dynamic or wanted.is_dynamic:
            return True
        if given.name == "null_type" or wanted.name == "null_type":
            return given.is_nullable and wanted.is_nullable
        if given.name != wanted.name:
            return False
        if given.name == "type":
            return True
        return len(given.parameters) == len(wanted.parameters) and all(
            map(self._fits, given.parameters, wanted.parameters)
        )

    def _substitutes(self, found: Type, variable: Type) -> tuple[bool, bool]:
        """Whether a parameter can be bound to a type, and whether it was bound before."""
        known = self._known.get(variable.name)
        if known is not None:
            if known == found:
                return True, True
            if self._fits(found, known):
                self._bind(variable, most_general(found, known))
                return True, True
            return False, True
        if self._occurs(variable, found):
            return found == variable, False
        self._bind(variable, found)
        return True, False

    def _occurs(self, variable: Type, inside: Type) -> bool:
        if inside == variable:
            return True
        if inside.is_parameter:
            known = self._known.get(inside.name)
            return known is not None and self._occurs(variable, known)
        return any(self._occurs(variable, part) for part in inside.parameters)


def most_general(first: Type, second: Type) -> Type:
    """The less specific of two types that fit each other."""
    return first if _covers(first, second) else second


def _covers(first: Type, second: Type) -> bool:
    if first.is_dynamic or first.is_parameter:
        return True
    if second.is_dynamic or second.is_parameter or first.name != second.name:
        return False
    return first.name == "type" or all(map(_covers, first.parameters, second.parameters))
