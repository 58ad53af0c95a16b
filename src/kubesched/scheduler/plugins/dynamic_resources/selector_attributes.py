"""The attributes of devices that a selector reads, and the texts that it compares them with.

Explanations use it to show which values the devices have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from kubesched.foundation.cel import CelCompileError
from kubesched.foundation.cel.language.parser import parse
from kubesched.foundation.cel.language.source import Source
from kubesched.foundation.cel.language.syntax import (
    Binary,
    Call,
    Identifier,
    Index,
    Literal,
    Select,
    SyntaxNode,
    children,
)
from kubesched.scheduler.plugins.dynamic_resources.device_content import DeviceContent, value_of

__all__ = ["AttributeUse", "attribute_uses"]


# Methods that compare a capacity with a quantity.
_COMPARING: Final = ("compareTo", "isGreaterThan", "isLessThan")


class AttributeUse(NamedTuple):
    """An attribute or capacity in an expression: `device.attributes["gpu.example.com"].model`."""

    part: str  # attributes or capacity
    domain: str
    name: str
    # The text that the expression compares the attribute with; empty if there is none.
    text: str = ""
    # The offset of this text, with its quotes, in the expression.
    position: int = 0

    def value(self, content: DeviceContent) -> str:
        """Return the device's value as text; empty if the device has none."""
        qualified = f"{self.domain}/{self.name}"
        if self.part == "attributes":
            attribute = content.attribute(qualified)
            found = None if attribute is None else value_of(attribute)
            return "" if found is None else str(found[1])
        capacities = content.device.capacity
        found_capacity = capacities.get(qualified)
        if found_capacity is None and self.domain == content.driver:
            found_capacity = capacities.get(self.name)
        return "" if found_capacity is None else str(found_capacity.value)

    def corrected(self, expression: str, text: str) -> str:
        """Return the expression with another text; empty if that is not a plain replacement."""
        old = expression[self.position : self.position + len(self.text) + 2]
        if not self.text or old not in (f'"{self.text}"', f"'{self.text}'"):
            return ""
        if not text.isprintable() or any(each in text for each in "\"'\\"):
            return ""
        after = expression[self.position + len(old) :]
        return f"{expression[: self.position]}{old[0]}{text}{old[0]}{after}"


def attribute_uses(expression: str) -> tuple[AttributeUse, ...]:
    """Return the attributes that an expression reads, each once; none if it does not parse."""
    try:
        tree = parse(Source(expression))
    except CelCompileError:
        return ()
    found: dict[tuple[str, str, str], AttributeUse] = {}
    for use in _uses(tree):
        key = use[:3]
        if key not in found or not found[key].text:
            found[key] = use
    return tuple(found.values())


def _uses(node: SyntaxNode) -> Iterator[AttributeUse]:
    use = _equality(node) or _comparison(node) or _use(node)
    if use is not None:
        yield use
        return
    for child in children(node):
        yield from _uses(child)


def _equality(node: SyntaxNode) -> AttributeUse | None:
    """Return the attribute that is equal to a text, on either side."""
    if not isinstance(node, Binary) or node.operator != "==":
        return None
    return _compared(node.left, node.right) or _compared(node.right, node.left)


def _comparison(node: SyntaxNode) -> AttributeUse | None:
    """Return the capacity that a method compares with a quantity."""
    if not isinstance(node, Call) or node.function not in _COMPARING:
        return None
    if not node.target or not node.arguments:
        return None
    quantity = node.arguments[0]
    if not isinstance(quantity, Call) or quantity.function != "quantity":
        return None
    return _compared(node.target, quantity.arguments[0]) if quantity.arguments else None


def _compared(node: SyntaxNode, text: SyntaxNode) -> AttributeUse | None:
    """Return the use of an attribute with the text that it is compared with."""
    use = _use(node)
    if use is None or not isinstance(text, Literal) or not isinstance(text.value, str):
        return None
    return use._replace(text=text.value, position=text.position)


def _use(node: SyntaxNode) -> AttributeUse | None:
    """Return the attribute if the expression is one: `device.attributes[DOMAIN].NAME`."""
    if isinstance(node, Select):
        name, inner = node.field, node.operand
    elif isinstance(node, Index) and (key := _text(node.key)):
        name, inner = key, node.operand
    else:
        return None
    if not isinstance(inner, Index) or not (domain := _text(inner.key)):
        return None
    part = inner.operand
    if not isinstance(part, Select) or part.field not in ("attributes", "capacity"):
        return None
    if not isinstance(part.operand, Identifier) or part.operand.name != "device":
        return None
    return AttributeUse(part.field, domain, name)


def _text(node: SyntaxNode) -> str:
    return node.value if isinstance(node, Literal) and isinstance(node.value, str) else ""
