"""Simulation of a cluster in virtual time, and comparison of scheduler configurations."""

from kubesched.sim.compare import Comparison, Difference
from kubesched.sim.divergence import Divergence, Side, first_divergence
from kubesched.sim.results import RunResult
from kubesched.sim.running import Results, run
from kubesched.sim.scenario import Configuration, Scenario
from kubesched.sim.scenario_file import load_scenario, parse_scenario
from kubesched.sim.values import ScenarioError

__all__ = [
    "Comparison",
    "Configuration",
    "Difference",
    "Divergence",
    "Results",
    "RunResult",
    "Scenario",
    "ScenarioError",
    "Side",
    "first_divergence",
    "load_scenario",
    "parse_scenario",
    "run",
]
