"""CEL selectors of devices, evaluated once per device content.

docs/reference/08 §8.5.
"""

from __future__ import annotations

from collections import OrderedDict

from kubesched.errors import QuantityError
from kubesched.foundation.cel import CelCompileError, CelRuntimeError, CompiledSelector, DeviceInput
from kubesched.foundation.cel.device import DEVICE_COST_LIMIT
from kubesched.scheduler.plugins.dynamic_resources.device_content import DeviceContent

__all__ = ["DeviceSelectorError", "DeviceSelectors"]

_MAX_COMPILED = 512
# Cached results per device content.
_MAX_RESULTS = 256
# The steps of an evaluation, and how much of the cost of an expression is a step.
_STEPS_PER_EVALUATION = 15
_COST_PER_STEP = 10


class DeviceSelectorError(Exception):
    """A selector does not compile or fails on a device.

    The text names the kind of error.
    """


class DeviceSelectors:
    """Compiled selectors; their results are cached in the device contents."""

    def __init__(self, *, list_attributes: bool = False) -> None:
        """`list_attributes` is the gate DRAListTypeAttributes."""
        self._list_attributes = list_attributes
        # The work so far, in the steps of a search for devices.
        self.steps = 0
        self._compiled: OrderedDict[str, CompiledSelector | str] = OrderedDict()

    def matches(self, expression: str, content: DeviceContent) -> bool:
        """Whether the expression matches the device; raises DeviceSelectorError."""
        result = content.selected.get(expression)
        if result is None:
            result = self._evaluate(expression, content)
            if len(content.selected) >= _MAX_RESULTS:
                content.selected.clear()
            content.selected[expression] = result
        if isinstance(result, str):
            raise DeviceSelectorError(result)
        return result

    def _evaluate(self, expression: str, content: DeviceContent) -> bool | str:
        selector = self._compile(expression)
        if isinstance(selector, str):
            return selector
        try:
            if not isinstance(content.prepared, DeviceInput):
                content.prepared = self._prepare(content)
            selected, cost = selector.selects_at_cost(content.prepared)
            self.steps += _STEPS_PER_EVALUATION + cost // _COST_PER_STEP
            return selected
        except (CelRuntimeError, QuantityError) as exc:
            self.steps += DEVICE_COST_LIMIT // _COST_PER_STEP  # it may have been reached
            return f"CEL runtime error: {exc}"

    def _prepare(self, content: DeviceContent) -> DeviceInput:
        device = content.device
        return DeviceInput(
            content.driver,
            device.attributes,
            device.capacity,
            content.allows_sharing,
            list_attributes=self._list_attributes,
        )

    def _compile(self, expression: str) -> CompiledSelector | str:
        compiled = self._compiled.get(expression)
        if compiled is None:
            self.steps += 2 * len(expression)
            try:
                compiled = CompiledSelector.compile(
                    expression, list_attributes=self._list_attributes
                )
            except CelCompileError as exc:
                compiled = f"CEL compile error: {exc}"
            self._compiled[expression] = compiled
            if len(self._compiled) > _MAX_COMPILED:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(expression)
        return compiled
