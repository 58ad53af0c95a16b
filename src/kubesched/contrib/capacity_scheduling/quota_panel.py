"""The panel of quotas on the page: used amounts and limits per namespace."""

from __future__ import annotations

from kubesched.contrib.amounts import shown
from kubesched.contrib.capacity_scheduling.elastic_quotas import ElasticQuotas, Quota, QuotaTrial
from kubesched.framework import Panel, PanelMark, PanelMeter, PanelRow
from kubesched.framework.panels import Tone

__all__ = ["quota_panel"]

_CALM: Tone = ""


def quota_panel(quotas: ElasticQuotas) -> Panel:
    """Return a row for all quotas together, and one for each namespace."""
    trial = QuotaTrial(quotas)
    found = sorted(quotas, key=lambda each: each.namespace)
    rows = [_row(quotas, trial, each) for each in found]
    borrowing = sum(1 for row in rows if row.state == "borrows")
    summary = f"Namespaces with a quota: {len(rows)}. Of these, {borrowing} borrow."
    if not rows:
        return Panel("Elastic quotas", "There is no ElasticQuota.")
    return Panel("Elastic quotas", summary, rows=(_all(quotas), *rows))


def _all(quotas: ElasticQuotas) -> PanelRow:
    meters = []
    for name, limit in sorted(quotas.guaranteed.items()):
        used = quotas.total[name]
        meters.append(_meter(name, used, limit, f"{shown(name, used)} of {shown(name, limit)}"))
    is_full = any(quotas.total[name] >= limit for name, limit in quotas.guaranteed.items())
    return PanelRow(
        "all namespaces",
        state="nothing to borrow" if is_full else "",
        tone="warm" if is_full else "",
        text="What all of them use, of what their min guarantees.",
        meters=tuple(meters),
    )


def _row(quotas: ElasticQuotas, trial: QuotaTrial, quota: Quota) -> PanelRow:
    used = quotas.used(quota.namespace)
    meters = []
    for name in sorted({*quota.min, *quota.max}):
        least, most = quota.min.get(name, 0), quota.max.get(name)
        width = most if most is not None else max(least, used[name])
        text = f"{shown(name, used[name])} of {shown(name, width)}"
        marks: tuple[PanelMark, ...] = ()
        if width and 0 < least <= width:
            marks = (PanelMark(least / width, f"min {shown(name, least)}"),)
        if most is None:
            text = f"{shown(name, used[name])}, no max"
        meters.append(_meter(name, used[name], width, text, marks))
    state, tone = "within its min", _CALM
    if trial.is_over_min(quota, {}):
        state, tone = "borrows", "warm"
    if any(used[name] >= most > 0 for name, most in quota.max.items()):
        state, tone = "at its max", "bad"
    return PanelRow(quota.namespace, state, tone, f"ElasticQuota {quota.name}", tuple(meters))


def _meter(
    name: str, used: int, width: int, text: str, marks: tuple[PanelMark, ...] = ()
) -> PanelMeter:
    return PanelMeter(name, min(used / width, 1.0) if width > 0 else 0.0, text, marks)
