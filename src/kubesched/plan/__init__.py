"""Plans for whole clusters: the fewest nodes, and the moves that get there."""

from kubesched.plan.applying.plan_applier import AppliedPlan
from kubesched.plan.cluster_size import size_cluster
from kubesched.plan.consolidation import consolidate
from kubesched.plan.draining import plan_drain
from kubesched.plan.moving.planned_waves import PlannedMove, PlannedWave, WaveStep
from kubesched.plan.plan_results import BlockedPod, Consolidation, Drain, Sizing, Upgrade
from kubesched.plan.reading.planning_policy import PlanningPolicy
from kubesched.plan.upgrading import plan_upgrade

__all__ = [
    "AppliedPlan",
    "BlockedPod",
    "Consolidation",
    "Drain",
    "PlannedMove",
    "PlannedWave",
    "PlanningPolicy",
    "Sizing",
    "Upgrade",
    "WaveStep",
    "consolidate",
    "plan_drain",
    "plan_upgrade",
    "size_cluster",
]
