"""What makes pods from workloads, and removes what nobody owns any more.

Each kind has a plan: a plain function from what is there to what is to be done. `Controllers`
follows the cluster, asks for plans and carries them out.
"""

from __future__ import annotations

from kubesched.cluster.controllers.control_loop import Controllers

__all__ = ["Controllers"]
