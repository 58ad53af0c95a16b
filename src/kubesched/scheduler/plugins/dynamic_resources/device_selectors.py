"""Selectors of devices, each evaluated once per content of a device (docs/reference/08 §8.5)."""

from __future__ import annotations

from collections import OrderedDict

from kubesched.errors import QuantityError
from kubesched.foundation.cel import CelCompileError, CelRuntimeError, CompiledSelector, DeviceInput
from kubesched.scheduler.plugins.dynamic_resources.device_content import DeviceContent

__all__ = ["DeviceSelectorError", "DeviceSelectors"]

_COMPILED_KEPT = 512
# A device remembers what so many selectors said; more come only with claims of their own.
_ANSWERS_KEPT = 256


class DeviceSelectorError(Exception):
    """A selector that does not compile, or fails on a device: text with the kind of error."""


class DeviceSelectors:
    """Compiled selectors; what they say of a device is kept with its content."""

    def __init__(self, *, list_attributes: bool = False) -> None:
        """`list_attributes` is the gate DRAListTypeAttributes."""
        self._list_attributes = list_attributes
        self._compiled: OrderedDict[str, CompiledSelector | str] = OrderedDict()

    def matches(self, expression: str, content: DeviceContent) -> bool:
        """Whether the device is what the expression asks for; raises SelectorError."""
        answer = content.selected.get(expression)
        if answer is None:
            answer = self._evaluate(expression, content)
            if len(content.selected) >= _ANSWERS_KEPT:
                content.selected.clear()
            content.selected[expression] = answer
        if isinstance(answer, str):
            raise DeviceSelectorError(answer)
        return answer

    def _evaluate(self, expression: str, content: DeviceContent) -> bool | str:
        selector = self._compile(expression)
        if isinstance(selector, str):
            return selector
        try:
            if not isinstance(content.prepared, DeviceInput):
                content.prepared = self._prepare(content)
            return selector.selects(content.prepared)
        except (CelRuntimeError, QuantityError) as exc:
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
            try:
                compiled = CompiledSelector.compile(
                    expression, list_attributes=self._list_attributes
                )
            except CelCompileError as exc:
                compiled = f"CEL compile error: {exc}"
            self._compiled[expression] = compiled
            if len(self._compiled) > _COMPILED_KEPT:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(expression)
        return compiled
