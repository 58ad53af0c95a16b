"""What would happen if: the plan, the run in virtual time, and the difference it makes."""

from kubesched.explain.whatif.difference import GroupUse, Move, Waiting, WhatIf
from kubesched.explain.whatif.plan import Plan
from kubesched.explain.whatif.playing import play

__all__ = ["GroupUse", "Move", "Plan", "Waiting", "WhatIf", "play"]
