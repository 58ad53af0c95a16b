"""The source of slices: the drivers' slices with the taints of rules.

docs/reference/08 §3.6.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kubesched.api import Device, DeviceTaintRule, ResourceSlice
from kubesched.framework import Handle
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures

__all__ = ["follow_slices", "with_rules"]

OnSlice = Callable[[ResourceSlice | None, ResourceSlice | None], None]


def follow_slices(handle: Handle, features: DeviceFeatures, changed: OnSlice) -> None:
    """Call `changed` for every added, changed and deleted slice."""
    slices = handle.lister(ResourceSlice)
    if not features.device_taint_rules:
        slices.follow(changed)
        return
    tracker = _TaintRules(changed)
    handle.lister(DeviceTaintRule).follow(tracker.rule_changed)
    slices.follow(tracker.slice_changed)


class _TaintRules:
    """Adds the taints of DeviceTaintRules to the devices that they select."""

    def __init__(self, changed: OnSlice) -> None:
        self._changed = changed
        self._rules: dict[str, DeviceTaintRule] = {}
        self._published: dict[str, ResourceSlice] = {}
        self._tainted: dict[str, ResourceSlice] = {}

    def slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        changed = old if new is None else new
        assert changed is not None
        name = changed.metadata.name
        before = self._tainted.pop(name, None)
        if new is None:
            self._published.pop(name, None)
            self._changed(before, None)
            return
        self._published[name] = new
        tainted = self._tainted[name] = with_rules(new, tuple(self._rules.values()))
        self._changed(before, tainted)

    def rule_changed(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if new is not None:
            self._rules[new.metadata.name] = new
        elif old is not None:
            self._rules.pop(old.metadata.name, None)
        rules = tuple(self._rules.values())
        for name, published in self._published.items():
            tainted = with_rules(published, rules)
            before = self._tainted[name]
            if tainted.spec.devices != before.spec.devices:
                self._tainted[name] = tainted
                self._changed(before, tainted)


def with_rules(published: ResourceSlice, rules: tuple[DeviceTaintRule, ...]) -> ResourceSlice:
    """Return the slice with the taints of rules after those of the driver."""
    spec = published.spec
    devices = tuple(_with_taints(published, device, rules) for device in spec.devices)
    if devices == spec.devices:
        return published
    return replace(published, spec=replace(spec, devices=devices))


def _with_taints(
    published: ResourceSlice, device: Device, rules: tuple[DeviceTaintRule, ...]
) -> Device:
    taints = tuple(rule.spec.taint for rule in rules if _matches(rule, published, device))
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def _matches(rule: DeviceTaintRule, published: ResourceSlice, device: Device) -> bool:
    """Whether a rule selects the device.

    Without a selector it selects all, as upstream.
    """
    selector = rule.spec.device_selector
    if selector is None:
        return True
    spec = published.spec
    return all(
        selected is None or selected == actual
        for selected, actual in (
            (selector.driver, spec.driver),
            (selector.pool, spec.pool.name),
            (selector.device, device.name),
        )
    )
