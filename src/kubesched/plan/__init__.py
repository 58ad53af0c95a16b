"""Plans for whole clusters: the fewest nodes, and the moves that get there."""

from kubesched.plan.consolidation import consolidate
from kubesched.plan.moving.planned_waves import PlannedMove, PlannedWave
from kubesched.plan.plan_results import Consolidation
from kubesched.plan.reading.planning_policy import PlanningPolicy

__all__ = ["Consolidation", "PlannedMove", "PlannedWave", "PlanningPolicy", "consolidate"]
