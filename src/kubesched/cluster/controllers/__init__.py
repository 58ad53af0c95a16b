"""Stand-ins for the controllers of the Kubernetes controller manager.

A controller is a plan function with its triggers: from the cached objects to the writes that are
needed. `Controllers` watches the cluster, calls the plan functions and carries out their plans.
"""

from __future__ import annotations

from kubesched.cluster.controllers.control_loop import Controllers
from kubesched.cluster.controllers.garbage_collection import GarbageCollector

__all__ = ["Controllers", "GarbageCollector"]
