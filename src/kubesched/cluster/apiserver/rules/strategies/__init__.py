"""Strategies: the defaulting, admission and validation of each kind."""
