"""An API server inside this process: storage, rules, and HTTP if wanted.

`Store` holds the objects; `LocalApi` is the way to it for everything that talks to an API
server.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.local_api import Fault, Faults, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["Fault", "Faults", "LocalApi", "Store"]
