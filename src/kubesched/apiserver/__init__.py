"""The embedded cluster: an API server's storage and rules, inside this process.

`Store` holds the objects; `LocalApi` is the way to it for everything that talks to an API
server.
"""

from __future__ import annotations

from kubesched.apiserver.local import Fault, Faults, LocalApi
from kubesched.apiserver.store import Store

__all__ = ["Fault", "Faults", "LocalApi", "Store"]
