"""The embedded API server: a store, the rules for its objects, and an HTTP front end.

`Store` holds the objects. `LocalApi` gives components in this process the same interface that a
client of an API server has.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.local_api import Fault, Faults, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["Fault", "Faults", "LocalApi", "Store"]
