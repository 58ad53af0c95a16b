"""The Kubernetes scheduler, in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesched.foundation.client.connect import connect
    from kubesched.scheduler.scheduler import Scheduler

__all__ = ["Scheduler", "__version__", "connect"]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    """Import a name at its first use, so that importing `kubesched.api` alone stays cheap."""
    if name == "Scheduler":
        from kubesched.scheduler.scheduler import Scheduler

        return Scheduler
    if name == "connect":
        from kubesched.foundation.client.connect import connect

        return connect
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})
