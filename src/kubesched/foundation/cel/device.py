"""Device selectors of DRA: CEL expressions that select devices.

The rules are in docs/reference/08 §9. A selector is compiled once (`DeviceSelector.compile`,
cached by its text); a device is converted once (`DeviceInput`) and then evaluated by any number
of selectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from kubesched.api.base import RawQuantity
from kubesched.api.dynamic_resources import DeviceAttribute, DeviceCapacity
from kubesched.api.quantity import parse_quantity
from kubesched.foundation.cel.kubernetes import LIBRARIES
from kubesched.foundation.cel.language.cel_errors import (
    CelCompileError,
    CelError,
    CelRuntimeError,
    EvaluationError,
)
from kubesched.foundation.cel.language.cel_values import Value, type_name
from kubesched.foundation.cel.language.environment import Environment
from kubesched.foundation.cel.language.expression_types import (
    ANY,
    BOOL,
    DYN,
    STRING,
    ObjectType,
    Type,
    map_of,
    named,
)
from kubesched.foundation.cel.language.program import Program, compile_expression
from kubesched.foundation.cel.language.semver import parse_semver
from kubesched.foundation.cel.library.quantity_functions import QUANTITY

__all__ = ["DEVICE_COST_LIMIT", "CompiledSelector", "DeviceInput", "clear_compiled"]

DEVICE_COST_LIMIT: Final = 1_000_000
_DEVICE: Final = "kubernetes.DRADevice"
_CACHED_SELECTORS: Final = 1024


# A capacity of a device, or only its amount.
Capacity: TypeAlias = DeviceCapacity | RawQuantity


def _environment(attribute: Type) -> Environment:
    fields = {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    return Environment(
        {"device": named(_DEVICE)},
        libraries=LIBRARIES,
        objects=[ObjectType(_DEVICE, fields)],
        cost_limit=DEVICE_COST_LIMIT,
    )


_PLAIN: Final = _environment(ANY)
_WITH_LISTS: Final = _environment(DYN)


class _Domains(dict[str, dict[str, Value]]):
    """The names of each domain. An unknown domain is an empty one."""

    __slots__ = ()

    def __missing__(self, domain: str) -> dict[str, Value]:
        return {}

    def get(self, key: Value, default: Value = None) -> Value:
        return self[key] if type(key) is str else default


class DeviceInput:
    """A device converted to CEL values.

        A value that cannot be converted is an error of every selector on this device; `failure` is
    that error.
    """

    __slots__ = ("failure", "value")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttribute],
        capacity: Mapping[str, Capacity],
        allow_multiple_allocations: bool | None,
        *,
        list_attributes: bool = False,
    ) -> None:
        self.failure: CelRuntimeError | None = None
        self.value: dict[str, Value] = {
            "driver": driver,
            "allowMultipleAllocations": bool(allow_multiple_allocations),
        }
        try:
            self.value["attributes"] = _attributes(driver, attributes, with_lists=list_attributes)
        except CelRuntimeError as error:
            self.failure = error
        capacities = _Domains()
        for name, held in capacity.items():
            domain, identifier = _split(name, driver)
            text = held.value if isinstance(held, DeviceCapacity) else held
            capacities.setdefault(domain, {})[identifier] = parse_quantity(text)
        self.value["capacity"] = capacities


class CompiledSelector:
    """A compiled selector."""

    __slots__ = ("_program", "expression")

    def __init__(self, program: Program) -> None:
        self.expression = program.expression
        self._program = program

    @staticmethod
    def compile(expression: str, *, list_attributes: bool = False) -> CompiledSelector:
        """Compile an expression; the same text is compiled once.

        `list_attributes` is the feature gate DRAListTypeAttributes.

        Raises:
            CelCompileError: the text after `CEL compile error: ` in the reference's messages.
        """
        return _compiled(expression, list_attributes)

    def matches(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttribute],
        capacity: Mapping[str, Capacity],
        allow_multiple_allocations: bool | None,
    ) -> bool:
        """Whether the selector selects a device.

        Raises:
            CelRuntimeError: the text after `CEL runtime error: ` in the reference's messages.
        """
        return self.selects(DeviceInput(driver, attributes, capacity, allow_multiple_allocations))

    def selects(self, device: DeviceInput) -> bool:
        """Whether the selector selects a converted device."""
        return self.selects_at_cost(device)[0]

    def selects_at_cost(self, device: DeviceInput) -> tuple[bool, int]:
        """Return whether the selector selects a device, and the cost of the evaluation."""
        if device.failure is not None:
            raise device.failure
        result, cost = self._program.evaluate_with_cost(device.value)
        if result is True or result is False:
            return result, cost
        raise _not_bool(result)


@lru_cache(maxsize=_CACHED_SELECTORS)
def _compiled(expression: str, list_attributes: bool) -> CompiledSelector:
    try:
        program = compile_expression(expression, _WITH_LISTS if list_attributes else _PLAIN)
    except CelCompileError as error:
        raise CelCompileError(f"compilation failed: {error}") from None
    accepted = ("bool", "any", "dyn") if list_attributes else ("bool", "any")
    if program.output_type.name not in accepted:
        raise CelCompileError(
            f"must evaluate to bool or the unknown type, not {program.output_type}"
        )
    return CompiledSelector(program)


def clear_compiled() -> None:
    """Clear the cache of compiled selectors; for benchmarks."""
    _compiled.cache_clear()


def _split(name: str, driver: str) -> tuple[str, str]:
    """Split a qualified name into domain and identifier; the default domain is the driver's."""
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


def _attributes(
    driver: str, attributes: Mapping[str, DeviceAttribute], *, with_lists: bool
) -> _Domains:
    domains = _Domains()
    for name, attribute in attributes.items():
        domain, identifier = _split(name, driver)
        try:
            value = _value(attribute, with_lists=with_lists)
        except CelError as error:
            raise CelRuntimeError(f"attribute {name}: {error}") from None
        domains.setdefault(domain, {})[identifier] = value
    return domains


def _value(attribute: DeviceAttribute, *, with_lists: bool) -> Value:
    if attribute.int_value is not None:
        return attribute.int_value
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.version_value is not None:
        return _version(attribute.version_value)
    if with_lists:
        for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
            if values:
                return list(values)
        if attribute.version_values:
            return [_version(text) for text in attribute.version_values]
    raise CelRuntimeError("unsupported attribute value")


def _version(text: str) -> Value:
    try:
        return parse_semver(text)
    except EvaluationError as error:
        raise CelRuntimeError(f"parse semantic version: {error}") from None


def _not_bool(result: Value) -> CelRuntimeError:
    """Return the reference's error for a selector whose value is not a bool."""
    name = type_name(result)
    if name == "string":
        reason = "unsupported native conversion from string to 'bool'"
    else:
        reason = f"unsupported type conversion from '{name}' to bool"
    return CelRuntimeError(f"CEL result of type {name} could not be converted to bool: {reason}")
