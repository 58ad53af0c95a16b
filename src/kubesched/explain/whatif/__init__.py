"""What-if analysis: a plan of changes, its simulation in virtual time, and the difference."""

from kubesched.explain.whatif.difference import GroupUse, Move, Waiting, WhatIf
from kubesched.explain.whatif.plan import Plan
from kubesched.explain.whatif.playing import play

__all__ = ["GroupUse", "Move", "Plan", "Waiting", "WhatIf", "play"]
