"""Carries out a plan: on a cluster, or on a copy of it in virtual time."""
