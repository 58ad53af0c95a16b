"""What makes pods from workloads, keeps nodes and volumes in order, and removes what is left over.

Each kind has plans: plain functions from what is there to what is to be done. `Controllers` follows
the cluster, asks for plans and carries them out.
"""

from __future__ import annotations

from kubesched.cluster.controllers.control_loop import Controllers
from kubesched.cluster.controllers.garbage_collection import GarbageCollector

__all__ = ["Controllers", "GarbageCollector"]
