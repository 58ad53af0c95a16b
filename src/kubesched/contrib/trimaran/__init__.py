"""Trimaran: plugins that score nodes by their measured load."""

from kubesched.contrib.trimaran.load_variation import LoadVariationRiskBalancing
from kubesched.contrib.trimaran.low_risk import LowRiskOverCommitment
from kubesched.contrib.trimaran.target_load import TargetLoadPacking

__all__ = ["LoadVariationRiskBalancing", "LowRiskOverCommitment", "TargetLoadPacking"]
