"""The results that each extension point allows (docs/reference/04 §8.3)."""

from __future__ import annotations

from kubesched.framework import REJECTED, Code, Status

__all__ = ["illegal"]

_YES_NO = frozenset({Code.SUCCESS, Code.ERROR}) | REJECTED
_YES_SKIP = frozenset({Code.SUCCESS, Code.ERROR, Code.SKIP})

# Permit returns a Wait, not a status with that code.
LEGAL: dict[str, frozenset[Code]] = {
    "pre_enqueue": _YES_NO,
    "pre_filter": (_YES_NO | {Code.SKIP}) - {Code.PENDING},
    "add_pod": frozenset({Code.SUCCESS, Code.ERROR}),
    "remove_pod": frozenset({Code.SUCCESS, Code.ERROR}),
    "filter": _YES_NO,
    "filter_nodes": _YES_NO,
    "post_filter": _YES_NO,
    "pre_score": _YES_SKIP,
    "reserve": _YES_NO,
    "permit": _YES_NO,
    "pre_bind_pre_flight": _YES_SKIP,
    "pre_bind": _YES_NO,
    "bind": _YES_NO | {Code.SKIP},
}


def illegal(method: str, status: object) -> str:
    """Return why a result is illegal; empty if it is legal."""
    if not isinstance(status, Status):
        return f"answered {status!r}, which is not a Status"
    if status.code not in LEGAL[method]:
        return f"answered {status.code.label}"
    if status.plugin:
        return f"filled in the plugin of its status ({status.plugin!r}); the runtime does that"
    return ""
