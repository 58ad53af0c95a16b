"""Device selectors: the variables of a device, and errors at evaluation."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kubesched.api.dynamic_resources import DeviceAttribute, DeviceCapacity
from kubesched.foundation.cel import CelCompileError, CelRuntimeError, CompiledSelector, DeviceInput

DRIVER = "gpu.example.com"
ATTRIBUTES = {
    "model": DeviceAttribute(string_value="A100"),
    "numa": DeviceAttribute(int_value=0),
    "cores": DeviceAttribute(int_value=30),
    "ecc": DeviceAttribute(bool_value=True),
    "driverVersion": DeviceAttribute(version_value="2.0.0"),
    "example.com/rack": DeviceAttribute(string_value="r1"),
    "example.com/deep/name": DeviceAttribute(string_value="split at the first slash"),
}
CAPACITY = {"memory": DeviceCapacity("40Gi"), "example.com/lanes": DeviceCapacity("16")}
GPU = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'


def outcome(expression: str) -> bool | str:
    """Return the result of a selector for the device above: true, false, or the error."""
    try:
        return CompiledSelector.compile(expression).matches(DRIVER, ATTRIBUTES, CAPACITY, None)
    except CelRuntimeError as error:
        return str(error)


class Case(NamedTuple):
    expression: str
    want: bool | str


CASES = {
    "the driver is a string": Case(f'device.driver == "{DRIVER}"', True),
    "a device is not shared unless it says so": Case("device.allowMultipleAllocations", False),
    "a bare name is in the driver's domain": Case(f'{GPU}.model == "A100"', True),
    "a qualified name is in its own": Case('device.attributes["example.com"].rack == "r1"', True),
    "the first slash splits": Case('"deep/name" in device.attributes["example.com"]', True),
    "an index is a selection": Case(f'{GPU}["model"] == "A100"', True),
    "an unknown domain is empty": Case('size(device.attributes["nothing"]) == 0', True),
    "an unknown domain has no names": Case('device.attributes["nothing"].x == 1', "no such key: x"),
    "an unknown domain is not in the map": Case('"nothing" in device.attributes', False),
    "an unknown domain is there for optional lookup": Case(
        'device.attributes[?"nothing"].hasValue()', True
    ),
    "an unknown name is not there for optional lookup": Case(f"{GPU}.?nope.hasValue()", False),
    "only real domains are walked": Case("device.attributes.all(d, d.endsWith('.com'))", True),
    "has of a known name": Case(f"has({GPU}.model)", True),
    "has of an unknown name": Case(f"has({GPU}.nope)", False),
    "an unknown name": Case(f'{GPU}.nope == "x"', "no such key: nope"),
    "an attribute may be the answer": Case(f"{GPU}.ecc", True),
    "text is no answer": Case(
        f"{GPU}.model",
        "CEL result of type string could not be converted to bool: "
        "unsupported native conversion from string to 'bool'",
    ),
    "a number is no answer": Case(
        f"{GPU}.numa",
        "CEL result of type int could not be converted to bool: "
        "unsupported type conversion from 'int' to bool",
    ),
    "numbers compare across types": Case(f"{GPU}.numa < 1.5", True),
    "different types are not equal": Case(f'{GPU}.numa == "0"', False),
    "different types have no order": Case(
        f'{GPU}.model < 3 || {GPU}.numa > "a"', "no such overload"
    ),
    "text is no condition": Case(f"{GPU}.model ? true : false", "no such overload"),
    "text is no term": Case(f"{GPU}.model && true", "no such overload"),
    "a true term outweighs an error": Case(f'{GPU}.nope == "x" || true', True),
    "a false term outweighs an error": Case(f"{GPU}.nope && false", False),
    "division by zero": Case(f"{GPU}.cores / {GPU}.numa == 1", "division by zero"),
    "modulus by zero": Case(f"{GPU}.cores % 0 == 1", "modulus by zero"),
    "a missing map key": Case(f'{{"B200": true}}[{GPU}.model]', "no such key: A100"),
    "an absent optional has no value": Case(
        f'{GPU}.?nope.value() == "x"', "optional.none() dereference"
    ),
    "orValue": Case(f"{GPU}.?fast.orValue(false) || {GPU}.ecc", True),
    "bind": Case(f"cel.bind(m, {MEMORY}, m.compareTo(quantity('16Gi')) > 0)", True),
    "a version against a version": Case(
        f'{GPU}.driverVersion.isGreaterThan(semver("1.9.0"))', True
    ),
    "a version against text, on the left": Case(
        f'{GPU}.driverVersion == "2.0.0"', "no such overload"
    ),
    "a version against text, on the right": Case(f'"A100" == {GPU}.driverVersion', False),
    "a version differs from text": Case(f'{GPU}.driverVersion != "2.0.0"', True),
    "build metadata does not count": Case(f'semver("2.0.0+build") == {GPU}.driverVersion', True),
    "a version as people write it": Case(
        f'{GPU}.driverVersion.compareTo(semver("v2", true)) == 0', True
    ),
    "a capacity in other units": Case(f'{MEMORY} == quantity("40960Mi")', True),
    "a sum on the left": Case(f'{MEMORY}.add(quantity("40Gi")) == quantity("80Gi")', True),
    "a sum on the right": Case(f'quantity("80Gi") == {MEMORY}.add({MEMORY})', "no such overload"),
    "a quantity that is none": Case(
        f'quantity("forty") == {MEMORY}',
        "quantities must match the regular expression "
        "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    "a method that the value does not have": Case(
        f"{GPU}.numa.isLessThan(semver('1.0.0'))",
        "no such overload: isLessThan(int, kubernetes.Semver)",
    ),
    "too many turns": Case(
        "".join(f"[1,2,3,4,5,6,7,8,9,10].all({name}, " for name in "abcdefg") + "a < 100" + ")" * 7,
        "operation cancelled: actual cost limit exceeded",
    ),
    "the limit is not an error that || absorbs": Case(
        "".join(f"[1,2,3,4,5,6,7,8,9,10].all({name}, " for name in "abcdefg")
        + "a < 100"
        + ")" * 7
        + " || true",
        "operation cancelled: actual cost limit exceeded",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_selector(case: Case) -> None:
    assert outcome(case.expression) == case.want


REFUSED = {
    "a number": ("1", "must evaluate to bool or the unknown type, not int"),
    "a value of unknown type": ("dyn(true)", "must evaluate to bool or the unknown type, not dyn"),
    "a list": ("[device.driver]", "must evaluate to bool or the unknown type, not list(string)"),
    "a name that is not declared": ("gpu == 1", "undeclared reference to 'gpu' (in container '')"),
    "a function that is not declared": (
        f"{GPU}.model.nosuchfunction()",
        "undeclared reference to 'nosuchfunction' (in container '')",
    ),
    "a field that is not there": ("device.model == 1", "undefined field 'model'"),
    "a comparison of types that are known to differ": (
        "1 == 1.0",
        "found no matching overload for '_==_' applied to '(int, double)'",
    ),
    "the driver is not a number": (
        "device.driver == 3",
        "found no matching overload for '_==_' applied to '(string, int)'",
    ),
    "a capacity is not a number": (
        f"{MEMORY} > 5",
        "found no matching overload for '_>_' applied to '(kubernetes.Quantity, int)'",
    ),
    "a list of an attribute and a number": (
        f"{GPU}.numa in [{GPU}.cores, 5]",
        "expected type 'any' but found 'int'",
    ),
    "walking an attribute": (
        f"{GPU}.model.all(x, true)",
        "expression of type 'any' cannot be range of a comprehension "
        "(must be list, map, or dynamic)",
    ),
    "a condition that is text": (
        f"{GPU}.all(k, k)",
        "compilation failed: ERROR: <input>:1:45: expected type 'bool' but found 'string'\n"
        f" | {GPU}.all(k, k)\n"
        " | ............................................^",
    ),
    "a pattern that is none": (f'{GPU}.model.matches("(")', "invalid matches argument"),
    "an attribute in a format": (
        f"'%s'.format([{GPU}.model]) == 'a'",
        "error during formatting: string clause can only be used on strings, bools, bytes, ints, "
        "doubles, maps, lists, types, durations, and timestamps, was given any",
    ),
    "an attribute in a list in a format": (
        f"'%s'.format([[{GPU}.model]]) == 'a'",
        "durations, and timestamps, was given any",
    ),
    "half an expression": ("device.driver ==", "Syntax error"),
    "nothing": ("", "Syntax error"),
}


@pytest.mark.parametrize(("expression", "words"), REFUSED.values(), ids=REFUSED)
def test_an_invalid_selector_is_refused(expression: str, words: str) -> None:
    with pytest.raises(CelCompileError) as caught:
        CompiledSelector.compile(expression)
    assert words in str(caught.value)


def test_an_invalid_version_matches_no_selector() -> None:
    attributes = {"v": DeviceAttribute(version_value="2.0")}
    with pytest.raises(CelRuntimeError, match=r"^attribute v: parse semantic version: No Major"):
        CompiledSelector.compile("true").matches(DRIVER, attributes, {}, None)


def test_lists_need_their_feature_gate() -> None:
    attributes = {"tags": DeviceAttribute(string_values=("a", "b"))}
    with pytest.raises(CelRuntimeError, match=r"^attribute tags: unsupported attribute value$"):
        CompiledSelector.compile("true").matches(DRIVER, attributes, {}, None)
    device = DeviceInput(DRIVER, attributes, {}, None, list_attributes=True)
    selector = CompiledSelector.compile(f"{GPU}.tags.exists(t, t == 'b')", list_attributes=True)
    assert selector.selects(device)


def test_a_shared_device() -> None:
    selector = CompiledSelector.compile("device.allowMultipleAllocations")
    assert selector.matches(DRIVER, {}, {}, True)


def test_a_capacity_may_be_text() -> None:
    selector = CompiledSelector.compile(f'{MEMORY}.isLessThan(quantity("1Gi"))')
    assert selector.matches(DRIVER, {}, {"memory": "512Mi"}, None)
